/*
 * Nothing is opened by a path of more than one step below SRC, and nothing is opened at all before
 * it is known to be a regular file or a directory: a device or FIFO of a box is never touched, and
 * a directory that becomes a link between two steps is seen as a link.
 */
#include "box/copy_walk.h"

#include <archive.h>
#include <archive_entry.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/die.h"
#include "base/fd.h"

enum { DATA = 256 * 1024, ZEROS = 1 << 30 };

struct extent {
	off_t at, len;
};

struct walk {
	struct side *s;
	struct archive *a;
	struct archive_entry *e;
	struct inodes links; /* files with more than one name, by the first one sent */
	struct buf path;     /* of the current entry in the stream */
	char *data;
	const char *zeros;
	struct extent *ext;
	size_t next, cap;
};

static int stream_error(struct walk *w)
{
	int err = archive_errno(w->a);

	errno = err > 0 ? err : EIO;
	return fail("cannot write the tar stream");
}

/* Warns of what the last fail() said; -1 if the rest would fare no better. */
static int skip(struct walk *w)
{
	if (side_fatal(errno) && errno != EIO)
		return -1;
	side_skip(w->s);
	return 0;
}

static int skip_read(struct walk *w)
{
	fail("cannot read '%s'", side_quote(buf_cstr(&w->path)));
	return skip(w);
}

static int leave_out(struct walk *w, const char *why)
{
	failx("'%s' %s", side_quote(buf_cstr(&w->path)), why);
	side_skip(w->s);
	return 0;
}

static void add_extent(struct walk *w, size_t *n, off_t at, off_t len)
{
	if (*n == w->cap) {
		w->cap = w->cap ? w->cap * 2 : 16;
		w->ext = xrealloc(w->ext, w->cap * sizeof(*w->ext));
	}
	w->ext[(*n)++] = (struct extent){at, len};
}

/* The data of a sparse file; the rest of one in too many pieces counts as data. */
static size_t find_extents(struct walk *w, int fd, const struct stat *sb)
{
	off_t at = 0, end, size = sb->st_size;
	size_t n = 0;

	if (sb->st_blocks * 512 >= size) {
		add_extent(w, &n, 0, size);
		return n;
	}
	while (at < size && (at = lseek(fd, at, SEEK_DATA)) >= 0 && at < size) {
		end = n + 1 < COPY_EXTENTS_MAX ? lseek(fd, at, SEEK_HOLE) : size;
		if (end <= at || end > size)
			end = size;
		add_extent(w, &n, at, end - at);
		at = end;
	}
	if (!n) /* one hole: said by an empty extent */
		add_extent(w, &n, 0, 0);
	return n;
}

static int put_zeros(struct walk *w, off_t n)
{
	while (n > 0) {
		size_t part = n > ZEROS ? ZEROS : (size_t)n;
		la_ssize_t put = archive_write_data(w->a, w->zeros, part);

		if (put <= 0)
			return stream_error(w);
		n -= put;
	}
	return 0;
}

/* LEN bytes at AT; a file that became shorter meanwhile ends in zeros, as its header promised. */
static int put_extent(struct walk *w, int fd, off_t at, off_t len)
{
	while (len > 0) {
		ssize_t n = pread(fd, w->data, len > DATA ? DATA : (size_t)len, at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			leave_out(w, "became shorter, or unreadable, while it was copied");
			return put_zeros(w, len);
		}
		if (archive_write_data(w->a, w->data, (size_t)n) != n)
			return stream_error(w);
		at += n;
		len -= n;
		if (side_step(w->s) < 0)
			return -1;
		w->s->entries--;
	}
	return 0;
}

static void add_xattrs(struct walk *w, int fd)
{
	char names[COPY_XATTR_MAX], *name;
	ssize_t n = flistxattr(fd, names, sizeof(names)), len;

	for (name = names; n > 0 && name < names + n; name += strlen(name) + 1) {
		if (strncmp(name, "user.", 5) != 0)
			continue;
		len = fgetxattr(fd, name, w->data, COPY_XATTR_MAX);
		if (len >= 0)
			archive_entry_xattr_add_entry(w->e, name, w->data, (size_t)len);
	}
}

static void describe(struct walk *w, const struct stat *sb)
{
	struct archive_entry *e = archive_entry_clear(w->e);

	archive_entry_copy_pathname(e, buf_cstr(&w->path));
	archive_entry_set_mode(e, sb->st_mode);
	archive_entry_set_mtime(e, sb->st_mtim.tv_sec, sb->st_mtim.tv_nsec);
	archive_entry_set_size(e, S_ISREG(sb->st_mode) ? sb->st_size : 0);
	/* The node's ids say nothing in a box; a box's are its own. */
	archive_entry_set_uid(e, w->s->boxed ? sb->st_uid : 0);
	archive_entry_set_gid(e, w->s->boxed ? sb->st_gid : 0);
}

static int put_header(struct walk *w)
{
	int r = archive_write_header(w->a, w->e);

	if (r == ARCHIVE_FATAL)
		return stream_error(w);
	if (r >= ARCHIVE_WARN) {
		side_tell(w->s, buf_cstr(&w->path));
		return 1;
	}
	failx("cannot send '%s': %s", side_quote(buf_cstr(&w->path)),
	      archive_error_string(w->a) ? archive_error_string(w->a) : "no tar header for it");
	side_skip(w->s);
	return 0;
}

/* The second name of a file that was sent already; 0 if it was not. */
static int put_again(struct walk *w, const struct stat *sb)
{
	struct inode *first = sb->st_nlink > 1 ? inodes_find(&w->links, sb) : NULL;

	if (!first)
		return 0;
	describe(w, sb);
	archive_entry_set_size(w->e, 0);
	archive_entry_copy_hardlink(w->e, first->path);
	return put_header(w) < 0 ? -1 : 1;
}

static int put_file(struct walk *w, int peek, const struct stat *sb)
{
	int r = put_again(w, sb);
	autofd fd = -1;
	off_t at = 0;
	size_t n;

	if (r)
		return r < 0 ? -1 : 0;
	if ((uint64_t)sb->st_size > COPY_FILE_MAX)
		return leave_out(w, "is larger than 16T");
	/* O_NONBLOCK: a lease on it shall not hold us. */
	fd = side_reopen(w->s, peek, O_RDONLY | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return skip_read(w);
	describe(w, sb);
	add_xattrs(w, fd);
	n = find_extents(w, fd, sb);
	if (w->ext[0].len < sb->st_size)
		for (size_t i = 0; i < n; i++)
			archive_entry_sparse_add_entry(w->e, w->ext[i].at, w->ext[i].len);
	r = put_header(w);
	for (size_t i = 0; r > 0 && i < n; i++) {
		if (put_zeros(w, w->ext[i].at - at) < 0 ||
		    put_extent(w, fd, w->ext[i].at, w->ext[i].len) < 0)
			return -1;
		at = w->ext[i].at + w->ext[i].len;
	}
	if (r > 0 && put_zeros(w, sb->st_size - at) < 0)
		return -1;
	if (r > 0 && sb->st_nlink > 1)
		inodes_add(&w->links, sb, buf_cstr(&w->path));
	return r < 0 ? -1 : 0;
}

static int put_link(struct walk *w, int peek, const struct stat *sb)
{
	char to[COPY_PATH_MAX + 1];
	ssize_t n = readlinkat(peek, "", to, sizeof(to));

	if (n < 0 || n == sizeof(to))
		return skip_read(w);
	to[n] = 0;
	describe(w, sb);
	archive_entry_copy_symlink(w->e, to);
	return put_header(w) < 0 ? -1 : 0;
}

static int put_node(struct walk *w, int peek, const struct stat *sb, dev_t dev, int depth);

static int put_child(struct walk *w, int dir, const char *name, dev_t dev, int depth)
{
	size_t len = w->path.len;
	struct stat sb;
	autofd peek = -1;
	int r;

	buf_chr(&w->path, '/');
	buf_str(&w->path, name);
	peek = side_peek(dir, name, &sb);
	if (w->path.len > COPY_PATH_MAX) {
		r = leave_out(w, "is too long a path");
	} else if (peek < 0) {
		r = errno == ENOENT ? 0 : skip_read(w); /* gone: as if we had come later */
	} else {
		r = put_node(w, peek, &sb, dev, depth);
	}
	w->path.len = len;
	w->path.p[len] = 0;
	return r;
}

static int put_dir(struct walk *w, int peek, const struct stat *sb, int depth)
{
	int fd = openat(peek, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r = 0;
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *de;

	if (!d) {
		if (fd >= 0)
			close(fd);
		return skip_read(w);
	}
	describe(w, sb);
	add_xattrs(w, fd);
	if (put_header(w) < 0)
		r = -1;
	if (depth >= COPY_DEPTH_MAX)
		leave_out(w, "is too deep a directory");
	while (r == 0 && depth < COPY_DEPTH_MAX && (errno = 0, de = readdir(d)))
		if (strcmp(de->d_name, ".") != 0 && strcmp(de->d_name, "..") != 0)
			r = put_child(w, fd, de->d_name, sb->st_dev, depth + 1);
	if (r == 0 && depth < COPY_DEPTH_MAX && errno)
		r = skip_read(w);
	closedir(d);
	return r;
}

static int put_node(struct walk *w, int peek, const struct stat *sb, dev_t dev, int depth)
{
	if (side_step(w->s) < 0)
		return -1;
	if (sb->st_dev != dev && side_fence(w->s, peek, buf_cstr(&w->path)) < 0) {
		side_skip(w->s);
		return 0;
	}
	if (S_ISREG(sb->st_mode))
		return put_file(w, peek, sb);
	if (S_ISDIR(sb->st_mode))
		return put_dir(w, peek, sb, depth);
	if (S_ISLNK(sb->st_mode))
		return put_link(w, peek, sb);
	return leave_out(w, S_ISFIFO(sb->st_mode)   ? "is a fifo: not copied"
			    : S_ISSOCK(sb->st_mode) ? "is a socket: not copied"
						    : "is a device: not copied");
}

static int put_source(struct walk *w, const char *src)
{
	char name[256];
	int named = copy_name(src, name), slash = *src && src[strlen(src) - 1] == '/';
	int flags = O_PATH | (named && !slash && !w->s->c->follow ? O_NOFOLLOW : 0) |
		    (named && !slash ? 0 : O_DIRECTORY);
	autofd peek = side_open(w->s, src, flags);
	struct stat sb;

	if (peek < 0 || fstat(peek, &sb) < 0) {
		fail("cannot open '%s'", side_quote(src));
		return skip(w);
	}
	buf_clear(&w->path);
	buf_str(&w->path, named ? name : ".");
	return put_node(w, peek, &sb, (dev_t)-1, 0);
}

static struct archive *open_stream(int fd, int raw)
{
	struct archive *a;

	/* Names that are UTF-8 need no special header then; ours takes them as bytes. */
	if (!raw)
		setlocale(LC_CTYPE, "C.UTF-8");
	a = archive_write_new();
	if (!a || archive_write_set_format_pax(a) != ARCHIVE_OK ||
	    (raw && archive_write_set_options(a, "hdrcharset=BINARY") != ARCHIVE_OK) ||
	    archive_write_set_bytes_per_block(a, raw ? DATA : 10240) != ARCHIVE_OK ||
	    archive_write_set_bytes_in_last_block(a, raw ? 1 : 10240) != ARCHIVE_OK ||
	    archive_write_open_fd(a, fd) != ARCHIVE_OK) {
		failx("cannot begin a tar stream");
		archive_write_free(a);
		return NULL;
	}
	return a;
}

int copy_send(struct side *s, int fd, int raw)
{
	struct walk w = {.s = s, .a = open_stream(fd, raw)};
	const char *zeros;
	int r = 0;

	if (!w.a)
		return -1;
	/* Never touched but as one page of zeros. */
	zeros = mmap(NULL, ZEROS, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (zeros == MAP_FAILED) {
		archive_write_free(w.a);
		return fail("cannot map memory");
	}
	w.zeros = zeros;
	w.data = xmalloc(DATA);
	w.e = archive_entry_new();
	for (size_t i = 0; r == 0 && i < s->c->nsrc; i++)
		r = put_source(&w, s->c->src[i]);
	if (r == 0 && archive_write_close(w.a) != ARCHIVE_OK)
		r = stream_error(&w);
	if (r < 0) /* without the end of archive: what has come cannot pass for all */
		archive_write_fail(w.a);
	archive_write_free(w.a);
	archive_entry_free(w.e);
	inodes_free(&w.links);
	buf_free(&w.path);
	free(w.data);
	free(w.ext);
	munmap((void *)(uintptr_t)zeros, ZEROS);
	return r;
}
