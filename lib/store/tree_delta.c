/* What differs between two trees: as a list, and as a layer. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/die.h"
#include "store/tree_clone.h"
#include "store/tree_ops.h"

static int same_xattrs(const struct tree_inode *a, const struct tree_inode *b)
{
	const struct tree_xattr *x = a->xattr, *y = b->xattr;

	for (; x && y; x = x->next, y = y->next)
		if (x->nlen != y->nlen || x->vlen != y->vlen ||
		    memcmp(x->bytes, y->bytes, x->nlen + 1u + x->vlen) != 0)
			return 0;
	return !x && !y;
}

int tree_same_attrs(const struct tree_inode *a, const struct tree_inode *b)
{
	return a->mode == b->mode && a->uid == b->uid && a->gid == b->gid && a->mtime == b->mtime &&
	       a->nsec == b->nsec && same_xattrs(a, b);
}

/* Which blob of B is blob I of A, or -1: names compared once, not once a file. */
struct pair {
	const struct tree *a, *b;
	int32_t *dev;
};

static void pair_init(struct pair *p, const struct tree *a, const struct tree *b)
{
	*p = (struct pair){a, b, xcalloc(a->nblob + 1, sizeof(*p->dev))};
	for (uint32_t i = 0; i < a->nblob; i++) {
		p->dev[i] = -1;
		for (uint32_t j = 0; *a->blob[i].sha && j < b->nblob; j++)
			if (!strcmp(a->blob[i].sha, b->blob[j].sha))
				p->dev[i] = (int32_t)j;
	}
}

/* Extent I without its first SKIP blocks. */
static struct tree_extent piece(const struct tree_inode *ino, uint32_t i, uint32_t skip)
{
	struct tree_extent e = ino->ext[i];

	e.lblk += skip;
	e.dblk += skip;
	e.n -= skip;
	return e;
}

/* 1 if the extents say that the contents are the same; 0 says nothing. */
static int same_extents(const struct pair *p, const struct tree_inode *a,
			const struct tree_inode *b)
{
	uint32_t i = 0, j = 0, skip_a = 0, skip_b = 0;

	while (i < a->n && j < b->n) {
		struct tree_extent x = piece(a, i, skip_a), y = piece(b, j, skip_b);
		uint32_t n = x.n < y.n ? x.n : y.n;

		if (x.lblk != y.lblk || x.dblk != y.dblk || p->dev[x.dev] != (int32_t)y.dev)
			return 0;
		skip_a = x.n == n ? 0 : skip_a + n;
		skip_b = y.n == n ? 0 : skip_b + n;
		i += x.n == n;
		j += y.n == n;
	}
	return i == a->n && j == b->n;
}

/* Attributes and content, of anything but directories; 0 if they may differ. */
static int same_inode(const struct pair *p, const struct tree_inode *a, const struct tree_inode *b)
{
	if (!tree_same_attrs(a, b) || a->size != b->size || a->rdev != b->rdev)
		return 0;
	if (S_ISLNK(a->mode))
		return !strcmp(a->target, b->target);
	return !S_ISREG(a->mode) || same_extents(p, a, b);
}

static struct tree_inode *child_of(const struct tree *t, const struct tree_inode *dir,
				   const struct tree_dentry *d)
{
	struct tree_dentry *there = dir ? tree_find(t, dir, d->name, d->len) : NULL;

	return there ? there->ino : NULL;
}

/*
 * A file with several names may stay below only if all its names do, and as names of one file there
 * that no other file of AFTER needs: copying one up would part it from the others.
 */
struct delta {
	struct pair p; /* a: before, b: after */
	struct tree *out;
	struct tree_clone c;
	struct tree_map below; /* of AFTER's files: the one of BEFORE, or &changed */
	struct tree_map above; /* of BEFORE's files: the one of AFTER */
	struct tree_inode *whiteout;
};

static struct tree_inode changed;

static void match(struct delta *d, const struct tree_inode *now, struct tree_inode *was)
{
	struct tree_inode *before = tree_map_get(&d->below, now), *owner;

	if (!was || !same_inode(&d->p, was, now) || (before && before != was)) {
		tree_map_set(&d->below, now, &changed);
		return;
	}
	if (before)
		return;
	owner = tree_map_get(&d->above, was);
	tree_map_set(&d->below, now, owner ? &changed : was);
	if (!owner)
		tree_map_set(&d->above, was, (void *)(uintptr_t)now);
}

static int has_names(const struct tree_inode *ino)
{
	return ino && !S_ISDIR(ino->mode) && ino->names > 1;
}

static void match_all(struct delta *d, const struct tree_inode *dir,
		      const struct tree_inode *before)
{
	for (const struct tree_dentry *e = dir->first; e; e = e->next) {
		struct tree_inode *was = child_of(d->p.a, before, e);

		if (S_ISDIR(e->ino->mode))
			match_all(d, e->ino, was && S_ISDIR(was->mode) ? was : NULL);
		else if (has_names(e->ino) || has_names(was))
			match(d, e->ino, was && !S_ISDIR(was->mode) ? was : NULL);
	}
}

static int unchanged(const struct delta *d, const struct tree_inode *now,
		     const struct tree_inode *was)
{
	struct tree_inode *below = tree_map_get(&d->below, now);

	return below ? below == was : was && same_inode(&d->p, was, now);
}

static int hide(struct delta *d, struct tree_inode *to, const struct tree_dentry *e)
{
	if (tree_room(d->out, to, e->name, e->len) < 0)
		return -1;
	if (!d->whiteout)
		d->whiteout = tree_new_inode(S_IFCHR);
	tree_attach(d->out, to, e->name, e->len, d->whiteout);
	return 0;
}

/* Fills TO of the layer; BEFORE is NULL if nothing was there. */
static int emit(struct delta *d, struct tree_inode *to, const struct tree_inode *dir,
		const struct tree_inode *before);

static int emit_dir(struct delta *d, struct tree_inode *to, const struct tree_dentry *e,
		    const struct tree_inode *was)
{
	struct tree_dentry *sub;
	struct tree_inode *ino;

	if (tree_room(d->out, to, e->name, e->len) < 0)
		return -1;
	if (was && !S_ISDIR(was->mode))
		was = NULL;
	ino = tree_new_inode(e->ino->mode);
	sub = tree_attach(d->out, to, e->name, e->len, ino);
	if (emit(d, ino, e->ino, was) < 0)
		return -1;
	if (was && !ino->n && tree_same_attrs(was, e->ino))
		tree_detach(d->out, sub);
	return 0;
}

static int emit(struct delta *d, struct tree_inode *to, const struct tree_inode *dir,
		const struct tree_inode *before)
{
	struct tree_dentry **child = tree_sorted(dir);
	int r = 0;

	tree_clone_attrs(to, dir, 0);
	for (size_t i = 0; !r && i < dir->n; i++) {
		const struct tree_inode *was = child_of(d->p.a, before, child[i]);

		if (S_ISDIR(child[i]->ino->mode))
			r = emit_dir(d, to, child[i], was);
		else if (!unchanged(d, child[i]->ino, was))
			r = tree_clone_name(&d->c, to, child[i]);
	}
	free(child);
	for (const struct tree_dentry *e = before ? before->first : NULL; !r && e; e = e->next)
		if (!child_of(d->p.b, dir, e))
			r = hide(d, to, e);
	return r;
}

struct tree *tree_delta(const struct tree *before, const struct tree *after)
{
	struct delta d = {.out = tree_new()};
	int r;

	pair_init(&d.p, before, after);
	tree_clone_init(&d.c, d.out, after, 0);
	match_all(&d, after->root, before->root);
	r = emit(&d, d.out->root, after->root, before->root);
	free(d.p.dev);
	tree_clone_free(&d.c);
	tree_map_free(&d.below);
	tree_map_free(&d.above);
	if (!r)
		return d.out;
	tree_free(d.out);
	return NULL;
}

struct compare {
	struct pair p;
	struct buf path;
	int (*same)(void *arg, const struct tree_inode *a, const struct tree_inode *b);
	tree_change_fn *fn;
	void *arg;
};

static int compare_dirs(struct compare *c, const struct tree_inode *a, const struct tree_inode *b);

/* 1 if A and B, of one type, differ; -1 after fail(). */
static int differ(struct compare *c, const struct tree_inode *a, const struct tree_inode *b)
{
	int r;

	if (S_ISDIR(a->mode))
		return !tree_same_attrs(a, b);
	if (same_inode(&c->p, a, b))
		return 0;
	if (!S_ISREG(a->mode) || !c->same || !tree_same_attrs(a, b) || a->size != b->size)
		return 1;
	r = c->same(c->arg, a, b);
	return r < 0 ? -1 : !r;
}

/* Either may be NULL. */
static int compare_inodes(struct compare *c, const struct tree_inode *a, const struct tree_inode *b)
{
	const char *path = c->path.len ? c->path.p : "/";
	int r = 0;

	if (!a || !b) {
		r = c->fn(c->arg, a ? TREE_DELETED : TREE_ADDED, path, a, b);
	} else if ((a->mode & S_IFMT) != (b->mode & S_IFMT)) {
		r = c->fn(c->arg, TREE_TYPE, path, a, b);
	} else {
		r = differ(c, a, b);
		if (r > 0)
			r = c->fn(c->arg, TREE_MODIFIED, path, a, b);
	}
	a = a && S_ISDIR(a->mode) ? a : NULL;
	b = b && S_ISDIR(b->mode) ? b : NULL;
	return r || (!a && !b) ? r : compare_dirs(c, a, b);
}

static int by_name(const struct tree_dentry *x, const struct tree_dentry *y)
{
	if (!x || !y)
		return x ? -1 : 1;
	return strcmp(x->name, y->name);
}

static int compare_dirs(struct compare *c, const struct tree_inode *a, const struct tree_inode *b)
{
	struct tree_dentry **x = a ? tree_sorted(a) : xcalloc(1, sizeof(*x)), **p = x;
	struct tree_dentry **y = b ? tree_sorted(b) : xcalloc(1, sizeof(*y)), **q = y;
	size_t len = c->path.len;
	int r = 0;

	while (!r && (*p || *q)) {
		int order = by_name(*p, *q);
		const struct tree_dentry *d = order <= 0 ? *p : *q;

		buf_chr(&c->path, '/');
		buf_add(&c->path, d->name, d->len);
		r = compare_inodes(c, order <= 0 ? (*p)->ino : NULL, order >= 0 ? (*q)->ino : NULL);
		p += order <= 0;
		q += order >= 0;
		c->path.len = len;
		c->path.p[len] = 0;
	}
	free(x);
	free(y);
	return r;
}

int tree_compare(const struct tree *a, const struct tree *b,
		 int (*same)(void *arg, const struct tree_inode *a, const struct tree_inode *b),
		 tree_change_fn *fn, void *arg)
{
	struct compare c = {.same = same, .fn = fn, .arg = arg};
	int r;

	pair_init(&c.p, a, b);
	r = compare_inodes(&c, a->root, b->root);
	buf_free(&c.path);
	free(c.p.dev);
	return r;
}
