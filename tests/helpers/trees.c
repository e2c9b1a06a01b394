/*
 * trees make DIR META BLOB    the upper directory of an overlay as a layer
 * trees find META...          layers laid over each other, lowest first, as find -printf would list
 */
#include <dirent.h>
#include <endian.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/die.h"
#include "store/erofs_disk.h"
#include "store/erofs_read.h"
#include "store/erofs_write.h"
#include "store/blob.h"
#include "store/tree_ops.h"

static void xattrs(const char *path, struct tree_inode *ino)
{
	char names[4096], val[4096];
	ssize_t n = llistxattr(path, names, sizeof(names));

	for (char *p = names; n > 0 && p < names + n; p += strlen(p) + 1) {
		ssize_t len = lgetxattr(path, p, val, sizeof(val));

		if (len < 0 || tree_set_xattr(ino, p, val, (size_t)len) < 0)
			dief(EX_SBX, "cannot read '%s' of '%s'", p, path);
	}
}

static void content(const char *path, struct blob *d, struct tree_inode *ino, uint64_t size)
{
	static char piece[65536];
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	uint64_t at = 0;
	ssize_t n;

	if (blob_begin(d, ino, size) < 0)
		die();
	for (; (n = read(fd, piece, sizeof(piece))) > 0; at += (uint64_t)n)
		if (blob_write(d, at, piece, (size_t)n) < 0)
			die();
	if (n < 0 || blob_end(d) < 0)
		dief(EX_SBX, "cannot read '%s'", path);
	close(fd);
}

static void fill(const char *path, struct blob *d, struct tree_inode *ino, const struct stat *st)
{
	char target[4096] = {0};

	ino->uid = st->st_uid;
	ino->gid = st->st_gid;
	ino->mtime = st->st_mtim.tv_sec;
	ino->nsec = (uint32_t)st->st_mtim.tv_nsec;
	xattrs(path, ino);
	if (S_ISREG(st->st_mode))
		content(path, d, ino, (uint64_t)st->st_size);
	if (S_ISLNK(st->st_mode) &&
	    (readlink(path, target, sizeof(target) - 1) < 0 || tree_set_target(ino, target) < 0))
		die();
	if (S_ISCHR(st->st_mode))
		ino->rdev = (uint32_t)(major(st->st_rdev) << 8 | minor(st->st_rdev));
}

/* Names of one file are made as files of their own: overlay without an index parts them anyway. */
static void walk(const char *path, struct tree *t, struct blob *d, struct tree_inode *dir)
{
	DIR *dp = opendir(path);
	struct dirent *e;
	struct stat st;

	if (!dp)
		dief(EX_SBX, "cannot read '%s'", path);
	while ((e = readdir(dp))) {
		autofree char *sub = xasprintf("%s/%s", path, e->d_name);
		struct tree_inode *ino;

		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..") || lstat(sub, &st) < 0)
			continue;
		ino = tree_add_at(t, dir, e->d_name, st.st_mode);
		if (!ino)
			die();
		fill(sub, d, ino, &st);
		if (S_ISDIR(st.st_mode))
			walk(sub, t, d, ino);
	}
	closedir(dp);
}

static void make(const char *dir, const char *meta, const char *blob)
{
	int data = open(blob, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	int fd = open(meta, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	struct tree *t = tree_new();
	struct blob *d = blob_open(data, t);
	struct erofs_stats stats;
	char sha[SHA_HEX + 1];
	struct stat st;

	if (data < 0 || fd < 0 || lstat(dir, &st) < 0)
		dief(EX_SBX, "cannot make '%s'", meta);
	tree_root(t)->mode = st.st_mode;
	fill(dir, d, tree_root(t), &st);
	walk(dir, t, d, tree_root(t));
	if (blob_finish(d, sha) < 0 || erofs_write(fd, t, &stats) < 0)
		die();
	printf("%zu\n", stats.ndev);
}

static struct tree *load(const char *meta)
{
	int fd = open(meta, O_RDONLY | O_CLOEXEC);
	struct tree_blob blob = {0};
	struct erofs_super sb;
	struct erofs_device dev;
	struct tree *t;

	if (pread(fd, &sb, sizeof(sb), EROFS_SB_AT) < 0 ||
	    pread(fd, &dev, sizeof(dev), EROFS_DEV_AT) < 0)
		dief(EX_SBX, "cannot read '%s'", meta);
	memcpy(blob.sha, dev.tag, sizeof(dev.tag));
	blob.blocks = le32toh(dev.blocks);
	t = erofs_read(fd, &blob, le16toh(sb.extra_devices));
	if (!t)
		die();
	close(fd);
	return t;
}

static void list(const struct tree_inode *ino, const char *path)
{
	static const char types[16] = {
		[1] = 'p', [2] = 'c', [4] = 'd', [6] = 'b', [8] = 'f', [10] = 'l'};
	int dir = S_ISDIR(ino->mode);

	printf("%s %c %o %u %u %lld.%09u0 %lld %s\n", path, types[ino->mode >> 12],
	       ino->mode & 07777, ino->uid, ino->gid, (long long)ino->mtime, ino->nsec,
	       dir ? 0ll : (long long)ino->size, S_ISLNK(ino->mode) ? ino->target : "");
	for (const struct tree_dentry *d = dir ? ino->first : NULL; d; d = d->next) {
		autofree char *sub = xasprintf("%s/%s", path, d->name);

		list(d->ino, sub);
	}
}

int main(int argc, char **argv)
{
	struct tree *t;

	die_init(argv[0]);
	if (argc == 5 && !strcmp(argv[1], "make")) {
		make(argv[2], argv[3], argv[4]);
		return finish(stdout);
	}
	if (argc < 3 || strcmp(argv[1], "find") != 0)
		dief(EX_SBX, "usage: trees make DIR META BLOB | find META...");
	t = tree_new();
	for (int i = 2; i < argc; i++)
		if (tree_overlay(t, load(argv[i])) < 0)
			die();
	list(tree_root(t), ".");
	return finish(stdout);
}
