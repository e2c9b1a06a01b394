#include "store/depot.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/die.h"
#include "base/fd.h"
#include "base/id.h"
#include "store/depot_dir.h"
#include "store/digest.h"
#include "store/erofs_read.h"
#include "store/image_dir.h"

enum { PIECE = 1 << 20, STALE_S = 24 * 3600, RANDOM = 6 };

static const char digits[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";

/* Others write a depot too: what is done in it by root never leaves it by a link or a mount. */
enum { INSIDE = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV };

int depot_dir(const struct state *depot, const char *path)
{
	int fd = fd_openat2(depot->state, path, O_RDONLY | O_DIRECTORY, 0, INSIDE);

	if (fd < 0 && (errno == ELOOP || errno == ENOTDIR || errno == EXDEV))
		return failx("'%s/%s' is no directory of the depot itself: a depot has no links",
			     depot->conf.state, path);
	return fd < 0 ? fail("cannot open '%s/%s'", depot->conf.state, path) : fd;
}

int depot_parent(const struct state *depot, const char *path, const char **name)
{
	const char *slash = strrchr(path, '/');
	autofree char *dir = xasprintf("%.*s", (int)(slash - path), path);

	*name = slash + 1;
	return depot_dir(depot, dir);
}

int depot_mkdir(const struct state *depot, const char *path)
{
	const char *name;
	autofd up = depot_parent(depot, path, &name), fd = -1;

	if (up < 0)
		return -1;
	if (mkdirat(up, name, 0755) < 0 && errno != EEXIST)
		return fail("cannot make directory '%s/%s'", depot->conf.state, path);
	fd = depot_dir(depot, path);
	return fd < 0 ? -1 : 0;
}

static int make_dirs(const struct state *depot)
{
	static const char *const dirs[] = {"img/layer", "img/data",  "img/image", "img/name",
					   "img/tmp",	"img/index", "img/from"};

	if (mkdirat(depot->state, "img", 0755) < 0 && errno != EEXIST)
		return fail("cannot make directory '%s/img'", depot->conf.state);
	for (size_t i = 0; i < sizeof(dirs) / sizeof(*dirs); i++)
		if (depot_mkdir(depot, dirs[i]) < 0)
			return -1;
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
	if (make) {
		if (!make_dirs(depot))
			return 0;
		depot_close(depot);
		return -1;
	}
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

/* NODE.XXXXXX, as depot_tmp_open() makes them. */
static int is_push(const char *name)
{
	const char *dot = strrchr(name, '.');
	char node[64];

	if (!dot || dot - name >= (ptrdiff_t)sizeof(node) || strlen(dot + 1) != RANDOM)
		return 0;
	memcpy(node, name, (size_t)(dot - name));
	node[dot - name] = 0;
	return id_node_valid(node) && strspn(dot + 1, digits) == RANDOM;
}

/* Ages by the clock of the file system's server: MINE was made just now. */
static void sweep(int tmp, const struct stat *mine)
{
	int fd = openat(tmp, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;
	struct stat sb;

	while (d && (e = readdir(d)))
		if (is_push(e->d_name) && !fstatat(tmp, e->d_name, &sb, AT_SYMLINK_NOFOLLOW) &&
		    sb.st_mtime + STALE_S < mine->st_mtime)
			(void)fd_rmtree(tmp, e->d_name); /* or the next one does it */
	if (d)
		closedir(d);
	else
		fd_close(&fd);
}

/* mkdtemp(3) below a descriptor. */
static int make_random(struct depot_tmp *t)
{
	unsigned char raw[RANDOM];

	for (int tries = 0; tries < 100; tries++) {
		int n = snprintf(t->name, sizeof(t->name), "%s.", t->depot->conf.node);

		if (n < 0 || (size_t)n + RANDOM >= sizeof(t->name))
			return failx("the node's name is too long");
		if (getrandom(raw, sizeof(raw), 0) != (ssize_t)sizeof(raw))
			return fail("cannot get random bytes");
		for (int i = 0; i < RANDOM; i++)
			t->name[n + i] = digits[raw[i] % (sizeof(digits) - 1)];
		t->name[n + RANDOM] = 0;
		if (!mkdirat(t->dir, t->name, 0700))
			return 0;
		if (errno != EEXIST)
			break;
	}
	return fail("cannot make a directory in '%s/img/tmp'", t->depot->conf.state);
}

int depot_tmp_open(struct depot_tmp *t, const struct state *depot)
{
	struct stat sb;

	*t = (struct depot_tmp){.depot = depot, .dir = -1, .fd = -1};
	t->dir = depot_dir(depot, "img/tmp");
	if (t->dir < 0 || make_random(t) < 0)
		return -1;
	t->fd = fd_openat2(t->dir, t->name, O_RDONLY | O_DIRECTORY, 0, INSIDE);
	if (t->fd < 0 || fstat(t->fd, &sb) < 0)
		return fail("cannot open '%s/img/tmp/%s'", depot->conf.state, t->name);
	sweep(t->dir, &sb);
	return 0;
}

int depot_tmp_close(struct depot_tmp *t, int r)
{
	struct failure first;

	fail_save(&first);
	if (t->fd >= 0 && fd_rmtree(t->dir, t->name) < 0 && !r)
		r = -1;
	else if (r < 0)
		fail_again(&first);
	fd_close(&t->fd);
	fd_close(&t->dir);
	return r;
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
	const char *last;
	autofd dir = depot_parent(t->depot, to, &last);

	if (dir < 0)
		return -1;
	if (!renameat(t->fd, name, dir, last))
		return 0;
	/* A directory, or a file on a server that does not replace: what is there is the same. */
	if (errno == EEXIST || errno == ENOTEMPTY)
		return fd_rmtree(t->fd, name);
	return fail("cannot publish '%s/%s'", t->depot->conf.state, to);
}

int depot_put(struct depot_tmp *t, const char *to, const void *p, size_t n)
{
	const char *last;
	autofd dir = depot_parent(t->depot, to, &last);
	autofd fd = dir < 0 ? -1 : depot_create(t->fd, "put");

	if (fd < 0)
		return -1;
	if (fd_write_all(fd, p, n) < 0 || depot_sync(fd, to) < 0)
		return fail("cannot write '%s/%s'", t->depot->conf.state, to);
	if (!renameat(t->fd, "put", dir, last))
		return 0;
	/* No replacing rename there. */
	if (errno != EEXIST || unlinkat(dir, last, 0) < 0 || renameat(t->fd, "put", dir, last) < 0)
		return fail("cannot publish '%s/%s'", t->depot->conf.state, to);
	return 0;
}

int depot_has_blob(const struct state *depot, const struct tree_blob *b)
{
	char path[SHA_HEX + 16];
	struct stat sb;

	snprintf(path, sizeof(path), "img/data/%s", b->sha);
	return !fstatat(depot->state, path, &sb, AT_SYMLINK_NOFOLLOW) && S_ISREG(sb.st_mode) &&
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

struct tree *depot_read_tree(const char *path, const struct layer *l)
{
	autofd fd = openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC);

	if (fd < 0) {
		fail("cannot open '%s'", path);
		return NULL;
	}
	if (depot_copy(fd, -1, l->meta_bytes, l->meta, "metadata", path) < 0)
		return NULL;
	return erofs_read(fd, l->dev, l->ndev);
}
