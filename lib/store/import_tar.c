/* Entries of a tar, as libarchive understands them, into the tree. Nothing is unpacked anywhere. */
#include <archive.h>
#include <archive_entry.h>
#include <endian.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/die.h"
#include "store/import.h"

static int owner(struct archive_entry *e, struct tree_inode *ino)
{
	int64_t uid = archive_entry_uid(e), gid = archive_entry_gid(e);

	if (uid < 0 || gid < 0 || uid >= UINT32_MAX || gid >= UINT32_MAX)
		return failx("owner %lld:%lld is no user and group", (long long)uid,
			     (long long)gid);
	ino->uid = (uint32_t)uid;
	ino->gid = (uint32_t)gid;
	ino->mtime = archive_entry_mtime(e);
	ino->nsec = (uint32_t)archive_entry_mtime_nsec(e);
	if (ino->nsec >= 1000000000)
		ino->nsec = 0;
	return 0;
}

/* The kernel's form (struct posix_acl_xattr_header and entries), which needs ascending tags. */
struct acl_entry {
	uint16_t tag, perm;
	uint32_t id;
};

static int acl_tag(int tag)
{
	switch (tag) {
	case ARCHIVE_ENTRY_ACL_USER_OBJ:
		return 0x01;
	case ARCHIVE_ENTRY_ACL_USER:
		return 0x02;
	case ARCHIVE_ENTRY_ACL_GROUP_OBJ:
		return 0x04;
	case ARCHIVE_ENTRY_ACL_GROUP:
		return 0x08;
	case ARCHIVE_ENTRY_ACL_MASK:
		return 0x10;
	case ARCHIVE_ENTRY_ACL_OTHER:
		return 0x20;
	}
	return 0;
}

static int acl(struct import *im, struct archive_entry *e, struct tree_inode *ino, int type,
	       const char *name)
{
	static const int order[] = {0x01, 0x02, 0x04, 0x08, 0x10, 0x20};
	const uint32_t version = htole32(2);
	autobuf b = BUF_INIT;

	if (!(archive_entry_acl_types(e) & type))
		return 0;
	buf_add(&b, &version, 4);
	for (size_t i = 0; i < sizeof(order) / sizeof(*order); i++) {
		int t, permset, tag, id;
		const char *who;

		archive_entry_acl_reset(e, type);
		while (archive_entry_acl_next(e, type, &t, &permset, &tag, &id, &who) ==
		       ARCHIVE_OK) {
			struct acl_entry a = {.tag = htole16((uint16_t)acl_tag(tag)),
					      .perm = htole16((uint16_t)(permset & 7)),
					      .id = htole32((uint32_t)id)};

			if (acl_tag(tag) != order[i])
				continue;
			/* libarchive puts the owning group's rights into the mode; it is the mask's. */
			if (order[i] == 0x10 && type == ARCHIVE_ENTRY_ACL_TYPE_ACCESS)
				ino->mode = (ino->mode & ~070u) | (uint32_t)(permset & 7) << 3;
			if (order[i] != 0x02 && order[i] != 0x08)
				a.id = UINT32_MAX;
			else if (id < 0)
				return failx("an access list names '%s' without a number",
					     who ? who : "");
			buf_add(&b, &a, sizeof(a));
		}
	}
	return import_xattr(im, ino, name, b.p, b.len);
}

static int xattrs(struct import *im, struct archive_entry *e, struct tree_inode *ino)
{
	const char *name;
	const void *val;
	size_t len;

	archive_entry_xattr_reset(e);
	while (archive_entry_xattr_next(e, &name, &val, &len) == ARCHIVE_OK)
		if (name && import_xattr(im, ino, name, val, len) < 0)
			return -1;
	if (acl(im, e, ino, ARCHIVE_ENTRY_ACL_TYPE_ACCESS, "system.posix_acl_access") < 0)
		return -1;
	return acl(im, e, ino, ARCHIVE_ENTRY_ACL_TYPE_DEFAULT, "system.posix_acl_default");
}

static int content(struct import *im, struct archive *a, struct archive_entry *e,
		   struct tree_inode *ino)
{
	int64_t size = archive_entry_size(e), off;
	const void *p;
	size_t n;
	int r;

	if (size < 0 || blob_begin(im->data, ino, (uint64_t)size) < 0)
		return -1;
	while ((r = archive_read_data_block(a, &p, &n, &off)) == ARCHIVE_OK || r == ARCHIVE_WARN)
		if (n && blob_write(im->data, (uint64_t)off, p, n) < 0)
			return -1;
	if (r != ARCHIVE_EOF)
		return failx("%s", archive_error_string(a) ? archive_error_string(a)
							   : "the archive is damaged");
	return blob_end(im->data);
}

/* As new_encode_dev() of the kernel. */
static int device(struct archive_entry *e, struct tree_inode *ino)
{
	uint64_t ma = (uint64_t)archive_entry_rdevmajor(e),
		 mi = (uint64_t)archive_entry_rdevminor(e);

	if (ma > 0xfff || mi > 0xfffff)
		return failx("device %llu:%llu is out of range", (unsigned long long)ma,
			     (unsigned long long)mi);
	ino->rdev = (uint32_t)((mi & 0xff) | ma << 8 | (mi & ~0xffull) << 12);
	return 0;
}

static int fill(struct import *im, struct archive *a, struct archive_entry *e,
		struct tree_inode *ino)
{
	if (owner(e, ino) < 0 || xattrs(im, e, ino) < 0)
		return -1;
	if (S_ISREG(ino->mode))
		return content(im, a, e, ino);
	if (S_ISCHR(ino->mode) || S_ISBLK(ino->mode))
		return device(e, ino);
	if (S_ISLNK(ino->mode))
		return tree_set_target(ino,
				       archive_entry_symlink(e) ? archive_entry_symlink(e) : "");
	return 0;
}

/*
 * In a layer, what a link's header says becomes true of the file, as Docker, containerd and Podman have
 * it; in other archives it says nothing, as for tar.
 */
static int hard_link(struct import *im, struct archive_entry *e, const char *path, int layer)
{
	struct tree_inode *ino;

	if (tree_link(im->tree, path, archive_entry_hardlink(e)) < 0)
		return -1;
	ino = layer ? tree_lookup(im->tree, path) : NULL;
	if (!ino || S_ISLNK(ino->mode))
		return 0;
	ino->mode = (ino->mode & S_IFMT) | (archive_entry_mode(e) & 07777);
	return owner(e, ino) < 0 ? -1 : xattrs(im, e, ino);
}

static int one(struct import *im, struct archive *a, struct archive_entry *e, const char *path,
	       int layer)
{
	mode_t mode = archive_entry_mode(e) & (S_IFMT | 07777);
	struct tree_inode *ino;
	int r = layer ? tree_whiteout(im->tree, path) : 0;

	if (r)
		return r < 0 ? -1 : 0;
	if (archive_entry_hardlink(e))
		return hard_link(im, e, path, layer);
	if (S_ISSOCK(mode)) {
		im->sockets++;
		return 0;
	}
	if (!S_ISREG(mode) && !S_ISDIR(mode) && !S_ISLNK(mode) && !S_ISCHR(mode) &&
	    !S_ISBLK(mode) && !S_ISFIFO(mode))
		return failx("a file of unknown type %o", mode & S_IFMT);
	ino = tree_add(im->tree, path, mode);
	return ino ? fill(im, a, e, ino) : -1;
}

int import_tar_entry(struct import *im, struct archive *a, struct archive_entry *e, int layer)
{
	const char *path = archive_entry_pathname(e);

	if (!path || !*path)
		return failx("an entry without a name");
	return one(im, a, e, path, layer) < 0 ? fail_more("cannot take '%.200s'", path) : 0;
}

int import_tar(struct import *im, struct archive *a, int layer)
{
	struct archive_entry *e;
	int r;

	while ((r = archive_read_next_header(a, &e)) == ARCHIVE_OK || r == ARCHIVE_WARN)
		if (import_tar_entry(im, a, e, layer) < 0)
			return -1;
	if (r == ARCHIVE_EOF)
		return 0;
	return failx("cannot read the archive: %s",
		     archive_error_string(a) ? archive_error_string(a) : "it is damaged");
}
