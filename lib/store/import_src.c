#include "store/import_src.h"

#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/die.h"
#include "base/fd.h"
#include "store/digest.h"

enum { ROOM = 256 * 1024, MEMBERS = 100000, LINKS = 8, SMALL = 8 << 20 };

static struct stream *new_stream(void)
{
	struct stream *s = xcalloc(1, sizeof(*s));

	s->fd = -1;
	return s;
}

struct stream *stream_fd(struct import *im, int fd, int own)
{
	struct stream *s = new_stream();

	s->im = im;
	s->fd = fd;
	s->own = own;
	s->room = xmalloc(ROOM);
	return s;
}

struct stream *stream_archive(struct archive *a)
{
	struct stream *s = new_stream();

	s->a = a;
	return s;
}

void stream_hash(struct stream *s)
{
	s->sha = sha_new();
}

void stream_close(struct stream *s)
{
	if (!s)
		return;
	if (s->own)
		close(s->fd);
	if (s->a)
		archive_read_free(s->a);
	stream_close(s->outer);
	EVP_MD_CTX_free(s->sha);
	free(s->room);
	free(s);
}

static const char *why(struct archive *a)
{
	return archive_error_string(a) ? archive_error_string(a) : "it is damaged";
}

/* The next piece: its length, 0 at the end, -1 after fail(). */
static ssize_t next(struct stream *s, const void **p)
{
	ssize_t n;

	if (s->ended)
		return 0;
	if (s->a) {
		int64_t off;
		size_t len = 0;
		int r;

		do
			r = archive_read_data_block(s->a, p, &len, &off);
		while (r == ARCHIVE_OK && !len);
		if (r != ARCHIVE_OK && r != ARCHIVE_EOF)
			return failx("cannot read the archive: %s", why(s->a));
		n = r == ARCHIVE_EOF ? 0 : (ssize_t)len;
	} else {
		do
			n = read(s->fd, s->room, ROOM);
		while (n < 0 && errno == EINTR);
		if (n < 0)
			return fail("cannot read the source");
		*p = s->room;
		if (s->im)
			import_count(s->im, (uint64_t)n);
	}
	s->ended = !n;
	if (n && s->sha)
		EVP_DigestUpdate(s->sha, *p, (size_t)n);
	return n;
}

int stream_finish(struct stream *s, char hex[SHA_HEX + 1])
{
	const void *p;
	ssize_t n;

	while ((n = next(s, &p)) > 0)
		;
	if (n < 0)
		return -1;
	return hex ? sha_end(s->sha, hex) : 0;
}

static la_ssize_t on_read(struct archive *a, void *arg, const void **p)
{
	ssize_t n = next(arg, p);

	if (n < 0)
		archive_set_error(a, EIO, "%s", fail_text());
	return n;
}

static la_int64_t on_seek(struct archive *a, void *arg, la_int64_t off, int whence)
{
	struct stream *s = arg;
	off_t at = lseek(s->fd, (off_t)off, whence);

	if (at < 0)
		archive_set_error(a, errno, "cannot seek");
	return at < 0 ? ARCHIVE_FATAL : at;
}

static la_int64_t on_skip(struct archive *a, void *arg, la_int64_t n)
{
	struct stream *s = arg;

	(void)a;
	return lseek(s->fd, (off_t)n, SEEK_CUR) < 0 ? 0 : n;
}

/*
 * Only the filters that are libraries: some of libarchive's run a program when its library was
 * absent at build time, and what is read here may be hostile.
 */
struct archive *stream_reader(struct stream *s, enum stream_format f)
{
	struct archive *a = archive_read_new();
	struct stat st;

	if (!a)
		xnomem();
	archive_read_support_filter_gzip(a);
	archive_read_support_filter_bzip2(a);
	archive_read_support_filter_xz(a);
	archive_read_support_filter_lzma(a);
	archive_read_support_filter_zstd(a);
	if (f == STREAM_TAR) {
		archive_read_support_format_tar(a);
		archive_read_support_format_empty(a);
	} else {
		archive_read_support_format_raw(a);
		archive_read_support_format_empty(a);
	}
	archive_read_set_read_callback(a, on_read);
	archive_read_set_callback_data(a, s);
	/* Skipping would leave bytes out of a hash. */
	if (s->fd >= 0 && !s->sha && !fstat(s->fd, &st) && S_ISREG(st.st_mode)) {
		archive_read_set_skip_callback(a, on_skip);
		archive_read_set_seek_callback(a, on_seek);
	}
	if (archive_read_open1(a) == ARCHIVE_OK)
		return a;
	failx("cannot read the archive: %s", why(a));
	archive_read_free(a);
	return NULL;
}

struct member {
	char *name;   /* without "./" */
	char *target; /* a link's, as a name; NULL for a file */
	size_t spool; /* number of the spooled file */
};

struct source {
	struct import *im;
	int dir;    /* -1 unless it is a directory */
	char *path; /* read in place from here; NULL: spooled */
	struct member *v;
	size_t n;
};

struct source *source_dir(struct import *im, int fd)
{
	struct source *s = xcalloc(1, sizeof(*s));

	s->im = im;
	s->dir = fd;
	return s;
}

void source_free(struct source *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->n; i++) {
		free(s->v[i].name);
		free(s->v[i].target);
	}
	free(s->v);
	free(s->path);
	free(s);
}

static const char *bare(const char *name)
{
	while (name[0] == '.' && name[1] == '/')
		for (name += 2; *name == '/';)
			name++;
	return name;
}

/* Where a link leads, by text alone: docker-save links layers as ../OTHER/layer.tar. */
static char *resolve(const char *from, const char *target)
{
	autobuf b = BUF_INIT;
	const char *slash = strrchr(from, '/');

	if (slash && *target != '/')
		buf_add(&b, from, (size_t)(slash - from));
	while (*target) {
		size_t n = strcspn(target, "/");

		if (n == 2 && !strncmp(target, "..", 2)) {
			char *cut = b.len ? strrchr(b.p, '/') : NULL;

			b.len = cut ? (size_t)(cut - b.p) : 0;
			buf_room(&b, 0);
		} else if (n && !(n == 1 && *target == '.')) {
			if (b.len)
				buf_chr(&b, '/');
			buf_add(&b, target, n);
		}
		target += n + (target[n] == '/');
	}
	return xstrdup(buf_cstr(&b));
}

static void spool_name(char out[32], size_t i)
{
	snprintf(out, 32, "spool.%zu", i);
}

static int spool(struct source *s, struct archive *a, size_t i)
{
	char name[32];
	autofd fd = -1;

	spool_name(name, i);
	fd = openat(s->im->stage->fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return fail("cannot make a staging file");
	/* A pipe's bytes were counted when they were read. */
	if (archive_read_data_into_fd(a, fd) != ARCHIVE_OK)
		return failx("cannot spool the archive: %s", why(a));
	return 0;
}

static int is_member(struct archive_entry *e)
{
	return archive_entry_pathname(e) &&
	       (archive_entry_hardlink(e) || archive_entry_filetype(e) == AE_IFREG ||
		archive_entry_filetype(e) == AE_IFLNK);
}

static int add_member(struct source *s, struct archive *a, struct archive_entry *e)
{
	const char *name = archive_entry_pathname(e), *link = archive_entry_hardlink(e);
	struct member *m;

	if (!is_member(e))
		return 0;
	if (s->n >= MEMBERS)
		return failx("an image archive of more than %d members", MEMBERS);
	if (!(s->n & (s->n - 1)))
		s->v = xrealloc(s->v, (s->n ? s->n * 2 : 1) * sizeof(*s->v));
	m = &s->v[s->n];
	*m = (struct member){.name = xstrdup(bare(name)), .spool = s->n};
	s->n++;
	if (link)
		m->target = xstrdup(bare(link));
	else if (archive_entry_filetype(e) == AE_IFLNK)
		m->target =
			resolve(m->name, archive_entry_symlink(e) ? archive_entry_symlink(e) : "");
	else if (!s->path)
		return spool(s, a, m->spool);
	return 0;
}

struct source *source_archive(struct import *im, struct archive *a, struct archive_entry *first,
			      const char *path)
{
	struct source *s = source_dir(im, -1);
	struct archive_entry *e = first;
	int r;

	s->path = path ? xstrdup(path) : NULL;
	do {
		if (add_member(s, a, e) < 0) {
			source_free(s);
			return NULL;
		}
		r = archive_read_next_header(a, &e);
	} while (r == ARCHIVE_OK || r == ARCHIVE_WARN);
	if (r == ARCHIVE_EOF)
		return s;
	failx("cannot read the archive: %s", why(a));
	source_free(s);
	return NULL;
}

/* The last member of that name, as unpacking would leave it. */
static const struct member *find(const struct source *s, const char *name)
{
	const struct member *m = NULL;

	for (int links = 0; links < LINKS; links++) {
		size_t i = s->n;

		while (i && strcmp(s->v[i - 1].name, name) != 0)
			i--;
		if (!i)
			return NULL;
		m = &s->v[i - 1];
		if (!m->target)
			return m;
		name = m->target;
	}
	return NULL;
}

int source_has(struct source *s, const char *name)
{
	return s->dir >= 0 ? !faccessat(s->dir, name, F_OK, 0) : find(s, bare(name)) != NULL;
}

/* Goes to the member by its number; what is before is skipped by seeking. */
static struct stream *from_archive(struct source *s, size_t number)
{
	int fd = open(s->path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	struct stream *outer, *inner;
	struct archive_entry *e;
	struct archive *a;
	int r;

	if (fd < 0) {
		fail("cannot open '%s'", s->path);
		return NULL;
	}
	outer = stream_fd(s->im, fd, 1);
	a = stream_reader(outer, STREAM_TAR);
	while (a && ((r = archive_read_next_header(a, &e)) == ARCHIVE_OK || r == ARCHIVE_WARN)) {
		if (!is_member(e) || number--)
			continue;
		inner = stream_archive(a);
		inner->outer = outer;
		inner->size = (uint64_t)archive_entry_size(e);
		return inner;
	}
	if (a) {
		failx("'%s' changed while it was read", s->path);
		archive_read_free(a);
	}
	stream_close(outer);
	return NULL;
}

static struct stream *from_fd(struct import *im, int fd)
{
	struct stream *s = stream_fd(im, fd, 1);
	struct stat st;

	if (!fstat(fd, &st) && S_ISREG(st.st_mode))
		s->size = (uint64_t)st.st_size;
	return s;
}

struct stream *source_open(struct source *s, const char *name)
{
	const struct member *m = s->dir < 0 ? find(s, bare(name)) : NULL;
	char spooled[32];
	int fd;

	if (s->dir < 0 && !m) {
		failx("the image has no '%.200s'", name);
		return NULL;
	}
	if (s->path && m)
		return from_archive(s, m->spool);
	if (m) {
		spool_name(spooled, m->spool);
		fd = openat(s->im->stage->fd, spooled, O_RDONLY | O_CLOEXEC);
	} else {
		fd = fd_openat2(s->dir, name, O_RDONLY | O_NOCTTY | O_NONBLOCK, 0, RESOLVE_BENEATH);
	}
	if (fd < 0) {
		fail("cannot open '%.200s'", name);
		return NULL;
	}
	return from_fd(m ? NULL : s->im, fd);
}

int source_read(struct source *s, const char *name, const char *hex, struct buf *b)
{
	struct stream *st = source_open(s, name);
	char got[SHA_HEX + 1];
	const void *p = NULL;
	ssize_t n = -1;

	buf_clear(b);
	if (!st)
		return -1;
	stream_hash(st);
	while ((n = next(st, &p)) > 0) {
		buf_add(b, p, (size_t)n);
		if (b->len > SMALL) {
			n = failx("'%.200s' is larger than %d bytes", name, SMALL);
			break;
		}
	}
	if (!n)
		n = sha_end(st->sha, got);
	stream_close(st);
	if (n < 0)
		return -1;
	if (hex && strcmp(hex, got) != 0)
		return failx("'%.200s' is damaged: its digest is %s", name, got);
	return 0;
}
