/* A blob in the making: the contents of its files, each from a block's start. */
#ifndef STORE_IMPORT_DATA_H
#define STORE_IMPORT_DATA_H
#include <stddef.h>
#include <stdint.h>

#include "store/tree.h"

enum { SHA_HEX = TREE_SHA };

struct import_data;

/*
 * Appends to FD, an empty file opened for reading and writing, which stays the caller's; T gets a
 * blob for it. NULL after fail().
 */
struct import_data *import_data_open(int fd, struct tree *t);
int import_data_close(struct import_data *d);		 /* returns FD; -1 for NULL */
uint64_t import_data_bytes(const struct import_data *d); /* in it so far */

/*
 * One file at a time: begin for INO of SIZE bytes, then pieces at ascending offsets (what lies
 * between is a hole), then end, which gives INO its extents. A file whose content is there already
 * shares it. -1 after fail().
 */
int import_data_begin(struct import_data *d, struct tree_inode *ino, uint64_t size);
int import_data_write(struct import_data *d, uint64_t off, const void *p, size_t n);
int import_data_end(struct import_data *d);

/*
 * All is read: drops the content that no file of the tree uses any more (a later layer replaced it),
 * writes out what is held back, and gives the tree's blob its length and name, the SHA-256 in hex.
 */
int import_data_finish(struct import_data *d, char sha[SHA_HEX + 1]);
#endif
