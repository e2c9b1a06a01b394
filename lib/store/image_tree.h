/*
 * What an image holds: its layers' metadata as one tree, and the content of its files read from their
 * blobs, here or on a depot. Nothing is mounted.
 */
#ifndef STORE_IMAGE_TREE_H
#define STORE_IMAGE_TREE_H
#include "store/image.h"
#include "store/layer.h"
#include "store/tree_ops.h"

enum { IMAGE_TREE_FDS = 64 };

struct image_tree {
	const struct state *st;
	struct layer *layer; /* lowest first */
	size_t n;
	size_t laid;	   /* so many of them are in the tree */
	struct tree *tree; /* starts empty */
	struct {
		char sha[SHA_HEX + 1];
		int fd;
	} open[IMAGE_TREE_FDS]; /* blobs that were read last */
	char *piece;		/* room to compare in; NULL before */
};

/* One layer's metadata, whiteouts and all. NULL after fail(). */
struct tree *layer_tree(const struct state *st, const struct layer *l);

/* Reads the layers' infos. IT is to be closed in any case. -1 after fail(). */
int image_tree_open(struct image_tree *it, const struct state *st, const struct image *img);
/* Lays the next layer over the tree: 1, 0 if there is none left, -1 after fail(). */
int image_tree_next(struct image_tree *it);
int image_tree_all(struct image_tree *it); /* all that are left */
void image_tree_close(struct image_tree *it);
#define autoimagetree __attribute__((cleanup(image_tree_close))) struct image_tree

/*
 * N bytes at OFF of the regular file INO of T, whose blobs are those of the image's layers (its tree,
 * or one made of that). Fewer at the end of the file. -1 after fail().
 */
ssize_t image_tree_read(struct image_tree *it, const struct tree *t, const struct tree_inode *ino,
			uint64_t off, void *p, size_t n);
/* 1 if two files of different images hold the same bytes, 0 if not, -1 after fail(). */
int image_tree_same(struct image_tree *a, const struct tree_inode *x, struct image_tree *b,
		    const struct tree_inode *y);
#endif
