#include "box/ways.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/die.h"
#include "base/fd.h"
#include "box/node.h"
#include "kern/overlay.h"

struct search {
	const struct state *st;
	const struct compose *c;
	unsigned char *in;   /* for each layer: it is in the view */
	unsigned char *want; /* likewise, of the next view */
	int view;	     /* the merge of those layers; -1: nothing is in it */
	struct buf *lines;
};

/* A line for PATH into B, unless the line is known. */
static void put(struct search *s, struct buf *b, const struct stat *sb, const char *path)
{
	autofree char *val = xasprintf("%04o %u %u %s", (unsigned)sb->st_mode & 07777, sb->st_uid,
				       sb->st_gid, path);
	autobuf line = BUF_INIT;

	kv_put_file(&line, "dir", val);
	if (!strstr(buf_cstr(s->lines), line.p))
		buf_add(b, line.p, line.len);
}

/* Is PATH below AT (or AT itself, with ITSELF)? */
static int below(const char *at, const char *path, int itself)
{
	size_t n = strlen(at);

	return !strncmp(at, path, n) && (path[n] == '/' || (itself && !path[n]));
}

static int open_view(struct search *s)
{
	size_t n = 0, layers = s->c->img.nlayers;
	int *lower = xcalloc(layers, sizeof(*lower)), r = 0;

	fd_close(&s->view);
	for (size_t i = 0; i < layers && r >= 0; i++)
		if (s->in[i]) {
			r = lower[n] = node_open_layer(s->st, s->c->img.layer[i]);
			n += r >= 0;
		}
	if (r >= 0 && n > 1)
		s->view = r = overlay_view(lower, n);
	else if (r >= 0 && n)
		s->view = lower[--n];
	while (n)
		close(lower[--n]);
	free(lower);
	return r < 0 ? -1 : 0;
}

/*
 * Merges the layers that have a say about PATH: those of whole trees, and those of a subtree that it
 * lies in. Mostly these are the same as for the path before.
 */
static int view(struct search *s, const char *path, int itself)
{
	size_t n = s->c->img.nlayers;

	for (size_t i = 0; i < n; i++)
		s->want[i] = !*s->c->at[i] || below(s->c->at[i], path, itself);
	if (!memcmp(s->in, s->want, n))
		return 0;
	memcpy(s->in, s->want, n);
	return open_view(s);
}

/* SB becomes what PATH is there; if it is nothing, SB stays. -1 after fail(). */
static int look(struct search *s, const char *path, int itself, struct stat *sb)
{
	struct stat there;
	autofd fd = -1;

	if (view(s, path, itself) < 0)
		return -1;
	if (s->view < 0)
		return 0;
	fd = fd_openat2(s->view, path + 1, O_PATH | O_NOFOLLOW, 0,
			RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV);
	if (fd < 0 && (errno == ENOENT || errno == ENOTDIR)) /* ENOTDIR: below a whiteout */
		return 0;
	if (fd < 0 || fstat(fd, &there) < 0)
		return fail("cannot look at '%s' in the images", path);
	/* In a view of one layer a whiteout shows. */
	if (!S_ISCHR(there.st_mode) || there.st_rdev)
		*sb = there;
	return 0;
}

/* PATH is a link to TARGET: the path that AT, below it, has without the link. 0 if that is not plain. */
static int without_link(const char *path, const char *target, const char *at, char real[PATH_MAX])
{
	int dir = *target == '/' ? 0 : (int)(strrchr(path, '/') - path + 1);
	int n = snprintf(real, PATH_MAX, "%.*s%s%s", dir, path, target, at + strlen(path));

	return n < PATH_MAX && !strstr(real, "/..") && !strstr(real, "//");
}

static int refuse(struct search *s, size_t layer, const char *path, const struct stat *sb)
{
	const char *ref = s->c->part[s->c->from[layer]].ref, *at = s->c->at[layer];
	char target[PATH_MAX], real[PATH_MAX];
	ssize_t n = -1;

	if (!S_ISLNK(sb->st_mode))
		return failx("image '%s' holds '%s', but '%s' is a file in the images below it: "
			     "import it with another --at",
			     ref, at, path);
	n = readlinkat(s->view, path + 1, target, sizeof(target) - 1);
	target[n > 0 ? n : 0] = 0;
	if (n > 0 && without_link(path, target, at, real))
		return failx(
			"image '%s' holds '%s', but '%s' is a link to '%s' in the images below "
			"it: import it with --at %s",
			ref, at, path, target, real);
	return failx("image '%s' holds '%s', but '%s' is a link to '%s' in the images below it: "
		     "import it with --at the directory it leads to",
		     ref, at, path, target);
}

/* PATH on the way of LAYER; LAST: it is the subtree itself. HELD has lines that one below may need. */
static int step(struct search *s, size_t layer, const char *path, int last, struct buf *held)
{
	/* Nowhere else, yet what is below may be in a layer that is silent here, too. */
	struct stat sb = {.st_mode = S_IFDIR | 0755};

	if (look(s, path, !last, &sb) < 0)
		return -1;
	if (!S_ISDIR(sb.st_mode))
		return refuse(s, layer, path, &sb);
	if (last)
		return 0;
	if (sb.st_uid >= SPEC_IDS || sb.st_gid >= SPEC_IDS)
		return failx("'%s' in the images has an owner outside 0-%d", path, SPEC_IDS - 1);
	put(s, held, &sb, path);
	if ((sb.st_mode & 07777) != 0755 || sb.st_uid || sb.st_gid) {
		buf_str(s->lines, buf_cstr(held));
		buf_clear(held);
	}
	return 0;
}

/*
 * One layer's way, from the top down. What lies above a directory that has to be said again is said
 * too: it will be in the upper, and so will be what the box sees of it.
 */
static int find_way(struct search *s, size_t layer)
{
	autobuf held = BUF_INIT;
	autofree char *path = xstrdup(s->c->at[layer]);
	char *p = path;
	int r;

	do {
		p = strchr(p + 1, '/');
		if (p)
			*p = 0;
		r = step(s, layer, path, !p, &held);
		if (p)
			*p = '/';
	} while (p && !r);
	return r;
}

/* A box's "/" is the lowest layer's unless a line says more. */
static int find_root(struct search *s)
{
	autofd low = -1, root = -1;
	struct stat a, b;

	if (!strcmp(s->c->img.layer[0], s->c->root))
		return 0;
	low = node_open_layer(s->st, s->c->img.layer[0]);
	root = low < 0 ? -1 : node_open_layer(s->st, s->c->root);
	if (root < 0)
		return -1;
	if (fstat(low, &a) < 0 || fstat(root, &b) < 0)
		return fail("cannot look at the images' root directories");
	if (a.st_mode != b.st_mode || a.st_uid != b.st_uid || a.st_gid != b.st_gid)
		put(s, s->lines, &b, "/");
	return 0;
}

int ways_find(const struct state *st, const struct compose *c, struct buf *b)
{
	size_t n = c->img.nlayers;
	struct search s = {.st = st, .c = c, .view = -1, .lines = b};
	int r;

	buf_clear(b);
	if (n < 2)
		return 0;
	s.in = xcalloc(n, 1);
	s.want = xcalloc(n, 1);
	r = find_root(&s);
	for (size_t i = 0; i < n && !r; i++)
		if (*c->at[i])
			r = find_way(&s, i);
	fd_close(&s.view);
	free(s.in);
	free(s.want);
	return r;
}

static int open_in(int dir, const char *path)
{
	return fd_openat2(dir, *path ? path : ".", O_RDONLY | O_DIRECTORY, 0,
			  RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
}

/* "MODE UID GID PATH" */
static int make_dir(int upper, const struct spec *s, const char *line)
{
	unsigned mode, uid, gid;
	int at = 0;
	autofd above = -1, fd = -1;
	autofree char *path = NULL;
	char *name;

	if (sscanf(line, "%o %u %u %n", &mode, &uid, &gid, &at) != 3 || line[at] != '/' ||
	    uid >= s->id_count || gid >= s->id_count)
		return failx("the spec of box '%s' is damaged: '%s' is no directory", s->id, line);
	path = xstrdup(line + at + 1);
	name = strrchr(path, '/');
	if (name)
		*name++ = 0;
	above = open_in(upper, name ? path : "");
	name = name ? name : path;
	if (above < 0 || (*name && mkdirat(above, name, 0700) < 0 && errno != EEXIST))
		return fail("cannot make '%s' in the box", line + at);
	fd = open_in(above, name);
	if (fd < 0 || fchown(fd, s->id_base + uid, s->id_base + gid) < 0 ||
	    fchmod(fd, mode & 07777) < 0)
		return fail("cannot make '%s' in the box", line + at);
	return 0;
}

int ways_make(const struct spec *s, int upper)
{
	const char *line;
	size_t i = 0;

	while ((line = spec_next(s, "dir", &i)))
		if (make_dir(upper, s, line) < 0)
			return -1;
	return 0;
}
