/* The image directory itself, for the modules that write it. */
#ifndef STORE_IMAGE_DIR_H
#define STORE_IMAGE_DIR_H
#include <dirent.h>

#include "base/buf.h"
#include "store/image.h"

enum { IMAGE_PATH = 768 };
/* In a stage's directory: digests of images, layers and blobs that stay while it lives, one a line. */
#define STAGE_HOLD "hold"
#define IMAGE_NONE "%none" /* no name may begin with a percent sign */

int image_load_digest(const struct state *st, const char *digest, struct image *img);
int image_resolve(const struct state *st, const char *ref, char digest[IMAGE_DIGEST + 1]);

/*
 * The text of a record, of an image whose size_bytes is known. Sets its digest, which covers all but
 * created_ms, and created_ms unless it has one.
 */
int image_record(struct image *img, struct buf *b);
/* Sets size_bytes from the infos of its layers: metadata, and each blob once. -1 after fail(). */
int image_sum_sizes(const struct state *st, struct image *img);

/* Paths below the state directory. TAG may be NULL: the directory of all tags. */
int image_name_path(const char *name, const char *tag, char path[IMAGE_PATH]);
/*
 * The name that what REF stands for in ST is to have elsewhere: ASKED, else REF if that is a name. 1; 0
 * when REF is a digest and nothing was asked for; -1 after fail().
 */
int image_name_of(const struct state *st, const char *ref, const char *asked,
		  char name[IMAGE_NAME + 1], char tag[IMAGE_TAG + 1]);
int image_read_name(const struct state *st, const char *path, char digest[IMAGE_DIGEST + 1]);

/* Makes img/ and what is in it; takes img/lock exclusively: an fd, or -1 after fail(). */
int image_make(const struct state *st);
int image_lock(const struct state *st);

/* With img/lock held exclusively. NAME NULL: the image is kept without a name. */
int image_set_name(const struct state *st, const char *name, const char *tag, const char *digest);
int image_collect(const struct state *st, int (*unmount)(const char *path));
/* Removes staging directories that no living import holds. */
int image_sweep(const struct state *st);
#endif
