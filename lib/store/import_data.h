/* The data file of a layer in the making: the contents of its files, each from a block's start. */
#ifndef STORE_IMPORT_DATA_H
#define STORE_IMPORT_DATA_H
#include <stddef.h>
#include <stdint.h>

#include "store/tree.h"

enum { SHA_HEX = 64 };

struct import_data;

/* Appends to FD, an empty file opened for reading and writing, which stays the caller's. */
struct import_data *import_data_open(int fd);
void import_data_close(struct import_data *d);

/*
 * One file at a time: begin for INO of SIZE bytes, then pieces at ascending offsets (what lies
 * between is a hole), then end, which gives INO its extents. A file whose content is there already
 * shares it. -1 after fail().
 */
int import_data_begin(struct import_data *d, struct tree_inode *ino, uint64_t size);
int import_data_write(struct import_data *d, uint64_t off, const void *p, size_t n);
int import_data_end(struct import_data *d);

/*
 * All is read: drops the content that no file of T uses any more (a later layer replaced it),
 * writes out what is held back, and gives the length in blocks and the SHA-256 in hex.
 */
int import_data_finish(struct import_data *d, struct tree *t, uint64_t *blocks,
		       char sha[SHA_HEX + 1]);
#endif
