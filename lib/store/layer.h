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
#include "store/state.h"
#include "store/tree.h"

enum { LAYER_DEVICES = TREE_BLOBS, LAYER_AT = 1024 };

struct layer {
	char digest[SHA_HEX + 1];
	char meta[SHA_HEX + 1]; /* SHA-256 of the metadata */
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
/* The same from the info file PATH, below the state directory. */
int layer_load_info(const struct state *st, const char *path, const char *digest, struct layer *l);
/*
 * The derived layer of DIGEST, which refers to local data for what was cached (store/cache.h): its
 * devices and metadata; its digest is DIGEST still. -1 after fail(), with ENOENT if there is none.
 */
int layer_load_derived(const struct state *st, const char *digest, struct layer *l);
char *layer_derived_meta_path(const struct state *st, const char *digest); /* to free */
void layer_free(struct layer *l);
#define autolayer __attribute__((cleanup(layer_free))) struct layer

/* The digests of all layers that are here, sorted; an array to free. -1 after fail(). */
int layer_list(const struct state *st, char (**digest)[SHA_HEX + 1], size_t *n);

/* Is AT "" or an absolute path other than "/", without "..", ".", empty parts and a slash at its end? */
int layer_at_valid(const char *at);

/*
 * Info and metadata of a layer, and its derived ones if there are any, are what their digests say.
 * -1 after fail(), which names the layer and the file.
 */
int layer_check(const struct state *st, const char *digest);

void layer_digest(const struct layer *l, char hex[SHA_HEX + 1]); /* reckoned from the info */
int layer_check_digest(const struct layer *l); /* it is its own; -1 after fail() */
/* The text of an info file. */
void layer_info(const struct layer *l, struct buf *b);
void layer_info_plain(const struct layer *l, struct buf *b); /* without "depot" */

/* The absolute path of the metadata, and of device I: here if it is here, else in the depot. To free.
 */
char *layer_meta_path(const struct state *st, const struct layer *l);
char *layer_blob_path(const struct state *st, const struct layer *l, size_t i);
/*
 * Device I, opened for reading: a regular file of the right length. A depot is written by others: no
 * link in it is followed, or it could show boxes what lies elsewhere on the node. -1 after fail().
 */
int layer_open_blob(const struct state *st, const struct layer *l, size_t i);
int layer_blob_here(const struct state *st, const struct layer *l, size_t i); /* 1 or 0 */
#endif
