#include "store/export_out.h"

#include <archive.h>
#include <archive_entry.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/die.h"
#include "base/fd.h"

enum { PIECE = 64 * 1024 };

static la_ssize_t to_fd(struct archive *a, void *arg, const void *p, size_t n)
{
	const struct export_out *o = arg;

	if (!fd_write_all(o->fd, p, n))
		return (la_ssize_t)n;
	archive_set_error(a, errno, "cannot write '%s'", o->dest);
	return -1;
}

/* The libarchive error as ours. */
static int failed(struct export_out *o)
{
	errno = archive_errno(o->tar);
	return fail("cannot write '%s'", o->dest);
}

static int open_tar(struct export_out *o)
{
	o->tar = archive_write_new();
	if (!o->tar)
		xnomem();
	if (archive_write_set_format_pax_restricted(o->tar) != ARCHIVE_OK ||
	    archive_write_set_bytes_in_last_block(o->tar, 1) != ARCHIVE_OK ||
	    archive_write_open(o->tar, o, NULL, to_fd, NULL) != ARCHIVE_OK)
		return failed(o);
	return 0;
}

/* A file in DIR without a name, or, where that cannot be, with the name that *NAME gets. */
static int nameless(const char *dir, char **name)
{
	int fd = open(dir, O_RDWR | O_TMPFILE | O_CLOEXEC, 0644);

	*name = NULL;
	if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL))
		return fd < 0 ? fail("cannot make a file in '%s'", dir) : fd;
	*name = xasprintf("%s/.sbx-export.XXXXXX", dir);
	fd = mkostemp(*name, O_CLOEXEC);
	return fd < 0 ? fail("cannot make a file in '%s'", dir) : fd;
}

static int open_file(struct export_out *o)
{
	mode_t mask = umask(0);

	umask(mask);
	o->fd = nameless(o->parent, &o->tmp);
	if (o->fd < 0)
		return -1;
	o->named = !!o->tmp;
	if (o->named && fchmod(o->fd, 0644 & ~mask) < 0)
		return fail("cannot make '%s'", o->dest);
	return open_tar(o);
}

static int is_empty(const char *path)
{
	DIR *d = opendir(path);
	struct dirent *e;
	int n = 0;

	while (d && (e = readdir(d)))
		n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
	if (d)
		closedir(d);
	return d && !n;
}

static int open_dir(struct export_out *o)
{
	struct stat st;
	mode_t mask = umask(0);

	umask(mask);
	/* Found out now, not after the work: rename(2) replaces only an empty directory. */
	if (!stat(o->dest, &st) && (!S_ISDIR(st.st_mode) || !is_empty(o->dest)))
		return failx("'%s' is no empty directory", o->dest);
	o->tmp = xasprintf("%s/.sbx-export.XXXXXX", o->parent);
	if (!mkdtemp(o->tmp)) {
		free(o->tmp);
		o->tmp = NULL;
		return fail("cannot make a directory in '%s'", o->parent);
	}
	o->dir = fd_dir(AT_FDCWD, o->tmp, 0);
	if (o->dir < 0)
		return -1;
	if (fchmod(o->dir, 0755 & ~mask) < 0)
		return fail("cannot make '%s'", o->dest);
	return 0;
}

int export_out_open(struct export_out *o, const char *dest, const char *spool)
{
	size_t len = strlen(dest);
	const char *slash;
	struct stat st;
	int dir = len && dest[len - 1] == '/';

	*o = (struct export_out){.dest = dest, .spool = spool, .dir = -1, .fd = -1};
	if (!strcmp(dest, "-")) {
		o->fd = STDOUT_FILENO;
		return open_tar(o);
	}
	while (len > 1 && dest[len - 1] == '/')
		len--;
	slash = memrchr(dest, '/', len);
	o->parent = slash ? xasprintf("%.*s", slash == dest ? 1 : (int)(slash - dest), dest)
			  : xstrdup(".");
	o->spool = o->parent;
	/* The rename at the end would replace a device or a pipe. */
	if (!stat(dest, &st) && !S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode))
		return failx("'%s' is no regular file: write to - instead", dest);
	dir = dir || (!stat(dest, &st) && S_ISDIR(st.st_mode));
	return dir ? open_dir(o) : open_file(o);
}

int export_out_is_dir(const struct export_out *o)
{
	return o->dir >= 0;
}

int export_out_new(struct export_out *o)
{
	char *name;
	int fd;

	if (export_out_is_dir(o)) {
		fd = openat(o->dir, "new", O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
		return fd < 0 ? fail("cannot make a file in '%s'", o->tmp) : fd;
	}
	fd = nameless(o->spool, &name);
	if (name && fd >= 0)
		unlink(name);
	free(name);
	return fd;
}

static int known(struct export_out *o, const char *name)
{
	for (const char *p = o->names.p, *end = p + o->names.len; p < end; p += strlen(p) + 1)
		if (!strcmp(p, name))
			return 1;
	buf_add(&o->names, name, strlen(name) + 1);
	return 0;
}

static int header(struct export_out *o, const char *name, uint64_t size)
{
	struct archive_entry *e = archive_entry_new();
	int r;

	if (!e)
		xnomem();
	archive_entry_set_pathname(e, name);
	archive_entry_set_filetype(e, AE_IFREG);
	archive_entry_set_perm(e, 0644);
	archive_entry_set_size(e, (la_int64_t)size);
	archive_entry_set_mtime(e, 0, 0);
	r = archive_write_header(o->tar, e);
	archive_entry_free(e);
	return r == ARCHIVE_OK ? 0 : failed(o);
}

static int copy(struct export_out *o, int fd, uint64_t size)
{
	autofree char *p = xmalloc(PIECE);

	for (uint64_t at = 0; at < size;) {
		ssize_t n = pread(fd, p, PIECE, (off_t)at);

		if (n <= 0)
			return fail("cannot read back what was written");
		if (archive_write_data(o->tar, p, (size_t)n) != n)
			return failed(o);
		at += (uint64_t)n;
	}
	return 0;
}

/* The directories of the member NAME. */
static int make_parents(struct export_out *o, const char *name)
{
	for (const char *p = strchr(name, '/'); p; p = strchr(p + 1, '/')) {
		autofree char *part = xasprintf("%.*s", (int)(p - name), name);

		if (mkdirat(o->dir, part, 0755) < 0 && errno != EEXIST)
			return fail("cannot make '%s/%s'", o->tmp, part);
	}
	return 0;
}

int export_out_take(struct export_out *o, int fd, const char *name, uint64_t size)
{
	int again = known(o, name);

	if (!export_out_is_dir(o))
		return again ? 0 : header(o, name, size) < 0 ? -1 : copy(o, fd, size);
	if (again)
		return unlinkat(o->dir, "new", 0) < 0 ? fail("cannot remove '%s/new'", o->tmp) : 0;
	if (fdatasync(fd) < 0 || make_parents(o, name) < 0 ||
	    renameat(o->dir, "new", o->dir, name) < 0)
		return fail("cannot write '%s' in '%s'", name, o->tmp);
	return 0;
}

int export_out_put(struct export_out *o, const char *name, const void *p, size_t n)
{
	autofd fd = -1;

	if (!export_out_is_dir(o)) {
		if (known(o, name))
			return 0;
		if (header(o, name, n) < 0)
			return -1;
		return archive_write_data(o->tar, p, n) == (la_ssize_t)n ? 0 : failed(o);
	}
	fd = export_out_new(o);
	if (fd < 0)
		return -1;
	if (fd_write_all(fd, p, n) < 0)
		return fail("cannot write '%s' in '%s'", name, o->tmp);
	return export_out_take(o, fd, name, n);
}

/* A file without a name cannot replace one: it gets a temporary name first. */
static int give_name(struct export_out *o)
{
	char self[64];

	if (o->named)
		return 0;
	o->tmp = xasprintf("%s/.sbx-export.%d", o->parent, getpid());
	snprintf(self, sizeof(self), "/proc/self/fd/%d", o->fd);
	unlink(o->tmp);
	if (linkat(AT_FDCWD, self, AT_FDCWD, o->tmp, AT_SYMLINK_FOLLOW) < 0)
		return fail("cannot name '%s'", o->tmp);
	o->named = 1;
	return 0;
}

int export_out_finish(struct export_out *o)
{
	if (o->tar && archive_write_close(o->tar) != ARCHIVE_OK)
		return failed(o);
	if (o->fd == STDOUT_FILENO)
		return 0;
	if (fsync(o->dir < 0 ? o->fd : o->dir) < 0)
		return fail("cannot write '%s' to disk", o->dest);
	if ((o->dir < 0 && give_name(o) < 0) || rename(o->tmp, o->dest) < 0)
		return fail("cannot name '%s'", o->dest);
	free(o->tmp);
	o->tmp = NULL;
	return 0;
}

void export_out_close(struct export_out *o)
{
	/* Without this it would write an end to what is cut off. */
	if (o->tar)
		archive_write_fail(o->tar);
	archive_write_free(o->tar);
	if (o->tmp && o->dir >= 0)
		fd_rmtree(AT_FDCWD, o->tmp);
	else if (o->tmp && o->named)
		unlink(o->tmp);
	if (o->fd != STDOUT_FILENO)
		fd_close(&o->fd);
	fd_close(&o->dir);
	free(o->tmp);
	free(o->parent);
	buf_free(&o->names);
	*o = (struct export_out){.dir = -1, .fd = -1};
}
