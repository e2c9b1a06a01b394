#include "store/tree.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/die.h"

enum { FOLLOW = 40 }; /* links in one look-up, as the kernel's MAXSYMLINKS */

struct tree {
	struct tree_inode *root;
	struct tree_dentry **hash;
	size_t entries, buckets; /* buckets: a power of two */
	uint32_t layer;
};

static size_t bucket(const struct tree *t, const struct tree_inode *dir, const char *name,
		     size_t len)
{
	uint64_t h = (uint64_t)(uintptr_t)dir * 0x9e3779b97f4a7c15ull;

	for (size_t i = 0; i < len; i++)
		h = (h ^ (unsigned char)name[i]) * 0x100000001b3ull;
	return (size_t)(h ^ (h >> 29)) & (t->buckets - 1);
}

static struct tree_inode *new_inode(mode_t mode)
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
	t->root = new_inode(S_IFDIR | 0755);
	t->root->up = t->root;
	t->layer = 1;
	return t;
}

struct tree_inode *tree_root(const struct tree *t)
{
	return t->root;
}

size_t tree_entries(const struct tree *t)
{
	return t->entries;
}

void tree_next_layer(struct tree *t)
{
	t->layer++;
}

static struct tree_dentry *find(const struct tree *t, const struct tree_inode *dir,
				const char *name, size_t len)
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
static struct tree_dentry *attach(struct tree *t, struct tree_inode *dir, const char *name,
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

static void detach(struct tree *t, struct tree_dentry *d);

/* Depth is bounded by TREE_DEPTH, so recursion is fine here and in what walks the tree. */
static void put_inode(struct tree *t, struct tree_inode *ino)
{
	if (--ino->names)
		return;
	if (S_ISDIR(ino->mode))
		while (ino->first)
			detach(t, ino->first);
	free_inode(ino);
}

static void detach(struct tree *t, struct tree_dentry *d)
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
	put_inode(t, d->ino);
	free(d);
}

void tree_free(struct tree *t)
{
	if (!t)
		return;
	while (t->root->first)
		detach(t, t->root->first);
	free_inode(t->root);
	free(t->hash);
	free(t);
}

static int room(const struct tree *t, const struct tree_inode *dir, const char *name, size_t len)
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

static struct tree_inode *make_dir(struct tree *t, struct tree_inode *dir, const char *name,
				   size_t len)
{
	struct tree_inode *ino;

	if (room(t, dir, name, len) < 0)
		return NULL;
	ino = new_inode(S_IFDIR | 0755);
	attach(t, dir, name, len, ino);
	return ino;
}

static struct tree_inode *walk(struct tree *t, struct tree_inode *dir, const char *path, size_t len,
			       int *follow, int make);

/*
 * One step of a walk: the directory that NAME in DIR stands for. A link of an archive is followed
 * as chroot would, never to the host. In the way of a path to be made, anything else (a file, a
 * link that leads to no directory) is replaced by a directory, as a later layer may do.
 */
static struct tree_inode *step(struct tree *t, struct tree_inode *dir, const char *name, size_t len,
			       int *follow, int make)
{
	struct tree_dentry *d = find(t, dir, name, len);
	struct tree_inode *to = NULL;

	if (d && S_ISDIR(d->ino->mode))
		return d->ino;
	if (d && S_ISLNK(d->ino->mode) && d->ino->target && ++*follow <= FOLLOW) {
		const char *target = d->ino->target;
		struct tree_inode *from = *target == '/' ? t->root : dir;

		/* The walk may replace this very link, so it must not look into it: a copy. */
		autofree char *copy = xstrdup(target);

		to = walk(t, from, copy, strlen(copy), follow, make);
		if (to || !make)
			return to;
		d = find(t, dir, name, len);
		if (d && S_ISDIR(d->ino->mode))
			return d->ino;
	}
	if (!make)
		return NULL;
	if (d)
		detach(t, d);
	return make_dir(t, dir, name, len);
}

static struct tree_inode *walk(struct tree *t, struct tree_inode *dir, const char *path, size_t len,
			       int *follow, int make)
{
	for (const char *p = path, *end = path + len; dir && p < end;) {
		const char *slash = memchr(p, '/', (size_t)(end - p));
		size_t n = (size_t)((slash ? slash : end) - p);

		if (n == 2 && p[0] == '.' && p[1] == '.')
			dir = dir->up;
		else if (n && !(n == 1 && *p == '.'))
			dir = step(t, dir, p, n, follow, make);
		p += n + 1;
	}
	return dir;
}

/* The last component; NULL if there is none (the path names a directory by "." or ".."). */
static const char *last_part(const char *path, size_t *len)
{
	size_t end = strlen(path), start;

	while (end && path[end - 1] == '/')
		end--;
	for (start = end; start && path[start - 1] != '/';)
		start--;
	*len = end - start;
	if (!*len || (*len == 1 && path[start] == '.') ||
	    (*len == 2 && path[start] == '.' && path[start + 1] == '.'))
		return NULL;
	return path + start;
}

static int path_ok(const char *path)
{
	if (strlen(path) < TREE_PATH)
		return 0;
	return failx("a path of %zu bytes: '%.64s...'", strlen(path), path);
}

static struct tree_inode *add(struct tree *t, struct tree_inode *dir, const char *name, size_t len,
			      mode_t mode)
{
	struct tree_dentry *d = find(t, dir, name, len);
	struct tree_inode *ino;

	if (d && S_ISDIR(d->ino->mode) && S_ISDIR(mode)) {
		d->layer = t->layer;
		d->ino->mode = mode;
		tree_clear_xattrs(d->ino);
		return d->ino;
	}
	if (d)
		detach(t, d);
	if (room(t, dir, name, len) < 0)
		return NULL;
	ino = new_inode(mode);
	attach(t, dir, name, len, ino);
	return ino;
}

struct tree_inode *tree_add_at(struct tree *t, struct tree_inode *dir, const char *name,
			       mode_t mode)
{
	return add(t, dir, name, strlen(name), mode);
}

struct tree_inode *tree_add(struct tree *t, const char *path, mode_t mode)
{
	struct tree_inode *dir;
	const char *name;
	size_t len;
	int follow = 0;

	if (path_ok(path) < 0)
		return NULL;
	name = last_part(path, &len);
	dir = walk(t, t->root, path, name ? (size_t)(name - path) : strlen(path), &follow, 1);
	if (!dir)
		return NULL;
	if (name)
		return add(t, dir, name, len, mode);
	if (!S_ISDIR(mode)) {
		failx("'%s' names a directory, and is none", path);
		return NULL;
	}
	dir->mode = mode;
	tree_clear_xattrs(dir);
	return dir;
}

struct tree_inode *tree_lookup(struct tree *t, const char *path)
{
	struct tree_inode *dir;
	struct tree_dentry *d;
	const char *name;
	size_t len;
	int follow = 0;

	if (path_ok(path) < 0)
		return NULL;
	name = last_part(path, &len);
	dir = walk(t, t->root, path, name ? (size_t)(name - path) : strlen(path), &follow, 0);
	if (!dir || !name)
		return dir;
	d = find(t, dir, name, len);
	return d ? d->ino : NULL;
}

static int link_at(struct tree *t, struct tree_inode *dir, const char *name, size_t len,
		   struct tree_inode *ino)
{
	struct tree_dentry *d = find(t, dir, name, len);

	if (d && d->ino == ino) {
		d->layer = t->layer;
		return 0;
	}
	if (room(t, dir, name, len) < 0)
		return -1;
	/* What is in the way may hold the target's last other name: keep the target meanwhile. */
	ino->names++;
	if (d)
		detach(t, d);
	attach(t, dir, name, len, ino);
	ino->names--;
	return 0;
}

int tree_link_at(struct tree *t, struct tree_inode *dir, const char *name, struct tree_inode *ino)
{
	return link_at(t, dir, name, strlen(name), ino);
}

int tree_link(struct tree *t, const char *path, const char *target)
{
	struct tree_inode *ino = tree_lookup(t, target), *dir;
	const char *name;
	size_t len;
	int follow = 0, r;

	if (!ino)
		return failx("hard link '%.256s' to '%.256s', which is not there", path, target);
	if (S_ISDIR(ino->mode))
		return failx("hard link '%.256s' to the directory '%.256s'", path, target);
	if (path_ok(path) < 0)
		return -1;
	name = last_part(path, &len);
	if (!name)
		return failx("'%.256s' names a directory, and is a hard link", path);
	/* Making the parents may replace the target itself (x, then x/y as a link to x). */
	ino->names++;
	dir = walk(t, t->root, path, (size_t)(name - path), &follow, 1);
	r = dir ? link_at(t, dir, name, len, ino) : -1;
	put_inode(t, ino);
	return r;
}

/* Takes away what lower layers put into DIR; what this layer put there stays. */
static void prune(struct tree *t, struct tree_inode *dir)
{
	for (struct tree_dentry *d = dir->first, *next; d; d = next) {
		next = d->next;
		if (S_ISDIR(d->ino->mode))
			prune(t, d->ino);
		if (d->layer < t->layer && !(S_ISDIR(d->ino->mode) && d->ino->first))
			detach(t, d);
	}
}

/*
 * The directory that an opaque marker in PATH (LEN bytes) means. It is this layer's own directory,
 * so a lower layer's link on the way does not lead to it: the link gives way and its target stays.
 */
static struct tree_inode *opaque_dir(struct tree *t, const char *path, size_t len)
{
	struct tree_inode *dir = t->root;

	for (const char *p = path, *end = path + len; dir && p < end;) {
		const char *slash = memchr(p, '/', (size_t)(end - p));
		size_t n = (size_t)((slash ? slash : end) - p);
		struct tree_dentry *d = n ? find(t, dir, p, n) : NULL;
		int follow = 0;

		if (d && S_ISLNK(d->ino->mode) && d->layer < t->layer) {
			detach(t, d);
			dir = make_dir(t, dir, p, n);
		} else {
			dir = walk(t, dir, p, n, &follow, 1);
		}
		p += n + 1;
	}
	return dir;
}

int tree_whiteout(struct tree *t, const char *path)
{
	struct tree_inode *dir;
	struct tree_dentry *d;
	const char *name;
	size_t len;
	int follow = 0;

	if (path_ok(path) < 0)
		return -1;
	name = last_part(path, &len);
	if (!name || len < 4 || memcmp(name, ".wh.", 4) != 0)
		return 0;
	if (len == 12 && !memcmp(name, ".wh..wh..opq", 12)) {
		dir = opaque_dir(t, path, (size_t)(name - path));
		if (!dir)
			return -1;
		prune(t, dir);
		return 1;
	}
	/* Other .wh..wh. names are aufs' own housekeeping. */
	if (len >= 8 && !memcmp(name + 4, ".wh.", 4))
		return 1;
	dir = walk(t, t->root, path, (size_t)(name - path), &follow, 0);
	d = dir ? find(t, dir, name + 4, len - 4) : NULL;
	if (!d)
		return 1;
	if (S_ISDIR(d->ino->mode))
		prune(t, d->ino);
	if (d->layer < t->layer && !(S_ISDIR(d->ino->mode) && d->ino->first))
		detach(t, d);
	return 1;
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

void tree_add_extent(struct tree_inode *ino, uint32_t lblk, uint32_t n, uint32_t dblk)
{
	if (!(ino->n & (ino->n - 1)))
		ino->ext = xrealloc(ino->ext, (ino->n ? ino->n * 2u : 1) * sizeof(*ino->ext));
	ino->ext[ino->n++] = (struct tree_extent){.lblk = lblk, .n = n, .dblk = dblk};
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
