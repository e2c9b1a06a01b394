/*
 * What EROFS looks like on disk, as far as layers use it: the kernel's fs/erofs/erofs_fs.h
 * (Documentation/filesystems/erofs.rst). Numbers are little-endian there.
 */
#ifndef STORE_EROFS_DISK_H
#define STORE_EROFS_DISK_H
#include <stddef.h>
#include <stdint.h>

#include "store/tree.h"

enum {
	EROFS_BLOCK = TREE_BLOCK,
	EROFS_BLOCK_BITS = 12,
	EROFS_SLOT = 32, /* unit of inode numbers */
	EROFS_INODE = 64,
	EROFS_DIRENT = 12, /* nid (8), offset of the name (2), type, 0 */
	EROFS_SB_AT = 1024,
	EROFS_DEV_AT = 1152,	/* the first device slot, in units of 128 bytes: 9 */
	EROFS_COMPAT = 1 | 2,	/* checksum; the time in an inode is its mtime */
	EROFS_INCOMPAT = 4 | 8, /* chunked files, device table */
	EROFS_FLAT_PLAIN = 0,
	EROFS_FLAT_INLINE = 2,
	EROFS_CHUNK_BASED = 4,
	EROFS_CHUNK_INDEXES = 0x20,
	EROFS_XATTR_HEAD = 12, /* before the attributes of an inode */
};

static const uint32_t EROFS_MAGIC = 0xe0f5e1e2, EROFS_NULL_BLOCK = 0xffffffff;

struct erofs_super {
	uint32_t magic, checksum, compat;
	uint8_t blkszbits, extslots;
	uint16_t root_nid;
	uint64_t inos, build_time;
	uint32_t build_nsec, blocks, meta_blkaddr, xattr_blkaddr;
	uint8_t uuid[16], volume[16];
	uint32_t incompat;
	uint16_t compr, extra_devices, devt_slotoff;
	uint8_t rest[38];
};

struct erofs_device {
	uint8_t tag[64];
	uint32_t blocks, uniaddr;
	uint8_t rest[56];
};

struct erofs_inode {
	uint16_t format, xattr_icount, mode, reserved;
	uint64_t size;
	uint32_t u, ino, uid, gid;
	uint64_t mtime;
	uint32_t nsec, nlink;
	uint8_t rest[16];
};

_Static_assert(sizeof(struct erofs_super) == 128, "superblock");
_Static_assert(sizeof(struct erofs_device) == 128, "device slot");
_Static_assert(sizeof(struct erofs_inode) == EROFS_INODE, "inode");

/* Index and length of an attribute's prefix; 0 if EROFS cannot hold it. */
int erofs_prefix(const char *name, size_t *len);
const char *erofs_prefix_text(int index); /* NULL if there is none */
uint8_t erofs_type(uint32_t mode);	  /* of a directory's entry; 0 if MODE has no type */
/* The checksum of a superblock: N bytes from it to the end of its block, its own field as 0. */
uint32_t erofs_checksum(const void *sb, size_t n);
#endif
