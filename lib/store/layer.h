/*
 * Layers: img/layer/DIGEST/{meta,info}, and the blobs their files' data lie in.
 *
 *   meta    the file system without its data: EROFS with one extra device for each blob
 *   info    key = value: meta_sha256, device = SHA BLOCKS (in the order of meta's device table),
 *           meta_bytes, data_bytes, files, kind, source, at, depot
 *   img/data/SHA   a blob: named by its SHA-256, shared by all layers that refer to it
 *
 * DIGEST is the SHA-256 in hex of the lines META_SHA, DEV1_SHA, DEV2_SHA ..., so it covers metadata
 * and data. A layer fetched from a depot has its blobs there, in DEPOT/img/data, until they are cached.
 */
#ifndef STORE_LAYER_H
#define STORE_LAYER_H
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "store/image.h"
#include "store/tree.h"

enum { LAYER_DEVICES = TREE_BLOBS, LAYER_AT = 1024 };

struct layer {
	char digest[IMAGE_DIGEST + 1];
	char meta[TREE_SHA + 1]; /* SHA-256 of the metadata */
	struct tree_blob *dev;
	size_t ndev;
	uint64_t meta_bytes, data_bytes, files;
	char *kind;   /* directory, tar, oci, docker, snapshot ... */
	char *source; /* what it was made of, for people */
	char *at;     /* "" or the absolute path of the subtree that it alone holds */
	char *depot;  /* "" or the directory whose img/data has what is not here */
};

/* From its info file. -1 after fail(), ENOENT kept in errno. */
int layer_load(const struct state *st, const char *digest, struct layer *l);
void layer_free(struct layer *l);
#define autolayer __attribute__((cleanup(layer_free))) struct layer

/* Is AT "" or an absolute path other than "/", without "..", ".", empty parts and a slash at its end? */
int layer_at_valid(const char *at);

int layer_digest(const struct layer *l, char hex[TREE_SHA + 1]); /* reckoned; -1 after fail() */
/* The text of an info file. */
void layer_info(const struct layer *l, struct buf *b);

/* The absolute path of the metadata, and of device I: here if it is here, else in the depot. To free.
 */
char *layer_meta_path(const struct state *st, const struct layer *l);
char *layer_blob_path(const struct state *st, const struct layer *l, size_t i);
int layer_blob_here(const struct state *st, const struct layer *l, size_t i); /* 1 or 0 */
#endif
