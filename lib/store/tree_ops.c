/* Whole trees: copied, and laid over each other as overlayfs would show them. */
#include "store/tree_ops.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/die.h"
#include "store/tree_clone.h"

/* Depth is bounded by TREE_DEPTH, so recursion is fine in all that walks trees. */
static int copy_dir(struct tree_clone *c, struct tree_inode *to, const struct tree_inode *from)
{
	struct tree_dentry **child = tree_sorted(from);
	int r = 0;

	tree_clone_attrs(to, from, c->strip);
	for (size_t i = 0; !r && i < from->n; i++) {
		const struct tree_dentry *d = child[i];
		struct tree_inode *sub;

		if (!S_ISDIR(d->ino->mode)) {
			r = tree_clone_name(c, to, d);
			continue;
		}
		sub = tree_make_dir(c->to, to, d->name, d->len);
		r = sub ? copy_dir(c, sub, d->ino) : -1;
	}
	free(child);
	return r;
}

struct tree *tree_copy(const struct tree *t)
{
	struct tree *to = tree_new();
	struct tree_clone c;
	int r = 0;

	tree_clone_init(&c, to, t, 0);
	for (uint32_t i = 0; !r && i < t->nblob; i++)
		r = tree_clone_dev(&c, i) < 0 ? -1 : 0;
	if (!r)
		r = copy_dir(&c, to->root, t->root);
	tree_clone_free(&c);
	if (!r)
		return to;
	tree_free(to);
	return NULL;
}

/*
 * Directories with a redirect take what was at another place below. So before anything changes, what
 * they will have is made: new directories, not yet in the tree, with the same files in them.
 */
struct overlay {
	struct tree *base;
	struct tree_clone c;
	struct tree_map held; /* of the layer's directory: the one made for it */
	struct tree_inode **all;
	size_t n;
	size_t room; /* names that redirects may still copy */
};

enum marker { NONE, OPAQUE, HAS_WHITEOUTS };

static enum marker marker(const struct tree_inode *dir)
{
	const struct tree_xattr *x = tree_xattr(dir, TREE_OVERLAY "opaque");
	const char *v = x && x->vlen == 1 ? x->bytes + x->nlen + 1 : "";

	return *v == 'y' ? OPAQUE : *v == 'x' ? HAS_WHITEOUTS : NONE;
}

static int is_whiteout(const struct tree_inode *dir, const struct tree_inode *ino)
{
	if (S_ISCHR(ino->mode))
		return !ino->rdev;
	return S_ISREG(ino->mode) && !ino->size && ino->xattr && marker(dir) == HAS_WHITEOUTS &&
	       tree_xattr(ino, TREE_OVERLAY "whiteout");
}

/* What NAME in DIR below is, if it is a directory. */
static struct tree_inode *lower_dir(const struct tree *t, const struct tree_inode *dir,
				    const char *name, size_t len)
{
	struct tree_dentry *d = dir && len && len < 256 ? tree_find(t, dir, name, len) : NULL;

	return d && S_ISDIR(d->ino->mode) ? d->ino : NULL;
}

/* Links on the way are not followed: every part must be a directory. */
static struct tree_inode *follow(const struct tree *t, const char *path, size_t len)
{
	struct tree_inode *dir = t->root;

	for (const char *p = path, *end = path + len; dir && p < end;) {
		const char *slash = memchr(p, '/', (size_t)(end - p));
		size_t n = (size_t)((slash ? slash : end) - p);

		dir = n ? lower_dir(t, dir, p, n) : dir;
		p += n + 1;
	}
	return dir;
}

static int share(struct overlay *o, struct tree_inode *to, const struct tree_inode *from)
{
	struct tree *t = o->base;

	tree_clone_attrs(to, from, 0);
	for (const struct tree_dentry *d = from->first; d; d = d->next) {
		struct tree_inode *sub = d->ino;

		if (!o->room--)
			return failx("redirects of a layer name the same directories too often");
		if (tree_room(t, to, d->name, d->len) < 0)
			return -1;
		if (S_ISDIR(sub->mode))
			sub = tree_new_inode(sub->mode);
		tree_attach(t, to, d->name, d->len, sub);
		if (sub != d->ino && share(o, sub, d->ino) < 0)
			return -1;
	}
	return 0;
}

/* Makes what DIR of the layer will have, as FROM (or NULL: nothing) is now. */
static int hold(struct overlay *o, const struct tree_inode *dir, const struct tree_inode *from)
{
	struct tree_inode *to = tree_new_inode(dir->mode);

	to->names = 1; /* this hold */
	to->depth = dir->depth;
	if (!(o->n & (o->n - 1)))
		o->all = xrealloc(o->all, (o->n ? o->n * 2 : 1) * sizeof(struct tree_inode *));
	o->all[o->n++] = to;
	tree_map_set(&o->held, dir, to);
	return from ? share(o, to, from) : 0;
}

/* A redirect is a path from the root, or another name beside this one (overlayfs.rst). */
static int redirect(struct overlay *o, const struct tree_inode *dir, const struct tree_xattr *x,
		    const struct tree_inode *parent, struct tree_inode **from)
{
	const char *path = x->bytes + x->nlen + 1;

	if (!x->vlen || memchr(path, 0, x->vlen) || (*path != '/' && memchr(path, '/', x->vlen)))
		return failx("a directory of a layer has the redirect '%.*s'", (int)x->vlen, path);
	*from = *path == '/' ? follow(o->base, path, x->vlen)
			     : lower_dir(o->base, parent, path, x->vlen);
	return hold(o, dir, *from);
}

/* LOWER: the directory of the base that DIR of the layer lies over, or NULL. */
static int hold_all(struct overlay *o, const struct tree_inode *dir, const struct tree_inode *lower)
{
	for (const struct tree_dentry *d = dir->first; d; d = d->next) {
		const struct tree_xattr *x;
		struct tree_inode *from = NULL;

		if (!S_ISDIR(d->ino->mode))
			continue;
		x = tree_xattr(d->ino, TREE_OVERLAY "redirect");
		if (marker(d->ino) != OPAQUE) {
			from = lower_dir(o->base, lower, d->name, d->len);
			if (x && redirect(o, d->ino, x, lower, &from) < 0)
				return -1;
		}
		if (hold_all(o, d->ino, from) < 0)
			return -1;
	}
	return 0;
}

static int lay(struct overlay *o, struct tree_inode *to, const struct tree_inode *dir);

/* The directory D of the layer in TO; THERE is what has its name now. */
static int lay_dir(struct overlay *o, struct tree_inode *to, const struct tree_dentry *d,
		   struct tree_dentry *there)
{
	struct tree_inode *ino = tree_map_get(&o->held, d->ino);
	int merge = !ino && marker(d->ino) != OPAQUE && there && S_ISDIR(there->ino->mode);

	if (merge)
		return lay(o, there->ino, d->ino);
	if (there)
		tree_detach(o->base, there);
	if (tree_room(o->base, to, d->name, d->len) < 0)
		return -1;
	if (!ino)
		ino = tree_new_inode(d->ino->mode);
	tree_attach(o->base, to, d->name, d->len, ino);
	return lay(o, ino, d->ino);
}

static int lay(struct overlay *o, struct tree_inode *to, const struct tree_inode *dir)
{
	struct tree_dentry **child = tree_sorted(dir);
	int r = 0;

	tree_clone_attrs(to, dir, 1);
	for (size_t i = 0; !r && i < dir->n; i++) {
		const struct tree_dentry *d = child[i];
		struct tree_dentry *there = tree_find(o->base, to, d->name, d->len);

		if (S_ISDIR(d->ino->mode)) {
			r = lay_dir(o, to, d, there);
			continue;
		}
		if (there)
			tree_detach(o->base, there);
		if (!is_whiteout(dir, d->ino))
			r = tree_clone_name(&o->c, to, d);
	}
	free(child);
	return r;
}

static int is_plain(const struct tree_inode *ino)
{
	for (const struct tree_xattr *x = ino->xattr; x; x = x->next)
		if (!strncmp(x->bytes, TREE_OVERLAY, sizeof(TREE_OVERLAY) - 1))
			return 0;
	if (!S_ISDIR(ino->mode))
		return !S_ISCHR(ino->mode) || ino->rdev;
	for (const struct tree_dentry *d = ino->first; d; d = d->next)
		if (!is_plain(d->ino))
			return 0;
	return 1;
}

int tree_is_plain(const struct tree *t)
{
	return is_plain(t->root);
}

int tree_overlay(struct tree *base, const struct tree *layer)
{
	/* Each directory is renamed to one place; more are copies of copies below each other. */
	struct overlay o = {.base = base, .room = 16 * base->entries + 4096};
	int r;

	tree_clone_init(&o.c, base, layer, 1);
	r = hold_all(&o, layer->root, base->root);
	if (!r)
		r = lay(&o, base->root, layer->root);
	for (size_t i = 0; i < o.n; i++)
		tree_put(base, o.all[i]);
	free(o.all);
	tree_map_free(&o.held);
	tree_clone_free(&o.c);
	return r;
}
