#include "store/tree.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/die.h"
#include "store/tree_dir.h"

static size_t bucket(const struct tree *t, const struct tree_inode *dir, const char *name,
		     size_t len)
{
	uint64_t h = (uint64_t)(uintptr_t)dir * 0x9e3779b97f4a7c15ull;

	for (size_t i = 0; i < len; i++)
		h = (h ^ (unsigned char)name[i]) * 0x100000001b3ull;
	return (size_t)(h ^ (h >> 29)) & (t->buckets - 1);
}

struct tree_inode *tree_new_inode(mode_t mode)
{
	struct tree_inode *ino = xcalloc(1, sizeof(*ino));

	ino->mode = mode;
	return ino;
}

struct tree *tree_new(void)
{
	struct tree *t = xcalloc(1, sizeof(*t));

	t->buckets = 1024;
	t->hash = xcalloc(t->buckets, sizeof(*t->hash));
	t->root = tree_new_inode(S_IFDIR | 0755);
	t->root->up = t->root;
	t->layer = 1;
	return t;
}

struct tree_inode *tree_root(const struct tree *t)
{
	return t->root;
}

void tree_next_layer(struct tree *t)
{
	t->layer++;
}

struct tree_dentry *tree_find(const struct tree *t, const struct tree_inode *dir, const char *name,
			      size_t len)
{
	struct tree_dentry *d = t->hash[bucket(t, dir, name, len)];

	while (d && (d->dir != dir || d->len != len || memcmp(d->name, name, len) != 0))
		d = d->chain;
	return d;
}

static void grow(struct tree *t)
{
	struct tree_dentry **old = t->hash;
	size_t n = t->buckets;

	t->buckets *= 4;
	t->hash = xcalloc(t->buckets, sizeof(*t->hash));
	for (size_t i = 0; i < n; i++)
		for (struct tree_dentry *d = old[i], *next; d; d = next) {
			size_t b = bucket(t, d->dir, d->name, d->len);

			next = d->chain;
			d->chain = t->hash[b];
			t->hash[b] = d;
		}
	free(old);
}

/* Gives INO the name in DIR, which must not be taken. */
struct tree_dentry *tree_attach(struct tree *t, struct tree_inode *dir, const char *name,
				size_t len, struct tree_inode *ino)
{
	struct tree_dentry *d = xmalloc(sizeof(*d) + len + 1);
	size_t b;

	if (t->entries++ >= t->buckets)
		grow(t);
	b = bucket(t, dir, name, len);
	*d = (struct tree_dentry){.ino = ino, .dir = dir, .layer = t->layer, .len = (uint8_t)len};
	memcpy(d->name, name, len);
	d->name[len] = 0;
	d->chain = t->hash[b];
	t->hash[b] = d;
	d->next = dir->first;
	if (d->next)
		d->next->prev = d;
	dir->first = d;
	dir->n++;
	ino->names++;
	if (S_ISDIR(ino->mode)) {
		ino->up = dir;
		ino->depth = dir->depth + 1;
	}
	return d;
}

void tree_clear_xattrs(struct tree_inode *ino)
{
	for (struct tree_xattr *x = ino->xattr, *next; x; x = next) {
		next = x->next;
		free(x);
	}
	ino->xattr = NULL;
}

static void free_inode(struct tree_inode *ino)
{
	tree_clear_xattrs(ino);
	if (S_ISREG(ino->mode))
		free(ino->ext);
	else if (S_ISLNK(ino->mode))
		free(ino->target);
	free(ino);
}

/* Depth is bounded by TREE_DEPTH, so recursion is fine here and in what walks the tree. */
void tree_put(struct tree *t, struct tree_inode *ino)
{
	if (--ino->names)
		return;
	if (S_ISDIR(ino->mode))
		while (ino->first)
			/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): tree_detach moves first on */
			tree_detach(t, ino->first);
	free_inode(ino);
}

void tree_detach(struct tree *t, struct tree_dentry *d)
{
	struct tree_dentry **p = &t->hash[bucket(t, d->dir, d->name, d->len)];

	while (*p != d)
		p = &(*p)->chain;
	*p = d->chain;
	if (d->prev)
		d->prev->next = d->next;
	else
		d->dir->first = d->next;
	if (d->next)
		d->next->prev = d->prev;
	d->dir->n--;
	t->entries--;
	tree_put(t, d->ino);
	free(d);
}

void tree_free(struct tree *t)
{
	if (!t)
		return;
	while (t->root->first)
		/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): likewise */
		tree_detach(t, t->root->first);
	free_inode(t->root);
	free(t->blob);
	free(t->hash);
	free(t);
}

int tree_room(const struct tree *t, const struct tree_inode *dir, const char *name, size_t len)
{
	if (len > 255) {
		errno = ENAMETOOLONG;
		return fail("cannot take the name '%.64s...' of %zu bytes", name, len);
	}
	if (t->entries >= TREE_ENTRIES)
		return failx("more than %d names in one image", TREE_ENTRIES);
	if (dir->depth >= TREE_DEPTH)
		return failx("directories nested deeper than %d at '%.*s'", TREE_DEPTH, (int)len,
			     name);
	return 0;
}

struct tree_inode *tree_make_dir(struct tree *t, struct tree_inode *dir, const char *name,
				 size_t len)
{
	struct tree_inode *ino;

	if (tree_room(t, dir, name, len) < 0)
		return NULL;
	ino = tree_new_inode(S_IFDIR | 0755);
	tree_attach(t, dir, name, len, ino);
	return ino;
}

int tree_set_target(struct tree_inode *ino, const char *target)
{
	size_t len = strlen(target);

	if (!len || len > TREE_TARGET)
		return failx("a symbolic link of %zu bytes", len);
	free(ino->target);
	ino->target = xstrdup(target);
	ino->size = len;
	return 0;
}

int tree_set_xattr(struct tree_inode *ino, const char *name, const void *val, size_t len)
{
	size_t nlen = strlen(name), sum = nlen + len;
	struct tree_xattr **p = &ino->xattr, *x;

	if (nlen > 255 || len > UINT16_MAX)
		return failx("extended attribute '%.64s' of %zu bytes is too large", name, len);
	for (x = ino->xattr; x; x = x->next)
		sum += x->nlen + (size_t)x->vlen + 8;
	if (sum > TREE_XATTRS)
		return failx("more than %d bytes of extended attributes on one file", TREE_XATTRS);
	while (*p && strcmp((*p)->bytes, name) < 0)
		p = &(*p)->next;
	x = xmalloc(sizeof(*x) + nlen + 1 + len);
	x->nlen = (uint8_t)nlen;
	x->vlen = (uint16_t)len;
	memcpy(x->bytes, name, nlen + 1);
	if (len)
		memcpy(x->bytes + nlen + 1, val, len);
	x->next = *p;
	if (*p && !strcmp((*p)->bytes, name)) {
		x->next = (*p)->next;
		free(*p);
	}
	*p = x;
	return 0;
}

void tree_add_extent(struct tree_inode *ino, struct tree_extent e)
{
	if (!(ino->n & (ino->n - 1)))
		ino->ext = xrealloc(ino->ext, (ino->n ? ino->n * 2u : 1) * sizeof(*ino->ext));
	ino->ext[ino->n++] = e;
}

struct tree_blob *tree_blobs(const struct tree *t, uint32_t *n)
{
	*n = t->nblob;
	return t->blob;
}

int64_t tree_blob(struct tree *t, const char *sha, uint64_t blocks)
{
	struct tree_blob *b;

	for (uint32_t i = 0; *sha && i < t->nblob; i++)
		if (!strcmp(t->blob[i].sha, sha))
			return i;
	if (t->nblob == TREE_BLOBS)
		return failx("the data of one image lie in more than %d files", TREE_BLOBS);
	t->blob = xrealloc(t->blob, (t->nblob + 1) * sizeof(*t->blob));
	b = &t->blob[t->nblob];
	*b = (struct tree_blob){.blocks = blocks};
	memcpy(b->sha, sha, strnlen(sha, SHA_HEX));
	return t->nblob++;
}

static int by_name(const void *a, const void *b)
{
	const struct tree_dentry *x = *(struct tree_dentry *const *)a;
	const struct tree_dentry *y = *(struct tree_dentry *const *)b;
	int r = memcmp(x->name, y->name, x->len < y->len ? x->len : y->len);

	return r ? r : (int)x->len - (int)y->len;
}

struct tree_dentry **tree_sorted(const struct tree_inode *dir)
{
	struct tree_dentry **v = xcalloc((size_t)dir->n + 1, sizeof(*v));
	size_t n = 0;

	for (struct tree_dentry *d = dir->first; d; d = d->next)
		v[n++] = d;
	qsort(v, n, sizeof(*v), by_name);
	return v;
}
