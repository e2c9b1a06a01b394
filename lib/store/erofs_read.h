/*
 * The other way round from erofs_write.h: metadata of a layer as a tree. Only what our writer makes
 * is read (4 KiB blocks, extended inodes, plain or inline directories and links, files by chunk
 * index), and every number in it is checked: it may come from a depot that others write.
 */
#ifndef STORE_EROFS_READ_H
#define STORE_EROFS_READ_H
#include "store/tree.h"

/*
 * Reads the metadata in FD. DEV names the devices in the order of the device table and must agree
 * with it. NULL after fail(): it is damaged, or not ours.
 */
struct tree *erofs_read(int fd, const struct tree_blob *dev, size_t ndev);
#endif
