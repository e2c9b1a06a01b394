#include "store/import_upper.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/die.h"

enum { NOBODY = 65534 };

struct reading {
	const struct upper *u;
	dev_t dev;
};

static uint32_t unshift(const struct upper *u, uint32_t id)
{
	return id - u->id_base < u->id_count ? id - u->id_base : NOBODY;
}

/* overlayfs makes whiteouts as itself: they are the node's root's, and nobody sees whose. */
static void owner(void *arg, struct tree_inode *ino)
{
	const struct reading *r = arg;

	if (S_ISCHR(ino->mode) && !ino->rdev && ino->uid == 0) {
		ino->gid = 0;
		return;
	}
	ino->uid = unshift(r->u, ino->uid);
	ino->gid = unshift(r->u, ino->gid);
}

/*
 * What we made to mount something on: such a directory is the node's root's, which nothing in the box
 * can be, and such a file is empty, which it stays because the mount hides it.
 */
static int is_ours(const struct reading *r, const char *path, const struct stat *st)
{
	static const char *const dirs[] = {"dev", "proc", "sys"};

	if (S_ISDIR(st->st_mode) && !st->st_uid && !st->st_gid)
		for (size_t i = 0; i < sizeof(dirs) / sizeof(*dirs); i++)
			if (!strcmp(path, dirs[i]))
				return 1;
	if (S_ISREG(st->st_mode) && !st->st_size && st->st_uid == r->u->id_base)
		for (const char *const *p = r->u->mounted_on; *p; p++)
			if (!strcmp(path, *p))
				return 1;
	return 0;
}

static int skip(void *arg, const char *path, const struct stat *st)
{
	const struct reading *r = arg;

	if (st->st_dev != r->dev || is_ours(r, path, st))
		return 1;
	return r->u->clean && clean_match(r->u->clean, path, S_ISDIR(st->st_mode));
}

static uint32_t get32(const unsigned char *p)
{
	return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static void put32(unsigned char *p, uint32_t v)
{
	for (int i = 0; i < 4; i++)
		p[i] = (unsigned char)(v >> (8 * i));
}

/*
 * struct vfs_ns_cap_data (linux/capability.h): a magic with the revision, two pairs of words, and
 * in revision 3 the id of the user namespace's root. The kernel adds that to what a box's root sets.
 */
int upper_capability(const struct upper *u, unsigned char *val, size_t len)
{
	enum { REV2 = 2, REV3 = 3, LEN2 = 20, LEN3 = 24 };
	uint32_t magic = len >= 4 ? get32(val) : 0, rev = magic >> 24;

	if (rev == REV2 && len == LEN2)
		return LEN2;
	if (rev != REV3 || len != LEN3 || get32(val + LEN2) != u->id_base)
		return -1;
	put32(val, (magic & 0xffffff) | REV2 << 24);
	return LEN2;
}

/* struct posix_acl_xattr_header and _entry (linux/posix_acl_xattr.h): tag, permissions, id. */
int upper_acl(const struct upper *u, unsigned char *val, size_t len)
{
	enum { HEAD = 4, ENTRY = 8, VERSION = 2, USER = 2, GROUP = 8 };

	if (len < HEAD || get32(val) != VERSION || (len - HEAD) % ENTRY)
		return -1;
	for (unsigned char *e = val + HEAD; e < val + len; e += ENTRY) {
		unsigned tag = e[0] | (unsigned)e[1] << 8;

		if (tag == USER || tag == GROUP)
			put32(e + 4, unshift(u, get32(e + 4)));
	}
	return (int)len;
}

/* Of overlayfs' own, those that say something about the layers below; the rest is about this mount. */
static int overlay_xattr(struct import *im, struct tree_inode *ino, const char *name,
			 const void *val, size_t len)
{
	const char *what = name + strlen("trusted.overlay.");

	if (!strcmp(what, "metacopy"))
		return failx("overlayfs has copied only its metadata into the box");
	if (!S_ISDIR(ino->mode) || (strcmp(what, "opaque") != 0 && strcmp(what, "redirect") != 0))
		return 0;
	(void)im;
	return tree_set_xattr(ino, name, val, len);
}

static int xattr(void *arg, struct import *im, struct tree_inode *ino, const char *name, void *val,
		 size_t len)
{
	const struct reading *r = arg;
	int n = (int)len;

	if (!strncmp(name, "trusted.overlay.", 16))
		return overlay_xattr(im, ino, name, val, len);
	if (!strcmp(name, "security.capability"))
		n = upper_capability(r->u, val, len);
	else if (!strncmp(name, "system.posix_acl_", 17))
		n = upper_acl(r->u, val, len);
	else if (!strncmp(name, "trusted.", 8))
		n = -1;
	if (n >= 0)
		return import_xattr(im, ino, name, val, (size_t)n);
	im->xattrs++;
	return 0;
}

int import_upper(struct import *im, int fd, const struct upper *u)
{
	struct reading r = {.u = u};
	struct import_filter f = {.skip = skip, .owner = owner, .xattr = xattr, .arg = &r};
	struct stat st;
	int failed;

	if (fstat(fd, &st) < 0)
		return fail("cannot look at what the box has changed");
	r.dev = st.st_dev;
	im->filter = &f;
	failed = import_dir(im, fd);
	im->filter = NULL;
	return failed;
}
