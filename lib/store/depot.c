#include "store/depot.h"

#include <dirent.h>
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
#include "store/depot_dir.h"
#include "store/digest.h"
#include "store/image_dir.h"

enum { PIECE = 1 << 20, STALE_S = 24 * 3600 };

static int make_dirs(const struct state *depot)
{
	static const char *const dirs[] = {"img",      "img/layer", "img/data",	 "img/image",
					   "img/name", "img/tmp",   "img/index", "img/from"};

	for (size_t i = 0; i < sizeof(dirs) / sizeof(*dirs); i++)
		if (mkdirat(depot->state, dirs[i], 0755) < 0 && errno != EEXIST)
			return fail("cannot make directory '%s/%s'", depot->conf.state, dirs[i]);
	return 0;
}

int depot_open(struct state *depot, const struct conf *conf, const char *path, int make)
{
	autofree char *real = NULL;

	*depot = (struct state){.conf = *conf, .state = -1, .run = -1, .box = -1, .run_box = -1};
	if (make && mkdir(path, 0755) < 0 && errno != EEXIST)
		return fail("cannot make the depot '%s'", path);
	real = realpath(path, NULL);
	if (!real)
		return fail("cannot open the depot '%s'", path);
	depot->state = fd_dir(AT_FDCWD, real, 0);
	if (depot->state < 0)
		return -1;
	depot->conf.state = real;
	real = NULL;
	if (make)
		return make_dirs(depot);
	if (faccessat(depot->state, "img/image", F_OK, 0) < 0) {
		int err = errno;

		depot_close(depot);
		errno = err;
		return err == ENOENT ? failx("'%s' is no depot: nothing was pushed to it", path)
				     : fail("cannot open the depot '%s'", path);
	}
	return 0;
}

void depot_close(struct state *depot)
{
	fd_close(&depot->state);
}

/* Ages by the clock of the file system's server: MINE was made just now. */
static void sweep(const struct state *depot, const struct stat *mine)
{
	DIR *d = state_opendir(depot, "img/tmp");
	struct dirent *e;
	struct stat sb;

	while (d && (e = readdir(d)))
		if (e->d_name[0] != '.' &&
		    !fstatat(dirfd(d), e->d_name, &sb, AT_SYMLINK_NOFOLLOW) &&
		    sb.st_mtime + STALE_S < mine->st_mtime)
			(void)fd_rmtree(dirfd(d), e->d_name); /* or the next one does it */
	if (d)
		closedir(d);
}

int depot_tmp_open(struct depot_tmp *t, const struct state *depot)
{
	struct stat sb;

	*t = (struct depot_tmp){.depot = depot, .fd = -1};
	if (snprintf(t->path, sizeof(t->path), "%s/img/tmp/%s.XXXXXX", depot->conf.state,
		     depot->conf.node) >= PATH_MAX)
		return failx("the depot's path is too long");
	if (!mkdtemp(t->path))
		return fail("cannot make a directory in '%s/img/tmp'", depot->conf.state);
	t->fd = fd_dir(AT_FDCWD, t->path, 0);
	if (t->fd < 0 || fstat(t->fd, &sb) < 0)
		return fail("cannot open '%s'", t->path);
	sweep(depot, &sb);
	return 0;
}

int depot_tmp_close(struct depot_tmp *t, int r)
{
	autofree char *text = xstrdup(r < 0 ? fail_text() : "");
	int code = fail_code();

	if (t->fd < 0)
		return r;
	fd_close(&t->fd);
	if (fd_rmtree(AT_FDCWD, t->path) < 0 && !r)
		return -1;
	return r < 0 ? fail_as(code, "%s", text) : r;
}

int depot_create(int dir, const char *name)
{
	int fd = openat(dir, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);

	return fd < 0 ? fail("cannot create '%s'", name) : fd;
}

int depot_sync(int fd, const char *what)
{
	if (!fsync(fd) || errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP)
		return 0;
	return fail("cannot write %s to disk", what);
}

int depot_publish(struct depot_tmp *t, const char *name, const char *to)
{
	if (!renameat(t->fd, name, t->depot->state, to))
		return 0;
	/* A directory, or a file on a server that does not replace: what is there is the same. */
	if (errno == EEXIST || errno == ENOTEMPTY)
		return fd_rmtree(t->fd, name);
	return fail("cannot publish '%s/%s'", t->depot->conf.state, to);
}

int depot_put(struct depot_tmp *t, const char *to, const void *p, size_t n)
{
	autofd fd = depot_create(t->fd, "put");

	if (fd < 0)
		return -1;
	if (fd_write_all(fd, p, n) < 0 || depot_sync(fd, to) < 0)
		return fail("cannot write '%s/%s'", t->depot->conf.state, to);
	if (!renameat(t->fd, "put", t->depot->state, to))
		return 0;
	/* No replacing rename there. */
	if (errno != EEXIST || unlinkat(t->depot->state, to, 0) < 0 ||
	    renameat(t->fd, "put", t->depot->state, to) < 0)
		return fail("cannot publish '%s/%s'", t->depot->conf.state, to);
	return 0;
}

int depot_has_blob(const struct state *depot, const struct tree_blob *b)
{
	char path[SHA_HEX + 16];
	struct stat sb;

	snprintf(path, sizeof(path), "img/data/%s", b->sha);
	return !fstatat(depot->state, path, &sb, 0) && S_ISREG(sb.st_mode) &&
	       (uint64_t)sb.st_size == b->blocks * TREE_BLOCK;
}

int depot_has_layer(const struct state *depot, const char *digest)
{
	char path[IMAGE_DIGEST + 24];

	snprintf(path, sizeof(path), "img/layer/%s/info", digest);
	return !faccessat(depot->state, path, F_OK, 0);
}

static int copy(int from, int to, uint64_t bytes, EVP_MD_CTX *sha, char hex[65], char *piece)
{
	uint64_t at = 0;
	ssize_t n;

	while ((n = pread(from, piece, PIECE, (off_t)at)) > 0) {
		EVP_DigestUpdate(sha, piece, (size_t)n);
		at += (uint64_t)n;
		if (at > bytes)
			return failx("it is longer than %llu bytes", (unsigned long long)bytes);
		if (to >= 0 && fd_write_all(to, piece, (size_t)n) < 0)
			return fail("cannot write the copy");
	}
	if (n < 0)
		return fail("cannot read it");
	if (at < bytes)
		return failx("it has %llu bytes, not %llu", (unsigned long long)at,
			     (unsigned long long)bytes);
	return sha_end(sha, hex);
}

int depot_copy(int from, int to, uint64_t bytes, const char *sha, const char *what,
	       const char *path)
{
	autofree char *piece = xmalloc(PIECE);
	EVP_MD_CTX *ctx = sha_new();
	char hex[65];
	int r = copy(from, to, bytes, ctx, hex, piece);

	EVP_MD_CTX_free(ctx);
	if (!r && strcmp(hex, sha) != 0)
		r = failx("it is damaged (its SHA-256 is %s)", hex);
	return r < 0 ? fail_more("%s '%s'", what, path) : 0;
}

int depot_copy_path(const char *path, int to, uint64_t bytes, const char *sha, const char *what)
{
	/* Not a link or a fifo that a depot puts there. */
	autofd from = openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

	if (from < 0)
		return fail("%s: cannot open '%s'", what, path);
	return depot_copy(from, to, bytes, sha, what, path);
}
