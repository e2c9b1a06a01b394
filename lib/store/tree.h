/*
 * A file system tree in memory: what an import has read so far, before it becomes a layer.
 * Names come from hostile archives, so a path never leaves the tree: ".." stops at its root, and
 * a symbolic link on the way is followed inside the tree only.
 */
#ifndef STORE_TREE_H
#define STORE_TREE_H
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/sha256.h"

enum {
	TREE_BLOCK = 4096,	  /* unit of extents */
	TREE_ENTRIES = 8000000,	  /* names in one tree */
	TREE_DEPTH = 2000,	  /* directories below each other */
	TREE_PATH = 65536,	  /* bytes of a path in an archive */
	TREE_TARGET = 4095,	  /* bytes of a symbolic link (PATH_MAX - 1) */
	TREE_XATTRS = 128 * 1024, /* bytes of all names and values of one inode */
	TREE_BLOBS = 512,	  /* files that the data of one tree lie in */
};

/* A file of data, named by its SHA-256 in hex; "" while it is being written. */
struct tree_blob {
	char sha[SHA_HEX + 1];
	uint64_t blocks;
};

/* N blocks of a file from block LBLK on lie at block DBLK of the blob of index DEV. */
struct tree_extent {
	uint32_t lblk, n, dblk, dev;
};

struct tree_xattr {
	struct tree_xattr *next; /* sorted by name */
	uint16_t vlen;
	uint8_t nlen;
	char bytes[]; /* the whole name with its NUL, then the value */
};

struct tree_inode {
	uint32_t mode, uid, gid;
	uint32_t names; /* dentries that point here; a directory has one (the root none) */
	int64_t mtime;
	uint32_t nsec;
	uint32_t rdev; /* devices: as the kernel's new_encode_dev */
	uint64_t size; /* regular files: bytes; symbolic links: length of the target */
	uint64_t pos;  /* the layer writer's: byte offset in the metadata, 0 before */
	struct tree_xattr *xattr;
	union {
		struct tree_dentry *first; /* directories: children, in no order */
		struct tree_extent *ext;   /* regular files: ascending, may have holes between */
		char *target;		   /* symbolic links */
	};
	struct tree_inode *up; /* directories: the parent; the root's is itself */
	uint32_t n;	       /* children or extents */
	uint32_t depth;
};

struct tree_dentry {
	struct tree_inode *ino, *dir;
	struct tree_dentry *chain, *next, *prev;
	uint32_t layer; /* the one that made or renewed it */
	uint8_t len;
	char name[];
};

struct tree;

struct tree *tree_new(void); /* one root directory, 0755, of user 0, time 0 */
void tree_free(struct tree *t);
struct tree_inode *tree_root(const struct tree *t);
void tree_next_layer(struct tree *t); /* what comes now lies over what is there */

/*
 * The inode for a new object of type MODE at PATH (or NAME in DIR). What is there gives way, except
 * that a directory keeps its children under a directory. Missing parents are made. The result
 * has MODE and is otherwise blank; the caller fills it. NULL after fail().
 */
struct tree_inode *tree_add(struct tree *t, const char *path, mode_t mode);
struct tree_inode *tree_add_at(struct tree *t, struct tree_inode *dir, const char *name,
			       mode_t mode);
/* Another name for what TARGET names now; a link to a directory is refused. */
int tree_link(struct tree *t, const char *path, const char *target);
int tree_link_at(struct tree *t, struct tree_inode *dir, const char *name, struct tree_inode *ino);
/* If PATH ends in an OCI whiteout name, does what it says and returns 1; otherwise 0. */
int tree_whiteout(struct tree *t, const char *path);

/*
 * Moves all there is below PATH, an absolute path as import_at() gives it: the root becomes its last
 * directory, those above it are 0755 of user 0, time 0. -1 after fail().
 */
int tree_sink(struct tree *t, const char *path);

/* What PATH names, links on the way followed inside the tree but not the last; NULL if nothing. */
struct tree_inode *tree_lookup(struct tree *t, const char *path);

int tree_set_target(struct tree_inode *ino, const char *target);
/* Adds or replaces; at most 65535 bytes of value. */
int tree_set_xattr(struct tree_inode *ino, const char *name, const void *val, size_t len);
void tree_clear_xattrs(struct tree_inode *ino);
void tree_add_extent(struct tree_inode *ino, struct tree_extent e);

/* The index of the blob SHA, added if the tree has it not; "" always adds. -1 after fail(). */
int64_t tree_blob(struct tree *t, const char *sha, uint64_t blocks);
/* Those the tree knows, used or not; valid until the next tree_blob(). */
struct tree_blob *tree_blobs(const struct tree *t, uint32_t *n);

/* The children of DIR sorted by name as unsigned bytes; an array to free. */
struct tree_dentry **tree_sorted(const struct tree_inode *dir);
#endif
