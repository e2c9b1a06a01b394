/*
 * Every name in the stream is hostile on its way out of a box, and every directory may change
 * under us on its way in. So: names are cut into parts and ".." refused; the first part must be
 * one the caller asked for (the class of CVE-2019-6111); a parent is opened below DST through no
 * link at all (RESOLVE_BENEATH, RESOLVE_NO_SYMLINKS), and all else is one step from that fd.
 */
#include "box/copy_put.h"

#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/die.h"
#include "base/fd.h"

enum { LINKS_MAX = 40 }; /* as the kernel follows */
#define BENEATH (RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS)

void put_init(struct put *p, struct side *s)
{
	*p = (struct put){.s = s, .base = -1, .parent_fd = -1};
}

void put_free(struct put *p)
{
	fd_close(&p->base);
	fd_close(&p->parent_fd);
	inodes_free(&p->files);
	for (size_t i = 0; i < p->ndir; i++)
		free(p->dir[i].path);
	free(p->dir);
	buf_free(&p->path);
	buf_free(&p->parent);
	buf_free(&p->lost);
}

static int open_beneath(const struct put *p, const char *path, int flags)
{
	int fd, tries = 64; /* EAGAIN: somebody renames directories meanwhile */

	do
		fd = fd_openat2(p->base, *path ? path : ".", flags, 0, BENEATH);
	while (fd < 0 && errno == EAGAIN && --tries);
	return fd;
}

/* Refuses names that this copy was not asked for; moves NAME behind its first part. */
static int check_first(const struct put *p, const char **name)
{
	const struct copy *c = p->s->c;
	const char *slash = strchrnul(*name, '/');
	char want[256];

	for (size_t i = 0; i < c->nsrc; i++) {
		if (!copy_name(c->src[i], want))
			return 0; /* a directory's contents: any */
		if (strlen(want) == (size_t)(slash - *name) &&
		    !strncmp(want, *name, (size_t)(slash - *name))) {
			if (*p->top)
				*name = slash;
			return 0;
		}
	}
	return failx("'%s' was not asked for", side_quote(*name));
}

/* NAME without ".", doubled and outer slashes into OUT; fail()s on ".." and what is too long. */
static int clean(const char *name, struct buf *out)
{
	buf_clear(out);
	for (const char *part = name, *end; *part; part = *end ? end + 1 : end) {
		size_t n;

		end = strchrnul(part, '/');
		n = (size_t)(end - part);
		if (!n || (n == 1 && *part == '.'))
			continue;
		if ((n == 2 && !memcmp(part, "..", 2)) || n > 255)
			return failx("'%s' is refused as a name", side_quote(name));
		if (out->len)
			buf_chr(out, '/');
		buf_add(out, part, n);
	}
	buf_room(out, 0);
	return out->len > COPY_PATH_MAX ? failx("'%s' is too long a name", side_quote(name)) : 0;
}

int put_map_name(struct put *p, const char *name, struct buf *out)
{
	autobuf b = BUF_INIT;
	const char *rest;

	if (!name || clean(name, &b) < 0)
		return name ? -1 : failx("an entry of the stream has no usable name");
	rest = buf_cstr(&b);
	if (!p->stream && check_first(p, &rest) < 0)
		return -1;
	buf_clear(out);
	buf_str(out, p->top);
	buf_str(out, rest);
	buf_room(out, 0);
	return 0;
}

/*
 * Where DST leads if it is a link: the file there is meant, as cp(1) has it. Each step is a path of
 * this side again, so a link of a box leads nowhere else.
 */
static char *follow(const struct side *s, const char *dst)
{
	char *path = xstrdup(dst), to[COPY_PATH_MAX + 1];

	for (int i = 0; i < LINKS_MAX; i++) {
		autofd fd = side_open(s, path, O_PATH | O_NOFOLLOW);
		ssize_t n = fd < 0 ? -1 : readlinkat(fd, "", to, sizeof(to) - 1);
		const char *slash = strrchr(path, '/');
		char *next;

		if (n <= 0)
			return path;
		to[n] = 0;
		next = xasprintf("%.*s%s", *to == '/' || !slash ? 0 : (int)(slash + 1 - path), path,
				 to);
		free(path);
		path = next;
	}
	return path;
}

/* DST is not there as a directory: it is the new name in the directory above. */
static int open_above(struct put *p, int contents)
{
	const struct copy *c = p->s->c;
	autofree char *path = NULL;
	struct stat sb;
	autofd there = side_open(p->s, c->dst, O_PATH);
	size_t end;

	if (c->nsrc > 1 || p->stream || (contents && there >= 0))
		return failx("'%s' is not a directory", side_quote(c->dst));
	if (there >= 0 && !fstat(there, &sb) && !S_ISREG(sb.st_mode))
		return failx("'%s' is neither a file nor a directory", side_quote(c->dst));
	path = follow(p->s, c->dst);
	end = strlen(path);
	if (end && path[end - 1] == '/' && !contents)
		return failx("there is no directory '%s'", side_quote(c->dst));
	if (!copy_name(path, p->top))
		return failx("'%s' is no name for a copy", side_quote(c->dst));
	while (end && path[end - 1] == '/')
		end--;
	path[end - strlen(p->top)] = 0;
	p->base = side_open(p->s, *path ? path : ".", O_PATH | O_DIRECTORY);
	return p->base < 0 ? fail("cannot open '%s'", side_quote(*path ? path : ".")) : 0;
}

/* For a directory's contents DST itself is made; its mode comes with the entry ".". */
static int make_base(struct put *p)
{
	autofd base = -1;

	if (mkdirat(p->base, p->top, 0700) < 0)
		return fail("cannot make '%s'", side_quote(p->s->c->dst));
	base = openat(p->base, p->top, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (base < 0 || put_own(p, base, NULL) < 0)
		return fail("cannot open '%s'", side_quote(p->s->c->dst));
	fd_close(&p->base);
	p->base = fd_take(&base);
	p->top[0] = 0;
	p->made = 1;
	return 0;
}

static int open_target(struct put *p)
{
	const struct copy *c = p->s->c;
	char name[256];
	int contents = !p->stream && !copy_name(c->src[0], name);

	p->base = side_open(p->s, *c->dst ? c->dst : ".", O_PATH | O_DIRECTORY);
	if (p->base < 0 && errno != ENOENT && errno != ENOTDIR)
		return fail("cannot open '%s'", side_quote(c->dst));
	if (p->base < 0 && open_above(p, contents) < 0)
		return -1;
	if (side_fence(p->s, p->base, c->dst) < 0)
		return -1;
	return contents && *p->top ? make_base(p) : 0;
}

/* A directory whose entry came too late or never: as mkdir -p makes it. */
static int make_above(struct put *p, char *path)
{
	for (char *slash = path;; slash++) {
		autofd above = -1, dir = -1;
		char *name;

		slash = strchrnul(slash, '/');
		name = memrchr(path, '/', (size_t)(slash - path));
		if (name)
			*name = 0;
		above = open_beneath(p, name ? path : "", O_PATH | O_DIRECTORY);
		if (name)
			*name = '/';
		name = xasprintf("%.*s", (int)(slash - (name ? name + 1 : path)),
				 name ? name + 1 : path);
		if (above >= 0 && !mkdirat(above, name, 0755))
			dir = openat(above, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		free(name);
		if (above < 0 || (dir < 0 && errno != EEXIST) ||
		    (dir >= 0 && put_own(p, dir, NULL) < 0))
			return -1;
		if (!*slash)
			return 0;
	}
}

static void lose(struct put *p, const struct buf *path)
{
	buf_clear(&p->lost);
	buf_add(&p->lost, path->p, path->len);
}

int put_parent(struct put *p, const char **last)
{
	char *path = p->path.p, *slash = strrchr(path, '/');

	*last = slash ? slash + 1 : path;
	if (slash)
		*slash = 0;
	if (p->parent_fd < 0 || strcmp(buf_cstr(&p->parent), slash ? path : "") != 0) {
		fd_close(&p->parent_fd);
		buf_clear(&p->parent);
		buf_str(&p->parent, slash ? path : "");
		p->parent_fd = open_beneath(p, buf_cstr(&p->parent), O_PATH | O_DIRECTORY);
		if (p->parent_fd < 0 && errno == ENOENT && slash && !make_above(p, p->parent.p))
			p->parent_fd = open_beneath(p, buf_cstr(&p->parent), O_PATH | O_DIRECTORY);
		if (p->parent_fd >= 0 && side_fence(p->s, p->parent_fd, p->parent.p) < 0)
			fd_close(&p->parent_fd);
		else if (p->parent_fd < 0)
			fail("cannot open the directory '%s'", side_quote(buf_cstr(&p->parent)));
		if (p->parent_fd < 0)
			lose(p, &p->parent);
	}
	if (slash)
		*slash = '/';
	return p->parent_fd;
}

static void remember_dir(struct put *p, struct archive_entry *e, const struct stat *made)
{
	struct put_dir *d;

	if (p->ndir == p->capdir) {
		p->capdir = p->capdir ? p->capdir * 2 : 64;
		p->dir = xrealloc(p->dir, p->capdir * sizeof(*p->dir));
	}
	d = &p->dir[p->ndir++];
	d->path = xstrdup(buf_cstr(&p->path));
	put_wanted(e, &d->sb);
	d->sb.st_dev = made->st_dev;
	d->sb.st_ino = made->st_ino;
}

/* One that exists keeps its owner, mode and times. */
static int put_dir(struct put *p, struct archive_entry *e)
{
	const char *name = ".";
	int at = p->path.len ? put_parent(p, &name) : p->base, made = p->made && !p->path.len;
	autofd fd = -1;
	struct stat sb;

	if (at < 0)
		return -1;
	if (p->path.len && !mkdirat(at, name, 0700))
		made = 1;
	else if (p->path.len && errno != EEXIST)
		return fail("cannot make the directory '%s'", side_quote(p->path.p));
	if (!made && side_peek(at, name, &sb) < 0)
		return fail("cannot open '%s'", side_quote(p->path.p));
	if (!made)
		return S_ISDIR(sb.st_mode) ? 0
					   : failx("'%s' is there and is not a directory",
						   side_quote(p->path.p));
	fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &sb) < 0)
		return fail("cannot open the directory '%s'", side_quote(buf_cstr(&p->path)));
	put_xattrs(fd, e);
	remember_dir(p, e, &sb);
	return 0;
}

/* From the last one back, so that a directory without write permission is full by then. */
static int finish_dirs(struct put *p)
{
	while (p->ndir) {
		struct put_dir *d = &p->dir[--p->ndir];
		autofd fd = open_beneath(p, d->path, O_RDONLY | O_DIRECTORY);
		autofree char *path = d->path;
		struct stat sb;

		/* Another one in its place is not ours to give away. */
		if (fd < 0 || fstat(fd, &sb) < 0 || sb.st_ino != d->sb.st_ino ||
		    sb.st_dev != d->sb.st_dev) {
			failx("the directory '%s' was replaced under the copy", side_quote(path));
			side_skip(p->s);
		} else if (put_set(p, fd, &d->sb) < 0) {
			fail_more("directory '%s'", side_quote(path));
			side_skip(p->s);
		}
	}
	return 0;
}

/* Below a directory that could not be made: said once, for that. */
static int is_lost(const struct put *p)
{
	return p->lost.len && p->path.len > p->lost.len && p->path.p[p->lost.len] == '/' &&
	       !memcmp(p->path.p, p->lost.p, p->lost.len);
}

static int put_entry(struct put *p, struct archive *a, struct archive_entry *e)
{
	const char *name = archive_entry_pathname(e), *to = archive_entry_hardlink(e);
	mode_t type = archive_entry_filetype(e);

	if (p->base < 0 && open_target(p) < 0) {
		fd_close(&p->base);
		return -1;
	}
	errno = 0;
	if (put_map_name(p, name, &p->path) < 0)
		return -1;
	if (!p->path.len && type != AE_IFDIR)
		return failx("'%s' is refused as a name", side_quote(name));
	if (is_lost(p))
		return 0;
	side_tell(p->s, *buf_cstr(&p->path) ? p->path.p : ".");
	if (to)
		return put_hardlink(p, to);
	if (type == AE_IFREG)
		return put_file(p, a, e);
	if (type == AE_IFDIR) {
		if (!put_dir(p, e))
			return 0;
		lose(p, &p->path);
		return -1;
	}
	if (type == AE_IFLNK)
		return put_symlink(p, e);
	errno = 0;
	return failx("'%s' is a special file: not copied", side_quote(p->path.p));
}

int copy_receive(struct put *p, struct archive *a)
{
	struct archive_entry *e;
	int r;

	while ((r = archive_read_next_header(a, &e)) != ARCHIVE_EOF) {
		if (r == ARCHIVE_FATAL || (r != ARCHIVE_OK && r != ARCHIVE_WARN)) {
			errno = EPIPE;
			return failx("the tar stream is damaged or ends too early: %s",
				     archive_error_string(a) ? archive_error_string(a) : "?");
		}
		/* ARCHIVE_WARN: a name it could not convert comes as it is, which is what we want.
		 */
		if (side_step(p->s) < 0)
			return -1;
		if (put_entry(p, a, e) < 0) {
			if (p->base < 0 || side_fatal(errno) || fail_code() != EX_SBX)
				return -1;
			side_skip(p->s);
		}
	}
	return finish_dirs(p);
}
