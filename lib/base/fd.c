#include "base/fd.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/die.h"

void fd_close(int *fd)
{
	int err = errno;

	if (*fd >= 0)
		close(*fd);
	*fd = -1;
	errno = err;
}

int fd_take(int *fd)
{
	int got = *fd;

	*fd = -1;
	return got;
}

int fd_openat2(int dir, const char *path, int flags, mode_t mode, uint64_t resolve)
{
	struct open_how how = {
		.flags = (uint64_t)(flags | O_CLOEXEC),
		.mode = mode,
		.resolve = resolve,
	};
	long fd;

	/* EAGAIN: a rename somewhere in the system disturbed a scoped look-up (openat2(2)). */
	for (int tries = 0; tries < 64; tries++) {
		fd = syscall(SYS_openat2, dir, path, &how, sizeof(how));
		if (fd >= 0 || (errno != EAGAIN && errno != EINTR))
			break;
	}
	return (int)fd;
}

int fd_dir(int at, const char *path, int make)
{
	int fd;

	if (make && mkdirat(at, path, 0700) < 0 && errno != EEXIST)
		return fail("cannot make directory '%s'", path);
	fd = openat(at, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? fail("cannot open directory '%s'", path) : fd;
}

int fd_mkdirs(const char *path, mode_t mode)
{
	autofree char *s = xstrdup(path);

	for (char *p = s + 1;; p++) {
		char c = *p;

		if (c && c != '/')
			continue;
		*p = 0;
		if (mkdir(s, mode) < 0 && errno != EEXIST)
			return fail("cannot make directory '%s'", s);
		if (!c)
			return 0;
		*p = c;
	}
}

int fd_write_all(int fd, const void *p, size_t n)
{
	const char *s = p;

	while (n) {
		ssize_t k = write(fd, s, n);

		if (k < 0 && errno == EINTR)
			continue;
		if (k < 0)
			return -1;
		s += k;
		n -= (size_t)k;
	}
	return 0;
}

ssize_t fd_read_all(int fd, void *p, size_t n)
{
	size_t got = 0;

	while (got < n) {
		ssize_t k = read(fd, (char *)p + got, n - got);

		if (k < 0 && errno == EINTR)
			continue;
		if (k < 0)
			return -1;
		if (!k)
			break;
		got += (size_t)k;
	}
	return (ssize_t)got;
}

int fd_read_file(int at, const char *path, size_t max, struct buf *b)
{
	/* A fifo that somebody put there must not stop us. */
	autofd fd = openat(at, path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	struct stat st;
	size_t step = 1024;

	buf_clear(b);
	if (fd < 0 || fstat(fd, &st) < 0)
		return fail("cannot open '%s'", path);
	/* One piece of the right size: malloc maps memory for a piece that grows, each time anew. */
	if (S_ISREG(st.st_mode) && st.st_size > 0 && (size_t)st.st_size <= max)
		step = (size_t)st.st_size + 1;
	for (;; step = 4096) {
		ssize_t k = read(fd, buf_room(b, step), step);

		if (k < 0 && errno == EINTR)
			continue;
		if (k < 0)
			return fail("cannot read '%s'", path);
		b->len += (size_t)k;
		if (b->len > max) {
			errno = EFBIG;
			return fail("cannot read '%s' (limit %zu bytes)", path, max);
		}
		if (!k || (step == (size_t)st.st_size + 1 && (size_t)k < step))
			break;
	}
	buf_room(b, 0);
	return 0;
}

int fd_replace(int at, const char *path, const void *p, size_t n, int sync)
{
	char tmp[4096];
	autofd fd = -1;

	if (snprintf(tmp, sizeof(tmp), "%s.new", path) >= (int)sizeof(tmp)) {
		errno = ENAMETOOLONG;
		return fail("cannot write '%s'", path);
	}
	fd = openat(at, tmp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return fail("cannot create '%s'", tmp);
	if (fd_write_all(fd, p, n) < 0 || (sync && fdatasync(fd) < 0) ||
	    renameat(at, tmp, at, path) < 0) {
		fail("cannot write '%s'", path);
		unlinkat(at, tmp, 0);
		return -1;
	}
	return 0;
}

int fd_put(int at, const char *path, const char *text)
{
	autofd fd = openat(at, path, O_WRONLY | O_CLOEXEC);
	size_t n = strlen(text);

	if (fd < 0)
		return -1;
	return write(fd, text, n) == (ssize_t)n ? 0 : -1;
}

/* As getdents64(2) has it. */
struct entry {
	uint64_t ino;
	int64_t off;
	unsigned short len;
	unsigned char type;
	char name[];
};

/* Removes one entry; a directory that is not empty is opened. The fd, -1 done, -2 on error. */
static int remove_entry(int fd, const struct entry *e, dev_t dev)
{
	struct stat st;
	int sub;

	if (e->type != DT_DIR) {
		if (!unlinkat(fd, e->name, 0) || errno == ENOENT)
			return -1;
		if (errno != EISDIR)
			return -2;
	}
	if (!unlinkat(fd, e->name, AT_REMOVEDIR) || errno == ENOENT)
		return -1;
	if (errno != ENOTEMPTY && errno != EEXIST)
		return -2;
	sub = openat(fd, e->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (sub >= 0 && (fstat(sub, &st) < 0 || st.st_dev != dev)) {
		close(sub);
		errno = EXDEV;
		return -2;
	}
	if (sub < 0)
		return errno == ENOENT ? -1 : -2;
	return sub;
}

/*
 * One sweep over the directory FD: removes what it can. Returns the fd of a first sub-directory
 * that was not empty, -1 when there is none left, -2 on error. Not by readdir: thousands of boxes
 * end at a time, and its buffer is mapped and unmapped for each directory.
 */
static int sweep(int fd, dev_t dev)
{
	_Alignas(struct entry) char room[4096];
	long n;

	if (lseek(fd, 0, SEEK_SET) < 0)
		return -2;
	while ((n = syscall(SYS_getdents64, fd, room, sizeof(room))) > 0)
		for (long at = 0; at < n;) {
			const struct entry *e = (const struct entry *)(const void *)(room + at);
			int sub;

			at += e->len;
			if (!strcmp(e->name, ".") || !strcmp(e->name, ".."))
				continue;
			sub = remove_entry(fd, e, dev);
			if (sub != -1)
				return sub;
		}
	/* ENOENT: the directory itself is gone, another one was quicker. */
	return n < 0 && errno != ENOENT ? -2 : -1;
}

/*
 * Down by fd, up by "..": both stay inside as long as nobody else renames directories in the tree,
 * and nobody does, for the box is dead when its tree goes. The start is checked on the way up all
 * the same, by device and inode. Others may be removing the same tree: what is gone is gone.
 */
static int rmtree_once(int at, const char *name)
{
	struct stat top, st;
	autofd fd = -1;

	if (!unlinkat(at, name, 0) || errno == ENOENT)
		return 0;
	if (!unlinkat(at, name, AT_REMOVEDIR))
		return 0;
	fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &top) < 0)
		return errno == ENOENT ? 0 : fail("cannot remove '%s'", name);
	for (;;) {
		int sub = sweep(fd, top.st_dev);

		if (sub == -2)
			return fail("cannot remove what is below '%s'", name);
		if (sub == -1) {
			if (fstat(fd, &st) < 0)
				return fail("cannot remove '%s'", name);
			if (st.st_ino == top.st_ino)
				break;
			sub = openat(fd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
			if (sub < 0)
				return fail("cannot remove what is below '%s'", name);
		}
		close(fd);
		fd = sub;
	}
	if (unlinkat(at, name, AT_REMOVEDIR) < 0 && errno != ENOENT)
		return fail("cannot remove '%s'", name);
	return 0;
}

int fd_rmtree(int at, const char *name)
{
	int r;

	/* One that came to lock what is going may have put its lock file there after the sweep. */
	for (int tries = 0; (r = rmtree_once(at, name)) < 0 && errno == ENOTEMPTY && tries < 8;)
		tries++;
	return r;
}
