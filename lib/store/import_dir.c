/* A directory of the host into the tree: read by fd and name, never through a link. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/die.h"
#include "base/fd.h"
#include "store/import.h"

enum { PIECE = 256 * 1024, XATTR_LIST = 65536 };

/* Files with more than one name, by device and inode. */
struct linked {
	struct linked *next;
	dev_t dev;
	ino_t num;
	struct tree_inode *ino;
};

struct walk {
	struct import *im;
	struct buf path; /* of what is being read, for messages */
	char *piece;
	char *list; /* names, then one value, of attributes */
	struct linked *linked[4096];
};

static struct linked **place(struct walk *w, const struct stat *st)
{
	struct linked **p = &w->linked[(st->st_ino * 31 + st->st_dev) % 4096];

	while (*p && ((*p)->dev != st->st_dev || (*p)->num != st->st_ino))
		p = &(*p)->next;
	return p;
}

static int keep_xattr(struct walk *w, struct tree_inode *ino, const char *name, void *val,
		      size_t len)
{
	const struct import_filter *f = w->im->filter;

	return f ? f->xattr(f->arg, w->im, ino, name, val, len)
		 : import_xattr(w->im, ino, name, val, len);
}

/* PATH is /proc/self/fd/N or /proc/self/fd/N/NAME: links are not followed (lgetxattr(2)). */
static int xattrs(struct walk *w, int fd, const char *path, struct tree_inode *ino)
{
	ssize_t n =
		path ? llistxattr(path, w->list, XATTR_LIST) : flistxattr(fd, w->list, XATTR_LIST);
	char *val = w->list + XATTR_LIST;

	if (n < 0 && (errno == ENOTSUP || errno == ENOSYS))
		return 0;
	if (n < 0)
		return fail("cannot list extended attributes");
	for (char *name = w->list; name < w->list + n; name += strlen(name) + 1) {
		ssize_t len = path ? lgetxattr(path, name, val, XATTR_LIST)
				   : fgetxattr(fd, name, val, XATTR_LIST);

		if (len < 0)
			return fail("cannot read extended attribute '%s'", name);
		if (keep_xattr(w, ino, name, val, (size_t)len) < 0)
			return -1;
	}
	return 0;
}

/* Bytes OFF to END of the file. */
static int span(struct walk *w, int fd, uint64_t off, uint64_t end)
{
	while (off < end) {
		size_t want = end - off < PIECE ? (size_t)(end - off) : PIECE;
		ssize_t n = pread(fd, w->piece, want, (off_t)off);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return fail("cannot read it");
		if (!n)
			return failx("it became shorter while it was read");
		import_count(w->im, (uint64_t)n);
		if (blob_write(w->im->data, off, w->piece, (size_t)n) < 0)
			return -1;
		off += (uint64_t)n;
	}
	return 0;
}

/* Only what SEEK_DATA shows; a file system without it shows the whole file. */
static int sparse(struct walk *w, int fd, uint64_t size)
{
	off_t off = 0, hole;

	for (;;) {
		off = lseek(fd, off, SEEK_DATA);
		if (off < 0 && errno == ENXIO)
			return 0;
		if (off < 0)
			return fail("cannot find its data");
		if ((uint64_t)off >= size)
			return 0;
		hole = lseek(fd, off, SEEK_HOLE);
		if (hole < 0)
			return fail("cannot find its holes");
		if (span(w, fd, (uint64_t)off, (uint64_t)hole < size ? (uint64_t)hole : size) < 0)
			return -1;
		off = hole;
	}
}

static int regular(struct walk *w, int dir, const char *name, struct tree_inode *ino)
{
	autofd fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	struct stat st;
	uint64_t size;

	if (fd < 0 || fstat(fd, &st) < 0)
		return fail("cannot open it");
	if (!S_ISREG(st.st_mode))
		return failx("it changed its type while it was read");
	size = (uint64_t)st.st_size;
	if (xattrs(w, fd, NULL, ino) < 0 || blob_begin(w->im->data, ino, size) < 0)
		return -1;
	if ((uint64_t)st.st_blocks * 512 < size ? sparse(w, fd, size) < 0
						: span(w, fd, 0, size) < 0)
		return -1;
	return blob_end(w->im->data);
}

static int special(struct walk *w, int dir, const char *name, struct tree_inode *ino,
		   const struct stat *st)
{
	autofree char *path = xasprintf("/proc/self/fd/%d/%s", dir, name);
	char target[TREE_TARGET + 2];
	ssize_t n;

	if (S_ISLNK(st->st_mode)) {
		n = readlinkat(dir, name, target, sizeof(target) - 1);
		if (n < 0)
			return fail("cannot read the link");
		target[n] = 0;
		if (tree_set_target(ino, target) < 0)
			return -1;
	} else if (!S_ISFIFO(st->st_mode)) {
		unsigned ma = major(st->st_rdev), mi = minor(st->st_rdev);

		ino->rdev = (mi & 0xff) | ma << 8 | (mi & ~0xffu) << 12;
	}
	return xattrs(w, -1, path, ino);
}

static void stats(struct walk *w, struct tree_inode *ino, const struct stat *st)
{
	const struct import_filter *f = w->im->filter;

	ino->uid = st->st_uid;
	ino->gid = st->st_gid;
	ino->mtime = st->st_mtim.tv_sec;
	ino->nsec = (uint32_t)st->st_mtim.tv_nsec;
	if (f)
		f->owner(f->arg, ino);
}

static int directory(struct walk *w, int fd, struct tree_inode *dir);

static int entry(struct walk *w, int fd, struct tree_inode *dir, const char *name)
{
	const struct import_filter *f = w->im->filter;
	struct linked **known = NULL;
	struct tree_inode *ino;
	struct stat st;

	if (fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return fail("cannot look at it");
	if (S_ISSOCK(st.st_mode)) {
		w->im->sockets++;
		return 0;
	}
	if (f && f->skip(f->arg, buf_cstr(&w->path), &st))
		return 0;
	/* overlayfs links its whiteouts to one another for thrift: they are not one file. */
	if (!S_ISDIR(st.st_mode) && st.st_nlink > 1 && !(S_ISCHR(st.st_mode) && !st.st_rdev)) {
		known = place(w, &st);
		if (*known)
			return tree_link_at(w->im->tree, dir, name, (*known)->ino);
	}
	ino = tree_add_at(w->im->tree, dir, name, st.st_mode);
	if (!ino)
		return -1;
	stats(w, ino, &st);
	if (known) {
		*known = xmalloc(sizeof(**known));
		**known = (struct linked){.dev = st.st_dev, .num = st.st_ino, .ino = ino};
	}
	if (S_ISREG(st.st_mode))
		return regular(w, fd, name, ino);
	if (S_ISDIR(st.st_mode)) {
		autofd sub = openat(fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

		return sub < 0 ? fail("cannot open it") : directory(w, sub, ino);
	}
	return special(w, fd, name, ino, &st);
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* All names of a directory, sorted: the order on disk is chance, an image's is not. */
static int names(int fd, char ***out, size_t *count)
{
	int copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = copy < 0 ? NULL : fdopendir(copy);
	char **v = NULL;
	size_t n = 0;
	struct dirent *e;

	while (d && (errno = 0, e = readdir(d))) {
		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
			continue;
		if (!(n & (n - 1)))
			v = xrealloc(v, (n ? n * 2 : 1) * sizeof(*v));
		v[n++] = xstrdup(e->d_name);
	}
	*out = v;
	*count = n;
	if (!d || errno) {
		fail("cannot read the directory");
		if (d)
			closedir(d);
		else
			fd_close(&copy);
		return -1;
	}
	closedir(d);
	if (n)
		qsort(v, n, sizeof(*v), by_name);
	return 0;
}

static int directory(struct walk *w, int fd, struct tree_inode *dir)
{
	char **v = NULL;
	size_t n = 0;
	int r = xattrs(w, fd, NULL, dir);

	if (!r)
		r = names(fd, &v, &n);
	for (size_t i = 0; i < n; i++) {
		size_t len = w->path.len;

		if (!r) {
			buf_fmt(&w->path, "%s%s", len ? "/" : "", v[i]);
			r = entry(w, fd, dir, v[i]);
		}
		if (!r) { /* after an error the path stays for the message */
			w->path.len = len;
			buf_room(&w->path, 0);
		}
		free(v[i]);
	}
	free(v);
	return r;
}

int import_dir(struct import *im, int fd)
{
	struct walk *w = xcalloc(1, sizeof(*w));
	struct tree_inode *root = tree_root(im->tree);
	struct rlimit lim;
	struct stat st;
	int r;

	/* One fd for each level of the walk. */
	if (!getrlimit(RLIMIT_NOFILE, &lim)) {
		lim.rlim_cur = lim.rlim_max;
		setrlimit(RLIMIT_NOFILE, &lim);
	}
	w->im = im;
	w->piece = xmalloc(PIECE);
	w->list = xmalloc(2 * XATTR_LIST);
	r = fstat(fd, &st) < 0 ? fail("cannot look at the directory") : 0;
	if (!r) {
		root->mode = st.st_mode;
		stats(w, root, &st);
		r = directory(w, fd, root);
	}
	if (r < 0)
		fail_more("cannot take '%.200s'", buf_cstr(&w->path));
	buf_free(&w->path);
	for (size_t i = 0; i < sizeof(w->linked) / sizeof(*w->linked); i++)
		for (struct linked *l = w->linked[i], *next; l; l = next) {
			next = l->next;
			free(l);
		}
	free(w->list);
	free(w->piece);
	free(w);
	return r;
}
