/* Names in one directory of a tree: what tree.c and tree_path.c share. */
#ifndef STORE_TREE_DIR_H
#define STORE_TREE_DIR_H
#include "store/tree.h"

struct tree {
	struct tree_inode *root;
	struct tree_dentry **hash;
	size_t entries, buckets; /* buckets: a power of two */
	uint32_t layer;
	struct tree_blob *blob;
	uint32_t nblob;
};

struct tree_inode *tree_new_inode(mode_t mode);
struct tree_dentry *tree_find(const struct tree *t, const struct tree_inode *dir, const char *name,
			      size_t len);
/* Gives INO a name that must not be taken yet; check tree_room first. */
struct tree_dentry *tree_attach(struct tree *t, struct tree_inode *dir, const char *name,
				size_t len, struct tree_inode *ino);
/* Takes a name away; its inode goes with its last name, and with a directory what is in it. */
void tree_detach(struct tree *t, struct tree_dentry *d);
void tree_put(struct tree *t, struct tree_inode *ino); /* one name, or one hold, less */
int tree_room(const struct tree *t, const struct tree_inode *dir, const char *name, size_t len);
struct tree_inode *tree_make_dir(struct tree *t, struct tree_inode *dir, const char *name,
				 size_t len);
#endif
