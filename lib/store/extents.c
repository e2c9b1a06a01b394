#include "store/extents.h"

#include <stdlib.h>
#include <sys/stat.h>

#include "base/buf.h"

/* Calls FN for each extent of each inode that has one; an inode with several names comes again. */
static void walk(struct tree_inode *dir, void (*fn)(void *arg, struct tree_inode *ino), void *arg)
{
	for (struct tree_dentry *c = dir->first; c; c = c->next)
		if (S_ISDIR(c->ino->mode))
			walk(c->ino, fn, arg);
		else if (S_ISREG(c->ino->mode))
			fn(arg, c->ino);
}

static void add(void *arg, struct tree_inode *ino)
{
	struct runs *r = arg;

	for (uint32_t i = 0; i < ino->n; i++) {
		const struct tree_extent *e = &ino->ext[i];

		if (!(r->n & (r->n - 1)))
			r->v = xrealloc(r->v, (r->n ? r->n * 2 : 1) * sizeof(*r->v));
		r->v[r->n++] = (struct run){e->dev, e->dblk, e->n, e->dev, e->dblk, 0};
	}
}

static int by_place(const void *a, const void *b)
{
	const struct run *x = a, *y = b;

	if (x->dev != y->dev)
		return x->dev < y->dev ? -1 : 1;
	if (x->dblk != y->dblk)
		return x->dblk < y->dblk ? -1 : 1;
	return x->n < y->n ? -1 : x->n > y->n;
}

void runs_of(const struct tree *t, struct runs *r)
{
	size_t n = 0;

	*r = (struct runs){0};
	walk(tree_root(t), add, r);
	if (r->n)
		qsort(r->v, r->n, sizeof(*r->v), by_place);
	for (size_t i = 0; i < r->n; i++)
		if (!i || by_place(&r->v[i], &r->v[n - 1]))
			r->v[n++] = r->v[i];
	r->n = n;
}

void runs_free(struct runs *r)
{
	free(r->v);
	*r = (struct runs){0};
}

struct apply {
	const struct runs *r;
	int mark;
};

/* Moved ones are marked by pos: the extents of an inode with several names are moved once. */
static void apply(void *arg, struct tree_inode *ino)
{
	const struct apply *a = arg;

	if (!a->mark) {
		ino->pos = 0;
		return;
	}
	if (ino->pos)
		return;
	ino->pos = 1;
	for (uint32_t i = 0; i < ino->n; i++) {
		struct tree_extent *e = &ino->ext[i];
		const struct run key = {.dev = e->dev, .dblk = e->dblk, .n = e->n};
		const struct run *r = bsearch(&key, a->r->v, a->r->n, sizeof(key), by_place);

		if (!r)
			continue;
		e->dev = r->to_dev;
		e->dblk = r->to;
	}
}

void runs_apply(struct tree *t, const struct runs *r)
{
	for (int mark = 0; mark < 3; mark++)
		walk(tree_root(t), apply, &(struct apply){r, mark == 1});
}
