/* A layer as images for others have it: a tar of what it adds, and .wh. names for what it removes. */
#ifndef STORE_EXPORT_TAR_H
#define STORE_EXPORT_TAR_H
#include "store/image_tree.h"
#include "store/blob.h"

enum export_compress { EXPORT_NONE, EXPORT_GZIP, EXPORT_ZSTD };

struct export_blob {
	char diff[SHA_HEX + 1];	  /* SHA-256 of the tar */
	char digest[SHA_HEX + 1]; /* of what is in the file: the tar as it was compressed */
	uint64_t size;		  /* of that */
};

/*
 * Writes the delta T (as tree_delta makes it; its data lie in IT's blobs) to FD, an empty file. ROOT:
 * whether the root directory's own attributes are in it. -1 after fail().
 */
int export_tar(struct image_tree *it, const struct tree *t, int root, enum export_compress compress,
	       int fd, struct export_blob *b);
#endif
