/*
 * Making layers and images: everything is built in img/tmp/XXXXXX under a lock and published by
 * rename, so a crash leaves only that directory, which the next stage or removal clears. What is
 * published is complete and on disk.
 */
#ifndef STORE_STAGE_H
#define STORE_STAGE_H
#include <limits.h>

#include "store/image.h"
#include "store/blob.h"
#include "store/layer.h"

struct stage {
	const struct state *st;
	int (*unmount)(const char *path); /* as image_gc takes it */
	int fd;				  /* the directory, locked */
	char path[PATH_MAX];
};

/* Clears what dead ones left and makes a new one. -1 after fail(). */
int stage_open(struct stage *s, const struct state *st, int (*unmount)(const char *path));
/* Removes it. R is the result so far, to be handed on: with R < 0 the message is kept. */
int stage_close(struct stage *s, int r);

/*
 * 1 if PATH ("data/SHA", "layer/DIGEST") is in img/ already, else 0; then it stays there until the stage
 * is closed, whoever collects meanwhile. -1 after fail().
 */
int stage_keep(struct stage *s, const char *path);
/* Keeps all layers of IMG, and their blobs with them. -1 after fail(): one is gone, say. */
int stage_keep_layers(struct stage *s, const struct image *img);

/* A new file of data for the tree T: an open import_data. NULL after fail(). */
struct blob *stage_data(struct stage *s, struct tree *t);
/* Finishes it: the file gets its name, and the tree's blob too. D is closed in any case. */
int stage_data_end(struct stage *s, struct blob *d);

/*
 * Writes T as metadata to META, an empty file; L gets their SHA-256, the devices and the sizes, but no
 * digest. -1 after fail(), and L may have devices then, too.
 */
int layer_write_meta(int meta, const struct tree *t, struct layer *l);

/*
 * Writes T as a layer into the stage. L has kind, source, at and depot already; the rest is filled
 * in. The layer may be known: then what is staged is dropped when it is published.
 */
int stage_layer(struct stage *s, const struct tree *t, struct layer *l);

/* A layer whose metadata COPY writes to the empty file META, and verifies; L is all of it. */
int stage_copy_layer(struct stage *s, const struct layer *l,
		     int (*copy)(void *arg, const struct layer *l, int meta), void *arg);

/*
 * Publishes what was staged, blobs first, then layers, and last an image of IMG's layers (its
 * digests; size_bytes is reckoned from their infos), named REF unless that is NULL. The image's digest
 * comes back in img->digest. An image without a name is kept until it is removed by its digest.
 */
int stage_publish(struct stage *s, struct image *img, const char *ref);
/* The same without a name: the image lives until the stage is closed, and as long as a box uses it. */
int stage_publish_held(struct stage *s, struct image *img);

/* Writes T as the derived metadata of the layer L->digest; L is filled in as by stage_layer. */
int stage_cache(struct stage *s, const struct tree *t, struct layer *l);
/* Publishes blobs of layers that are known, and derived metadata, in place of older ones. */
int stage_publish_cache(struct stage *s);
#endif
