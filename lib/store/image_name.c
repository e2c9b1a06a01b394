/* Names of images: each is a small file, replaced by rename. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/die.h"
#include "base/fd.h"
#include "base/lock.h"
#include "store/image_dir.h"

int image_make(const struct state *st)
{
	static const char *const dirs[] = {"img",	"img/layer", "img/data",
					   "img/image", "img/name",  "img/tmp"};

	for (size_t i = 0; i < sizeof(dirs) / sizeof(*dirs); i++)
		if (mkdirat(st->state, dirs[i], 0700) < 0 && errno != EEXIST)
			return fail("cannot make directory '%s/%s'", st->conf.state, dirs[i]);
	return 0;
}

/* One that waits to be alone keeps new sharers out: flock(2) by itself would let it starve. */
static int locked(const struct state *st, enum lock_how how)
{
	autofd gate = image_make(st) < 0 ? -1 : lock_take(st->state, "img/gate", LOCK_EXCLUSIVE);

	return gate < 0 ? -1 : lock_take(st->state, "img/lock", how);
}

int image_lock(const struct state *st)
{
	return locked(st, LOCK_EXCLUSIVE);
}

int image_hold(const struct state *st)
{
	return locked(st, LOCK_SHARED);
}

int image_name_of(const struct state *st, const char *ref, const char *asked,
		  char name[IMAGE_NAME + 1], char tag[IMAGE_TAG + 1])
{
	char path[IMAGE_PATH], digest[IMAGE_DIGEST + 1];

	if (asked)
		return image_split(asked, name, tag) < 0 ? -1 : 1;
	return !image_split(ref, name, tag) && !image_name_path(name, tag, path) &&
	       image_read_name(st, path, digest) == 1;
}

/* An image with a name needs no other hold. 1 yes, 0 no, -1 after fail(). */
static int has_name(const struct state *st, const char *digest)
{
	struct image_name *v;
	int found = 0;
	size_t n;

	if (image_names(st, &v, &n) < 0)
		return -1;
	for (size_t i = 0; i < n; i++)
		found |= !strcmp(v[i].digest, digest);
	free(v);
	return found;
}

int image_set_name(const struct state *st, const char *name, const char *tag, const char *digest)
{
	char dir[IMAGE_PATH], path[IMAGE_PATH], text[IMAGE_DIGEST + 2];
	int r = name ? 0 : has_name(st, digest);

	if (r)
		return r < 0 ? -1 : 0;
	if (image_name_path(name ? name : IMAGE_NONE, NULL, dir) < 0 ||
	    image_name_path(name ? name : IMAGE_NONE, name ? tag : digest, path) < 0)
		return -1;
	if (mkdirat(st->state, dir, 0700) < 0 && errno != EEXIST)
		return fail("cannot make directory '%s/%s'", st->conf.state, dir);
	snprintf(text, sizeof(text), "%s\n", digest);
	if (fd_replace(st->state, path, text, strlen(text), 1) < 0)
		return -1;
	if (!name)
		return 0;
	snprintf(path, sizeof(path), "img/name/%s/%s", IMAGE_NONE, digest);
	unlinkat(st->state, path, 0);
	return 0;
}

/* The file's NAME back from the directory's: %2F is "/". 0 if it is none of ours. */
static int decode(const char *file, char name[IMAGE_NAME + 1])
{
	size_t n = 0;

	for (; *file; file++) {
		if (n == IMAGE_NAME)
			return 0;
		if (!strncmp(file, "%2F", 3)) {
			name[n++] = '/';
			file += 2;
		} else {
			name[n++] = *file;
		}
	}
	name[n] = 0;
	return 1;
}

struct names {
	struct image_name *v;
	size_t n;
};

static int add_tags(const struct state *st, struct names *all, const char *dir)
{
	struct image_name one = {0};
	char path[IMAGE_PATH];
	struct dirent *e;
	int none = !strcmp(dir, IMAGE_NONE), r = 0;
	DIR *d;

	if (!none && !decode(dir, one.name))
		return 0;
	snprintf(path, sizeof(path), "img/name/%.255s", dir);
	d = state_opendir(st, path);
	if (!d)
		return errno == ENOENT || errno == ENOTDIR ? 0 : -1;
	while (r >= 0 && (e = readdir(d))) {
		size_t len = strlen(e->d_name);

		/* What a replacement left half-way is no name. */
		if (e->d_name[0] == '.' || (len > 4 && !strcmp(e->d_name + len - 4, ".new")))
			continue;
		snprintf(path, sizeof(path), "img/name/%.255s/%.255s", dir, e->d_name);
		if (!none)
			snprintf(one.tag, sizeof(one.tag), "%.63s", e->d_name);
		r = image_read_name(st, path, one.digest);
		if (r <= 0)
			continue;
		if (!(all->n & (all->n - 1)))
			all->v = xrealloc(all->v, (all->n ? all->n * 2 : 1) * sizeof(one));
		all->v[all->n++] = one;
	}
	closedir(d);
	return r < 0 ? -1 : 0;
}

static int by_name(const void *a, const void *b)
{
	const struct image_name *x = a, *y = b;
	int r = strcmp(x->name, y->name);

	r = r ? r : strcmp(x->tag, y->tag);
	return r ? r : strcmp(x->digest, y->digest);
}

int image_names(const struct state *st, struct image_name **v, size_t *n)
{
	struct names all = {0};
	struct dirent *e;
	DIR *d = state_opendir(st, "img/name");
	int r = 0;

	*v = NULL;
	*n = 0;
	if (!d)
		return errno == ENOENT ? 0 : -1;
	while (!r && (e = readdir(d)))
		if (e->d_name[0] != '.')
			r = add_tags(st, &all, e->d_name);
	closedir(d);
	if (r < 0) {
		free(all.v);
		return -1;
	}
	if (all.n)
		qsort(all.v, all.n, sizeof(*all.v), by_name);
	*v = all.v;
	*n = all.n;
	return 0;
}

int image_tag(const struct state *st, const char *ref, const char *newname)
{
	char name[IMAGE_NAME + 1], tag[IMAGE_TAG + 1], digest[IMAGE_DIGEST + 1];
	autofd lock = -1;

	if (image_split(newname, name, tag) < 0)
		return -1;
	lock = image_lock(st);
	if (lock < 0 || image_resolve(st, ref, digest) < 0)
		return -1;
	return image_set_name(st, name, tag, digest);
}

static int drop(const struct state *st, const struct image_name *one)
{
	const char *name = *one->name ? one->name : IMAGE_NONE;
	char path[IMAGE_PATH];

	if (image_name_path(name, *one->name ? one->tag : one->digest, path) < 0)
		return -1;
	if (unlinkat(st->state, path, 0) < 0 && errno != ENOENT)
		return fail("cannot remove '%s/%s'", st->conf.state, path);
	/* The directory goes with its last tag. */
	if (!image_name_path(name, NULL, path))
		unlinkat(st->state, path, AT_REMOVEDIR);
	return 0;
}

int image_untag(const struct state *st, const char *ref)
{
	struct image_name one = {0}, *v;
	char path[IMAGE_PATH];
	autofd lock = image_lock(st);
	size_t n;
	int r = 0;

	if (lock < 0)
		return -1;
	if (!image_split(ref, one.name, one.tag) && !image_name_path(one.name, one.tag, path) &&
	    image_read_name(st, path, one.digest) > 0)
		return drop(st, &one);
	if (image_resolve(st, ref, one.digest) < 0 || image_names(st, &v, &n) < 0)
		return -1;
	for (size_t i = 0; !r && i < n; i++)
		if (!strcmp(v[i].digest, one.digest))
			r = drop(st, &v[i]);
	free(v);
	return r;
}
