/*
 * Files that several blobs of a depot have are kept once: a layer that is pushed refers to the blobs
 * that are there, and only what is new goes into a new one.
 *
 *   DEPOT/img/index/SHA   of the blob SHA, for each run of blocks that is a file's: 8 bytes of its
 *                         SHA-256, its first block (4) and its length in blocks (4), little-endian
 *
 * An index only finds candidates. The bytes decide: an index that lies costs time, not truth.
 */
#ifndef STORE_DEPOT_INDEX_H
#define STORE_DEPOT_INDEX_H
#include "store/depot_dir.h"

/* Writes the index of L's device of that name unless there is one. L's blobs are on the node ST. */
int depot_index_layer(struct depot_tmp *t, const struct state *st, const struct layer *l,
		      const char *sha);

/*
 * Makes OUT of the layer L of the node ST: new data are published, its metadata are in T/meta. Adds
 * bytes written and bytes found there. 1 done, 0 nothing to share that would be worth it, -1 after
 * fail().
 */
int depot_share(struct depot_tmp *t, const struct state *st, const struct layer *l,
		struct layer *out, uint64_t *copied, uint64_t *shared);
#endif
