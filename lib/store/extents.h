/* The runs of blocks that the files of a tree refer to, each once. */
#ifndef STORE_EXTENTS_H
#define STORE_EXTENTS_H
#include "store/tree.h"

struct run {
	uint32_t dev, dblk, n; /* where it lies */
	uint32_t to_dev, to;   /* where it shall lie; at first the same */
	uint64_t hash;	       /* the caller's */
};

struct runs {
	struct run *v; /* sorted by dev, dblk, n */
	size_t n;
};

void runs_of(const struct tree *t, struct runs *r);
void runs_free(struct runs *r);
/* Makes every extent of the tree lie where its run shall lie. */
void runs_apply(struct tree *t, const struct runs *r);
#endif
