/* Paths in a tree, as archives give them: resolved, added, linked, whited out. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/die.h"
#include "store/tree_dir.h"

enum { FOLLOW = 40 }; /* links in one look-up, as the kernel's MAXSYMLINKS */

static struct tree_inode *walk(struct tree *t, struct tree_inode *dir, const char *path, size_t len,
			       int *follow, int make);

/*
 * One step of a walk: the directory that NAME in DIR stands for. A link of an archive is followed
 * as chroot would, never to the host. In the way of a path to be made, anything else (a file, a link
 * that leads to no directory) is replaced by a directory, as a later layer may do.
 */
static struct tree_inode *step(struct tree *t, struct tree_inode *dir, const char *name, size_t len,
			       int *follow, int make)
{
	struct tree_dentry *d = tree_find(t, dir, name, len);
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
		d = tree_find(t, dir, name, len);
		if (d && S_ISDIR(d->ino->mode))
			return d->ino;
	}
	if (!make)
		return NULL;
	if (d)
		tree_detach(t, d);
	return tree_make_dir(t, dir, name, len);
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
	struct tree_dentry *d = tree_find(t, dir, name, len);
	struct tree_inode *ino;

	if (d && S_ISDIR(d->ino->mode) && S_ISDIR(mode)) {
		d->layer = t->layer;
		d->ino->mode = mode;
		tree_clear_xattrs(d->ino);
		return d->ino;
	}
	if (d)
		tree_detach(t, d);
	if (tree_room(t, dir, name, len) < 0)
		return NULL;
	ino = tree_new_inode(mode);
	tree_attach(t, dir, name, len, ino);
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
	d = tree_find(t, dir, name, len);
	return d ? d->ino : NULL;
}

static int link_at(struct tree *t, struct tree_inode *dir, const char *name, size_t len,
		   struct tree_inode *ino)
{
	struct tree_dentry *d = tree_find(t, dir, name, len);

	if (d && d->ino == ino) {
		d->layer = t->layer;
		return 0;
	}
	if (tree_room(t, dir, name, len) < 0)
		return -1;
	/* What is in the way may hold the target's last other name: keep the target meanwhile. */
	ino->names++;
	if (d)
		tree_detach(t, d);
	tree_attach(t, dir, name, len, ino);
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
	tree_put(t, ino);
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
			tree_detach(t, d);
	}
}

/*
 * The directory that an opaque marker in PATH (LEN bytes) means. It is this layer's own directory, so
 * a lower layer's link on the way does not lead to it: the link gives way and its target stays.
 */
static struct tree_inode *opaque_dir(struct tree *t, const char *path, size_t len)
{
	struct tree_inode *dir = t->root;

	for (const char *p = path, *end = path + len; dir && p < end;) {
		const char *slash = memchr(p, '/', (size_t)(end - p));
		size_t n = (size_t)((slash ? slash : end) - p);
		struct tree_dentry *d = n ? tree_find(t, dir, p, n) : NULL;
		int follow = 0;

		if (d && S_ISLNK(d->ino->mode) && d->layer < t->layer) {
			tree_detach(t, d);
			dir = tree_make_dir(t, dir, p, n);
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
	d = dir ? tree_find(t, dir, name + 4, len - 4) : NULL;
	if (!d)
		return 1;
	if (S_ISDIR(d->ino->mode))
		prune(t, d->ino);
	if (d->layer < t->layer && !(S_ISDIR(d->ino->mode) && d->ino->first))
		tree_detach(t, d);
	return 1;
}

static void deepen(struct tree_inode *dir, uint32_t by)
{
	dir->depth += by;
	for (struct tree_dentry *d = dir->first; d; d = d->next)
		if (S_ISDIR(d->ino->mode))
			deepen(d->ino, by);
}

int tree_sink(struct tree *t, const char *path)
{
	struct tree_inode *old = t->root, *dir = tree_new_inode(S_IFDIR | 0755);
	const char *name = path + 1, *slash;

	t->root = dir->up = dir;
	for (; dir && (slash = strchr(name, '/')); name = slash + 1)
		dir = tree_make_dir(t, dir, name, (size_t)(slash - name));
	if (!dir || tree_room(t, dir, name, strlen(name)) < 0) {
		old->names++;
		tree_put(t, old);
		return -1;
	}
	tree_attach(t, dir, name, strlen(name), old);
	old->depth = 0;
	deepen(old, dir->depth + 1);
	return 0;
}
