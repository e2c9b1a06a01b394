/*
 * Trees with trees. A layer's tree has what overlayfs gives meaning to: a character device 0:0 hides
 * a name below it, trusted.overlay.opaque=y hides what a directory had below, and
 * trusted.overlay.redirect says where below it lies (Documentation/filesystems/overlayfs.rst).
 * Blobs are matched by name: extents of two trees are equal if they lie in blobs of the same SHA.
 */
#ifndef STORE_TREE_OPS_H
#define STORE_TREE_OPS_H
#include "store/tree.h"

struct tree *tree_copy(const struct tree *t);

/* 1 if the tree has no whiteouts and none of overlayfs' attributes: laid over nothing, it is itself. */
int tree_is_plain(const struct tree *t);

/*
 * Lays LAYER over BASE, in place, so that BASE becomes what a mount of both shows; LAYER stays as it
 * is. Neither whiteouts nor overlayfs' attributes are in the result. -1 after fail().
 */
int tree_overlay(struct tree *base, const struct tree *layer);

/*
 * The layer that laid over BEFORE gives AFTER (both without whiteouts): whiteouts for what is gone,
 * the directories on the way with AFTER's attributes. Content is not copied: its extents lie in
 * AFTER's blobs. NULL after fail().
 */
struct tree *tree_delta(const struct tree *before, const struct tree *after);

/* 1 if mode, owner, time and extended attributes are the same. */
int tree_same_attrs(const struct tree_inode *a, const struct tree_inode *b);

enum tree_change { TREE_ADDED = 'A', TREE_DELETED = 'D', TREE_MODIFIED = 'M', TREE_TYPE = 'T' };

/* A is NULL for what was added, B for what was deleted. PATH begins with "/". */
typedef int tree_change_fn(void *arg, enum tree_change how, const char *path,
			   const struct tree_inode *a, const struct tree_inode *b);

/*
 * Calls FN for every name that differs, parents first and names in order; below a directory that was
 * added or deleted too. Files that agree but for where their extents lie are compared by SAME: 1 equal,
 * 0 not, -1 after fail(); NULL: they differ.
 * A non-zero result of FN ends it and is returned.
 */
int tree_compare(const struct tree *a, const struct tree *b,
		 int (*same)(void *arg, const struct tree_inode *a, const struct tree_inode *b),
		 tree_change_fn *fn, void *arg);
#endif
