/* The metadata of a layer: a tree as an uncompressed EROFS whose file data lies on a second device.
 */
#ifndef STORE_EROFS_WRITE_H
#define STORE_EROFS_WRITE_H
#include <stdint.h>

#include "store/tree.h"

enum { EROFS_TAG = 64 };

struct erofs_stats {
	uint64_t inodes; /* distinct */
	uint64_t bytes;	 /* of the metadata file */
};

/*
 * Writes the file system to FD (an empty file), the same bytes for the same tree. DATA_BLOCKS is
 * the length of the data file in blocks, TAG 64 characters that name it (the device slot's tag).
 * The extents of regular files must ascend and lie inside the data file. -1 after fail().
 */
int erofs_write(int fd, const struct tree *t, uint64_t data_blocks, const char tag[EROFS_TAG],
		struct erofs_stats *stats);
#endif
