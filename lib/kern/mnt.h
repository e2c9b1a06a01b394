/* Mounts by file descriptor: fsopen(2), open_tree(2), mount_setattr(2), move_mount(2). */
#ifndef KERN_MNT_H
#define KERN_MNT_H
#include <stdint.h>

/* Attributes of a mount, as MOUNT_ATTR_* have them, without pulling in <linux/mount.h>. */
enum {
	MNT_RO = 0x1,
	MNT_NOSUID = 0x2,
	MNT_NODEV = 0x4,
	MNT_NOEXEC = 0x8,
	MNT_NOATIME = 0x10,
};

struct mnt_opt {
	const char *key; /* NULL ends the list */
	const char *val; /* NULL: a flag */
};

/* All return a detached mount's fd (the caller's), or -1 after fail(). */
int mnt_new(const char *fstype, const struct mnt_opt *opts, unsigned attrs);
int mnt_clone(int at, const char *path); /* of that one mount or directory, not what is below */
int mnt_clone_file(const char *path);	 /* follows links: for /proc/self/fd/N of a namespace */
/* Like mnt_clone, with ids shifted through the user namespace USERNS (mount_setattr(2), idmapping).
 */
int mnt_clone_mapped(int at, const char *path, int userns);

int mnt_set(int mnt, unsigned attrs); /* adds attributes */
/* Attaches a detached mount at a path, which is looked up without following a last symlink. */
int mnt_move(int mnt, int at, const char *path);

/*
 * MNT takes the place of the mount at PATH, which who uses it keeps: at no time is there none.
 * -1 after fail().
 */
int mnt_replace(int mnt, const char *path);

/* An open file as its server has it now, and the mount that it is seen through, which no other mount will
 * ever have (the plain id before Linux 6.8). -1 with errno. */
struct mnt_file {
	uint64_t dev, ino, mount, size;
};
int mnt_identify(int fd, struct mnt_file *f);

int mnt_private(void); /* nothing mounted from here on is seen elsewhere, nor the reverse */
/*
 * Makes a mount that lies on "/" the caller's root. For a namespace that holds nothing else: what it
 * covers stays. pivot_root(2) looks at every task of the node, this does not. setns(2) puts those who
 * come later on the topmost mount, too.
 */
int mnt_enter_root(int root);
int mnt_pivot(int root); /* makes the mount ROOT the root directory and drops the old tree */
int mnt_is_root(int at, const char *path); /* 1 if a mount begins there, 0 not, -1 with errno */
int mnt_unmount(const char *path);	   /* fails with EBUSY if used; -1 with errno, no message */
#endif
