#include "box/copy_side.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/die.h"
#include "base/fd.h"

/* A box that renames directories all the time makes openat2 give up with EAGAIN (openat2(2)). */
enum { OPEN_TRIES = 64 };

static int open_proc(struct side *s)
{
	s->proc = open("/proc/self/fd", O_PATH | O_DIRECTORY | O_CLOEXEC);
	return s->proc < 0 ? fail("cannot open '/proc/self/fd'") : 0;
}

int side_host(struct side *s, const struct copy *c)
{
	*s = (struct side){.c = c, .root = AT_FDCWD, .watch = -1};
	return open_proc(s);
}

int side_box(struct side *s, const struct copy *c, int root, int pid1)
{
	*s = (struct side){
		.c = c,
		.root = root,
		.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS,
		.boxed = 1,
		.watch = pid1,
	};
	return open_proc(s);
}

int side_open(const struct side *s, const char *path, int flags)
{
	int fd, tries = OPEN_TRIES;

	do
		fd = fd_openat2(s->root, path, flags, 0, s->resolve);
	while (fd < 0 && errno == EAGAIN && --tries);
	return fd;
}

int side_reopen(const struct side *s, int fd, int flags)
{
	char name[16];

	snprintf(name, sizeof(name), "%d", fd);
	return openat(s->proc, name, flags | O_CLOEXEC);
}

int side_peek(int dir, const char *name, struct stat *sb)
{
	autofd fd = openat(dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0 || fstat(fd, sb) < 0)
		return -1;
	return fd_take(&fd);
}

int side_fence(const struct side *s, int fd, const char *name)
{
	/* Views of the kernel, not files; and seen from a process outside the box they show the
	 * node's network, host name and groups. */
	static const long refused[] = {
		PROC_SUPER_MAGIC,
		SYSFS_MAGIC,
		CGROUP_SUPER_MAGIC,
		CGROUP2_SUPER_MAGIC,
		DEBUGFS_MAGIC,
		TRACEFS_MAGIC,
		SECURITYFS_MAGIC,
		BPF_FS_MAGIC,
		PSTOREFS_MAGIC,
		EFIVARFS_MAGIC,
		BINFMTFS_MAGIC,
		DEVPTS_SUPER_MAGIC,
		NSFS_MAGIC,
		SELINUX_MAGIC,
		SMACK_MAGIC,
		AAFS_MAGIC,
		0x62656570 /* configfs */,
		0x19800202 /* mqueue */,
		0x6e667364 /* nfsd */,
	};
	struct statfs fs;

	if (!s->boxed)
		return 0;
	if (fstatfs(fd, &fs) < 0)
		return fail("cannot look at '%s'", side_quote(name));
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
		if (fs.f_type == refused[i])
			return failx("'%s' is on a file system of the kernel", side_quote(name));
	return 0;
}

int side_step(struct side *s)
{
	struct pollfd p = {.fd = s->watch, .events = POLLIN};

	if (s->watch >= 0 && poll(&p, 1, 0) > 0)
		return fail_as(EX_GONE, "box '%s' has ended under the copy", s->c->id);
	if (++s->entries > COPY_ENTRIES_MAX)
		return failx("more than %d files in one copy", COPY_ENTRIES_MAX);
	return 0;
}

void side_skip(struct side *s)
{
	if (!s->c->quiet)
		s->c->say();
	if (!s->code)
		s->code = EX_NO;
}

void side_tell(const struct side *s, const char *name)
{
	if (!s->c->verbose)
		return;
	failx("%s", side_quote(name));
	s->c->say();
}

int side_fatal(int err)
{
	return err == ENOSPC || err == EDQUOT || err == EROFS || err == EIO || err == ENFILE ||
	       err == EMFILE || err == ENOMEM || err == EPIPE;
}

const char *side_quote(const char *name)
{
	static char text[4][400];
	static unsigned turn;
	char *out = text[turn++ % 4];
	size_t n = 0;

	for (; *name && n < sizeof(text[0]) - 8; name++) {
		unsigned char c = (unsigned char)*name;

		if (c < ' ' || c == 0x7f || (c >= 0x80 && c < 0xa0))
			n += (size_t)snprintf(out + n, 5, "\\%03o", c);
		else
			out[n++] = (char)c;
	}
	snprintf(out + n, 4, "%s", *name ? "..." : "");
	return out;
}

int copy_name(const char *src, char out[256])
{
	size_t end = strlen(src), start;

	while (end && src[end - 1] == '/')
		end--;
	for (start = end; start && src[start - 1] != '/'; start--)
		;
	snprintf(out, 256, "%.*s", (int)(end - start), src + start);
	return *out && strcmp(out, ".") != 0 && strcmp(out, "..") != 0;
}

static struct inode *inodes_slot(const struct inodes *s, uint64_t dev, uint64_t ino)
{
	size_t i = (size_t)((ino ^ dev * 0x9e3779b97f4a7c15ull) * 0xff51afd7ed558ccdull >> 20);

	for (i &= s->cap - 1; s->v[i].ino || s->v[i].dev; i = (i + 1) & (s->cap - 1))
		if (s->v[i].ino == ino && s->v[i].dev == dev)
			break;
	return &s->v[i];
}

struct inode *inodes_find(struct inodes *s, const struct stat *sb)
{
	struct inode *in = s->cap ? inodes_slot(s, sb->st_dev, sb->st_ino) : NULL;

	return in && (in->ino || in->dev) ? in : NULL;
}

void inodes_add(struct inodes *s, const struct stat *sb, const char *path)
{
	struct inode *in;

	if (s->n * 2 >= s->cap) {
		struct inodes bigger = {.cap = s->cap ? s->cap * 2 : 64, .n = s->n};

		bigger.v = xcalloc(bigger.cap, sizeof(*bigger.v));
		for (size_t i = 0; i < s->cap; i++)
			if (s->v[i].ino || s->v[i].dev)
				*inodes_slot(&bigger, s->v[i].dev, s->v[i].ino) = s->v[i];
		free(s->v);
		*s = bigger;
	}
	in = inodes_slot(s, sb->st_dev, sb->st_ino);
	if (!in->ino && !in->dev)
		s->n++;
	free(in->path);
	*in = (struct inode){sb->st_dev, sb->st_ino, path ? xstrdup(path) : NULL};
}

void inodes_free(struct inodes *s)
{
	for (size_t i = 0; i < s->cap; i++)
		free(s->v[i].path);
	free(s->v);
	*s = (struct inodes){0};
}
