/*
 * The metadata of a layer: a tree as an uncompressed EROFS whose file data lie on extra devices, one
 * for each blob.
 */
#ifndef STORE_EROFS_WRITE_H
#define STORE_EROFS_WRITE_H
#include <stddef.h>
#include <stdint.h>

#include "store/tree.h"

struct erofs_stats {
	uint64_t inodes;       /* distinct */
	uint64_t bytes;	       /* of the metadata file */
	struct tree_blob *dev; /* the devices in order: the blobs that files use; to free */
	size_t ndev;
};

/*
 * Writes the file system to FD (an empty file), the same bytes for the same tree. The device slots'
 * tags are the blobs' names. The extents of regular files must ascend and lie inside their blobs.
 * -1 after fail().
 */
int erofs_write(int fd, const struct tree *t, struct erofs_stats *stats);
#endif
