/* Inodes of one tree made again in another: what tree_ops.c and tree_delta.c share. */
#ifndef STORE_TREE_CLONE_H
#define STORE_TREE_CLONE_H
#include "store/tree_map.h"
#include "store/tree_dir.h"

/* The beginning of overlayfs' own attributes. */
#define TREE_OVERLAY "trusted.overlay."

struct tree_clone {
	struct tree *to;
	const struct tree *from;
	int strip;	     /* leave out overlayfs' own attributes */
	int64_t *dev;	     /* of each blob of FROM: its index in TO, -1: not asked for yet */
	struct tree_map ino; /* inodes of FROM that have several names */
};

void tree_clone_init(struct tree_clone *c, struct tree *to, const struct tree *from, int strip);
void tree_clone_free(struct tree_clone *c);

int tree_clone_dev(struct tree_clone *c, uint32_t dev); /* -1 after fail() */
/* The inode that stands for INO, no directory; a new one, without a name, at the first call. NULL
 * after fail(). */
struct tree_inode *tree_clone_file(struct tree_clone *c, const struct tree_inode *ino);
/* Mode, owner, time and extended attributes. */
void tree_clone_attrs(struct tree_inode *to, const struct tree_inode *from, int strip);
/* Gives what stands for INO the name in DIR, which must be free. */
int tree_clone_name(struct tree_clone *c, struct tree_inode *dir, const struct tree_dentry *d);

const struct tree_xattr *tree_xattr(const struct tree_inode *ino, const char *name); /* or NULL */
#endif
