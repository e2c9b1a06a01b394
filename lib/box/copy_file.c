/* Files, links and their attributes, each one step below a directory that is open already. */
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/die.h"
#include "base/fd.h"
#include "box/copy_put.h"

enum { TMP_NAME = 32, STEP_BYTES = 4 << 20 };

void put_wanted(struct archive_entry *e, struct stat *sb)
{
	memset(sb, 0, sizeof(*sb));
	sb->st_mode = archive_entry_perm(e);
	sb->st_uid = (uid_t)archive_entry_uid(e);
	sb->st_gid = (gid_t)archive_entry_gid(e);
	sb->st_mtim.tv_sec = archive_entry_mtime(e);
	sb->st_mtim.tv_nsec = archive_entry_mtime_nsec(e);
	if (!archive_entry_mtime_is_set(e))
		sb->st_mtim.tv_nsec = UTIME_NOW;
}

static void owner_of(const struct put *p, const struct stat *want, uid_t *uid, gid_t *gid)
{
	*uid = p->owner == PUT_GIVEN ? p->uid : p->owner == PUT_STREAM && want ? want->st_uid : 0;
	*gid = p->owner == PUT_GIVEN ? p->gid : p->owner == PUT_STREAM && want ? want->st_gid : 0;
}

int put_own(const struct put *p, int fd, const struct stat *want)
{
	uid_t uid;
	gid_t gid;

	if (p->owner == PUT_CALLER)
		return 0;
	owner_of(p, want, &uid, &gid);
	return fchown(fd, uid, gid) < 0 ? fail("cannot give it to %u:%u", uid, gid) : 0;
}

int put_set(const struct put *p, int fd, const struct stat *want)
{
	struct timespec t[2] = {{.tv_nsec = UTIME_OMIT}, want->st_mtim};

	/* The mode after the owner: a change of owner clears set-id bits. Files of a box that come
	 * out must not run as the caller for others. */
	if (put_own(p, fd, want) < 0)
		return -1;
	if (fchmod(fd, want->st_mode & (p->owner == PUT_CALLER ? 0777 : 07777)) < 0)
		return fail("cannot set the mode");
	return futimens(fd, t) < 0 ? fail("cannot set the times") : 0;
}

void put_xattrs(int fd, struct archive_entry *e)
{
	const char *name;
	const void *value;
	size_t size;

	for (archive_entry_xattr_reset(e);
	     archive_entry_xattr_next(e, &name, &value, &size) == ARCHIVE_OK;)
		if (!strncmp(name, "user.", 5) && strlen(name) < 256 && size <= COPY_XATTR_MAX)
			/* Not every file system has room for them: then they stay behind. */
			(void)fsetxattr(fd, name, value, size, 0);
}

static int make_tmp_name(char out[TMP_NAME])
{
	uint64_t r;

	if (getrandom(&r, sizeof(r), 0) != sizeof(r))
		return fail("cannot get random bytes");
	snprintf(out, TMP_NAME, ".sbx-cp-%016llx", (unsigned long long)r);
	return 0;
}

/* Only a file or a link is ever replaced: not a directory, and not what a program listens at. */
static int check_old(const struct put *p, int at, const char *name)
{
	struct stat sb;

	if (fstatat(at, name, &sb, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : fail("cannot look at '%s'", side_quote(p->path.p));
	if (S_ISREG(sb.st_mode) || S_ISLNK(sb.st_mode))
		return 0;
	errno = 0;
	return failx("'%s' is there and is not a file", side_quote(p->path.p));
}

static int fill(struct put *p, int fd, struct archive *a, struct archive_entry *e)
{
	const void *block;
	size_t n;
	la_int64_t at;
	uint64_t since = 0;
	int r;

	while ((r = archive_read_data_block(a, &block, &n, &at)) == ARCHIVE_OK) {
		const char *from = block;

		p->bytes += n;
		if (p->bytes > p->s->c->max_size)
			return fail_as(EX_NO, "there is more to copy than --max-size allows");
		for (ssize_t put; n; n -= (size_t)put, from += put, at += put) {
			put = pwrite(fd, from, n, at);
			if (put < 0)
				return fail("cannot write '%s'", side_quote(p->path.p));
		}
		since += (uint64_t)(from - (const char *)block);
		if (since >= STEP_BYTES) {
			since = 0;
			p->s->entries--;
			if (side_step(p->s) < 0)
				return -1;
		}
	}
	if (r != ARCHIVE_EOF) {
		errno = EPIPE;
		return failx("the tar stream ends within '%s'", side_quote(p->path.p));
	}
	if (ftruncate(fd, archive_entry_size(e)) < 0)
		return fail("cannot write '%s'", side_quote(p->path.p));
	return 0;
}

static int complete(struct put *p, int fd, struct archive *a, struct archive_entry *e)
{
	struct stat want, made;

	if (fill(p, fd, a, e) < 0)
		return -1;
	put_xattrs(fd, e);
	put_wanted(e, &want);
	if (put_set(p, fd, &want) < 0)
		return fail_more("'%s'", side_quote(p->path.p));
	if (fstat(fd, &made) < 0)
		return fail("cannot look at '%s'", side_quote(p->path.p));
	inodes_add(&p->files, &made, NULL);
	return 0;
}

/*
 * A file of a new tree is made under its name. One that replaces another, or is the whole copy, has
 * another name until it is complete.
 */
int put_file(struct put *p, struct archive *a, struct archive_entry *e)
{
	char tmp[TMP_NAME] = "";
	const char *name;
	int at = put_parent(p, &name), how = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
	autofd fd = -1;

	if (at < 0)
		return -1;
	if (strchr(p->path.p, '/'))
		fd = openat(at, name, how, 0600);
	if (fd < 0) {
		if (check_old(p, at, name) < 0 || make_tmp_name(tmp) < 0)
			return -1;
		fd = openat(at, tmp, how, 0600);
	}
	if (fd < 0)
		return fail("cannot create '%s'", side_quote(p->path.p));
	if (complete(p, fd, a, e) < 0 || (*tmp && renameat(at, tmp, at, name) < 0)) {
		int err = errno;

		if (*tmp && fail_code() == EX_SBX && err != EPIPE && !side_fatal(err))
			fail("cannot write '%s'", side_quote(p->path.p));
		unlinkat(at, *tmp ? tmp : name, 0);
		errno = err;
		return -1;
	}
	return 0;
}

static int own_link(const struct put *p, int at, const char *name, struct archive_entry *e)
{
	struct timespec t[2] = {{.tv_nsec = UTIME_OMIT}};
	struct stat want;
	uid_t uid;
	gid_t gid;

	put_wanted(e, &want);
	t[1] = want.st_mtim;
	owner_of(p, &want, &uid, &gid);
	if (p->owner != PUT_CALLER && fchownat(at, name, uid, gid, AT_SYMLINK_NOFOLLOW) < 0)
		return fail("cannot give the link '%s' to %u:%u", side_quote(p->path.p), uid, gid);
	utimensat(at, name, t, AT_SYMLINK_NOFOLLOW);
	return 0;
}

int put_symlink(struct put *p, struct archive_entry *e)
{
	char tmp[TMP_NAME] = "";
	const char *name, *to = archive_entry_symlink(e);
	int at = put_parent(p, &name), r;

	if (at < 0)
		return -1;
	errno = 0;
	if (!to || !*to || strlen(to) > COPY_PATH_MAX)
		return failx("the link '%s' has no usable target", side_quote(p->path.p));
	r = symlinkat(to, at, name);
	if (r < 0 && errno == EEXIST) {
		if (check_old(p, at, name) < 0 || make_tmp_name(tmp) < 0)
			return -1;
		r = symlinkat(to, at, tmp);
	}
	if (r < 0)
		return fail("cannot make the link '%s'", side_quote(p->path.p));
	r = own_link(p, at, *tmp ? tmp : name, e);
	if (r == 0 && *tmp && renameat(at, tmp, at, name) < 0)
		r = fail("cannot make the link '%s'", side_quote(p->path.p));
	if (r < 0)
		unlinkat(at, *tmp ? tmp : name, 0);
	return r;
}

/* A second name only for a file that this copy has made, found by what it is, not by its name. */
static int open_first(struct put *p, const char *to)
{
	struct buf mine = p->path;
	const char *name;
	struct stat sb;
	autofd fd = -1;
	int at;

	p->path = (struct buf){0};
	at = put_map_name(p, to, &p->path) < 0 || !p->path.len ? -1 : put_parent(p, &name);
	fd = at < 0 ? -1 : side_peek(at, name, &sb);
	buf_free(&p->path);
	p->path = mine;
	if (fd >= 0 && S_ISREG(sb.st_mode) && inodes_find(&p->files, &sb))
		return fd_take(&fd);
	errno = 0;
	return failx("cannot link '%s' to '%s': that was not copied before", side_quote(p->path.p),
		     side_quote(to));
}

int put_hardlink(struct put *p, const char *to)
{
	autofd fd = open_first(p, to);
	char tmp[TMP_NAME], self[16];
	const char *name;
	int at = fd < 0 ? -1 : put_parent(p, &name);

	if (at < 0 || check_old(p, at, name) < 0 || make_tmp_name(tmp) < 0)
		return -1;
	/* By the fd we looked at, not by its name; linkat(2) has this way for want of a right. */
	snprintf(self, sizeof(self), "%d", fd);
	if (linkat(p->s->proc, self, at, tmp, AT_SYMLINK_FOLLOW) < 0)
		return fail("cannot link '%s'", side_quote(p->path.p));
	if (renameat(at, tmp, at, name) < 0) {
		fail("cannot link '%s'", side_quote(p->path.p));
		unlinkat(at, tmp, 0);
		return -1;
	}
	unlinkat(at, tmp, 0); /* rename(2) leaves it if both are the same file already */
	return 0;
}
