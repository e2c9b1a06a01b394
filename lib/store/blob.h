/* A blob in the making: the contents of its files, each from a block's start. */
#ifndef STORE_BLOB_H
#define STORE_BLOB_H
#include <stddef.h>
#include <stdint.h>

#include "store/tree.h"

struct blob;

/*
 * Appends to FD, an empty file opened for reading and writing, which stays the caller's; T gets a
 * blob for it. NULL after fail().
 */
struct blob *blob_open(int fd, struct tree *t);
int blob_close(struct blob *d);		   /* returns FD; -1 for NULL */
uint64_t blob_bytes(const struct blob *d); /* in it so far */

/*
 * One file at a time: begin for INO of SIZE bytes, then pieces at ascending offsets (what lies
 * between is a hole), then end, which gives INO its extents. A file whose content is there already
 * shares it. -1 after fail().
 */
int blob_begin(struct blob *d, struct tree_inode *ino, uint64_t size);
int blob_write(struct blob *d, uint64_t off, const void *p, size_t n);
int blob_end(struct blob *d);

/*
 * All is read: drops the content that no file of the tree uses any more (a later layer replaced it),
 * writes out what is held back, and gives the tree's blob its length and name, the SHA-256 in hex.
 */
int blob_finish(struct blob *d, char sha[SHA_HEX + 1]);
#endif
