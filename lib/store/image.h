/*
 * Images: a name and a tag stand for an image record, a record lists layers from the lowest up.
 *
 *   img/layer/DIGEST, img/data/SHA     see layer.h
 *   img/image/DIGEST         the record: layer = DIGEST ..., env = K=V ..., workdir, user,
 *                            entrypoint ..., cmd ..., size_bytes, created_ms (key = value);
 *                            DIGEST = sha256 over all of it but created_ms
 *   img/name/NAME/TAG        a file that holds the image DIGEST; "/" in NAME is %2F
 *   img/name/%none/DIGEST    an image without a name
 *   img/tmp/X/               what is being made, locked by its maker; "hold" in it lists digests of
 *                            images, layers and blobs that stay as long as that lives
 *   img/gate                 held while img/lock is waited for, so that nobody starves
 *   img/lock                 shared while a box's spec is written, exclusive to publish and remove
 */
#ifndef STORE_IMAGE_H
#define STORE_IMAGE_H
#include <stddef.h>
#include <stdint.h>

#include "base/sha256.h"
#include "store/state.h"

enum { IMAGE_DIGEST = SHA_HEX, IMAGE_LAYERS = 64, IMAGE_NAME = 200, IMAGE_TAG = 63 };

struct image {
	char digest[IMAGE_DIGEST + 1];
	char (*layer)[IMAGE_DIGEST + 1]; /* lowest first */
	size_t nlayers;
	char **env;	   /* K=V, ends with NULL */
	char **entrypoint; /* ends with NULL; may be empty */
	char **cmd;
	char *workdir; /* "" if none */
	char *user;    /* "" if none: as -u takes it */
	uint64_t created_ms;
	uint64_t size_bytes; /* of all layers' files */
};

/* REF is NAME[:TAG] (tag "latest" if absent), or 8 or more digits of an image digest. */
int image_load(const struct state *st, const char *ref, struct image *img);
void image_free(struct image *img);

/*
 * img/lock, shared: no layer goes while it is held. A creation takes it before image_load and keeps
 * it until its spec (with its layer lines) is written. An fd to close, or -1 after fail().
 */
int image_hold(const struct state *st);

/* NAME[:TAG] apart, checked. -1 after fail(). */
int image_split(const char *ref, char name[IMAGE_NAME + 1], char tag[IMAGE_TAG + 1]);

/* All names, sorted; an image without one comes with an empty name. To free. */
struct image_name {
	char name[IMAGE_NAME + 1], tag[IMAGE_TAG + 1];
	char digest[IMAGE_DIGEST + 1];
};
int image_names(const struct state *st, struct image_name **v, size_t *n);

/* Writers of names: the caller holds no lock. REF to remove may be a digest: all its names go. */
int image_tag(const struct state *st, const char *ref, const char *newname);
int image_untag(const struct state *st, const char *ref);

/*
 * Removes records, layers and blobs that no name and no box uses, and what dead imports left. A box uses
 * what the "layer" and "*_digest" lines of its spec say. UNMOUNT (mnt_unmount) takes
 * RUN/layer/DIGEST off first; a layer that is busy there stays for the next time.
 */
int image_gc(const struct state *st, int (*unmount)(const char *path));
#endif
