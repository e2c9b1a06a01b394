#include "kern/mnt.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <linux/stat.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/die.h"
#include "base/fd.h"

_Static_assert((int)MNT_RO == MOUNT_ATTR_RDONLY && (int)MNT_NOSUID == MOUNT_ATTR_NOSUID &&
		       (int)MNT_NODEV == MOUNT_ATTR_NODEV && (int)MNT_NOEXEC == MOUNT_ATTR_NOEXEC &&
		       (int)MNT_NOATIME == MOUNT_ATTR_NOATIME,
	       "attributes are the kernel's");

/* The kernel explains a refused option in the context's own log (fsopen(2)): worth showing. */
static int fail_fs(int fs, const char *fstype)
{
	int err = errno;
	char log[256];
	ssize_t n = read(fs, log, sizeof(log) - 1);

	errno = err;
	if (n <= 0)
		return fail("cannot mount a %s", fstype);
	log[n] = 0;
	log[strcspn(log, "\n")] = 0;
	return fail("cannot mount a %s (%s)", fstype, log);
}

int mnt_new(const char *fstype, const struct mnt_opt *opts, unsigned attrs)
{
	autofd fs = (int)syscall(SYS_fsopen, fstype, FSOPEN_CLOEXEC);
	long fd;

	if (fs < 0)
		return fail("cannot mount a %s", fstype);
	for (; opts && opts->key; opts++)
		if (syscall(SYS_fsconfig, fs, opts->val ? FSCONFIG_SET_STRING : FSCONFIG_SET_FLAG,
			    opts->key, opts->val, 0) < 0)
			return fail_fs(fs, fstype);
	if (syscall(SYS_fsconfig, fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		return fail_fs(fs, fstype);
	fd = syscall(SYS_fsmount, fs, FSMOUNT_CLOEXEC, attrs);
	return fd < 0 ? fail_fs(fs, fstype) : (int)fd;
}

int mnt_clone(int at, const char *path)
{
	long fd = syscall(SYS_open_tree, at, path,
			  OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_SYMLINK_NOFOLLOW |
				  (*path ? 0 : AT_EMPTY_PATH));

	return fd < 0 ? fail("cannot clone the mount '%s'", path) : (int)fd;
}

int mnt_clone_file(const char *path)
{
	long fd = syscall(SYS_open_tree, AT_FDCWD, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);

	return fd < 0 ? fail("cannot clone the file '%s'", path) : (int)fd;
}

int mnt_clone_mapped(int at, const char *path, int userns)
{
	struct mount_attr attr = {.attr_set = MOUNT_ATTR_IDMAP, .userns_fd = (uint64_t)userns};
	autofd fd = mnt_clone(at, path);

	if (fd < 0)
		return -1;
	if (syscall(SYS_mount_setattr, fd, "", AT_EMPTY_PATH, &attr, sizeof(attr)) < 0)
		return fail("cannot map the ids of the mount '%s'", path);
	return fd_take(&fd);
}

int mnt_set(int mnt, unsigned attrs)
{
	struct mount_attr attr = {.attr_set = attrs};

	if (syscall(SYS_mount_setattr, mnt, "", AT_EMPTY_PATH, &attr, sizeof(attr)) < 0)
		return fail("cannot restrict a mount");
	return 0;
}

int mnt_move(int mnt, int at, const char *path)
{
	if (syscall(SYS_move_mount, mnt, "", at, path,
		    MOVE_MOUNT_F_EMPTY_PATH | (*path ? 0 : MOVE_MOUNT_T_EMPTY_PATH)) < 0)
		return fail("cannot mount on '%s'", path);
	return 0;
}

enum { DETACH = 2 /* MNT_DETACH */, NOFOLLOW = 8 /* UMOUNT_NOFOLLOW */ };

int mnt_replace(int mnt, const char *path)
{
	/* MOVE_MOUNT_BENEATH, since Linux 6.5; before it there is a moment without a mount. */
	long r = syscall(SYS_move_mount, mnt, "", AT_FDCWD, path, MOVE_MOUNT_F_EMPTY_PATH | 0x200);

	if (syscall(SYS_umount2, path, DETACH | NOFOLLOW) < 0)
		return fail("cannot unmount '%s'", path);
	return r < 0 ? mnt_move(mnt, AT_FDCWD, path) : 0;
}

int mnt_identify(int fd, struct mnt_file *f)
{
	enum { UNIQUE = 0x4000 /* STATX_MNT_ID_UNIQUE */ };
	struct statx sx;

	if (syscall(SYS_statx, fd, "", AT_EMPTY_PATH | AT_STATX_FORCE_SYNC,
		    STATX_INO | STATX_SIZE | STATX_MNT_ID | UNIQUE, &sx) < 0)
		return -1;
	*f = (struct mnt_file){
		.dev = (uint64_t)sx.stx_dev_major << 32 | sx.stx_dev_minor,
		.ino = sx.stx_ino,
		.mount = sx.stx_mnt_id,
		.size = sx.stx_size,
	};
	return 0;
}

int mnt_private(void)
{
	struct mount_attr attr = {.propagation = MS_PRIVATE};

	if (syscall(SYS_mount_setattr, AT_FDCWD, "/", AT_RECURSIVE, &attr, sizeof(attr)) < 0)
		return fail("cannot make mounts private");
	return 0;
}

int mnt_enter_root(int root)
{
	if (fchdir(root) < 0 || chroot(".") < 0)
		return fail("cannot change the root directory");
	return 0;
}

int mnt_pivot(int root)
{
	/* pivot_root(".", ".") stacks the old root on the new one; "." then is the old
	 * (pivot_root(2)). */
	if (fchdir(root) < 0 || syscall(SYS_pivot_root, ".", ".") < 0 ||
	    syscall(SYS_umount2, ".", 2 /* MNT_DETACH */) < 0 || chdir("/") < 0)
		return fail("cannot change the root directory");
	return 0;
}

int mnt_is_root(int at, const char *path)
{
	struct statx sx;

	if (syscall(SYS_statx, at, path,
		    AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | (*path ? 0 : AT_EMPTY_PATH), 0,
		    &sx) < 0)
		return -1;
	return (sx.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
}

int mnt_unmount(const char *path)
{
	return (int)syscall(SYS_umount2, path, 8 /* UMOUNT_NOFOLLOW */);
}
