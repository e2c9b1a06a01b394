#include "store/tree_clone.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/die.h"

void tree_clone_init(struct tree_clone *c, struct tree *to, const struct tree *from, int strip)
{
	*c = (struct tree_clone){.to = to, .from = from, .strip = strip};
	c->dev = xcalloc(from->nblob + 1, sizeof(*c->dev));
	for (uint32_t i = 0; i < from->nblob; i++)
		c->dev[i] = -1;
}

void tree_clone_free(struct tree_clone *c)
{
	free(c->dev);
	tree_map_free(&c->ino);
}

int tree_clone_dev(struct tree_clone *c, uint32_t dev)
{
	const struct tree_blob *b = &c->from->blob[dev];

	if (c->dev[dev] < 0)
		c->dev[dev] = tree_blob(c->to, b->sha, b->blocks);
	return (int)c->dev[dev];
}

static void clone_xattrs(struct tree_inode *to, const struct tree_inode *from, int strip)
{
	struct tree_xattr **end = &to->xattr;

	for (const struct tree_xattr *x = from->xattr; x; x = x->next) {
		size_t n = sizeof(*x) + x->nlen + 1u + x->vlen;

		if (strip && !strncmp(x->bytes, TREE_OVERLAY, sizeof(TREE_OVERLAY) - 1))
			continue;
		*end = xmalloc(n);
		memcpy(*end, x, n);
		(*end)->next = NULL;
		end = &(*end)->next;
	}
}

void tree_clone_attrs(struct tree_inode *to, const struct tree_inode *from, int strip)
{
	to->mode = from->mode;
	to->uid = from->uid;
	to->gid = from->gid;
	to->mtime = from->mtime;
	to->nsec = from->nsec;
	tree_clear_xattrs(to);
	clone_xattrs(to, from, strip);
}

static int clone_content(struct tree_clone *c, struct tree_inode *to, const struct tree_inode *from)
{
	to->size = from->size;
	to->rdev = from->rdev;
	if (S_ISLNK(from->mode) && from->target)
		to->target = xstrdup(from->target);
	if (!S_ISREG(from->mode))
		return 0;
	for (uint32_t i = 0; i < from->n; i++) {
		struct tree_extent e = from->ext[i];
		int dev = tree_clone_dev(c, e.dev);

		if (dev < 0)
			return -1;
		e.dev = (uint32_t)dev;
		tree_add_extent(to, e);
	}
	return 0;
}

struct tree_inode *tree_clone_file(struct tree_clone *c, const struct tree_inode *ino)
{
	struct tree_inode *to = ino->names > 1 ? tree_map_get(&c->ino, ino) : NULL;

	if (to)
		return to;
	to = tree_new_inode(ino->mode);
	tree_clone_attrs(to, ino, c->strip);
	if (clone_content(c, to, ino) < 0) {
		to->names = 1;
		tree_put(c->to, to);
		return NULL;
	}
	if (ino->names > 1)
		tree_map_set(&c->ino, ino, to);
	return to;
}

int tree_clone_name(struct tree_clone *c, struct tree_inode *dir, const struct tree_dentry *d)
{
	struct tree_inode *ino;

	if (tree_room(c->to, dir, d->name, d->len) < 0)
		return -1;
	ino = tree_clone_file(c, d->ino);
	if (!ino)
		return -1;
	tree_attach(c->to, dir, d->name, d->len, ino);
	return 0;
}

const struct tree_xattr *tree_xattr(const struct tree_inode *ino, const char *name)
{
	const struct tree_xattr *x = ino->xattr;

	while (x && strcmp(x->bytes, name) != 0)
		x = x->next;
	return x;
}
