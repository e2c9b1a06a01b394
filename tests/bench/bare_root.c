/* The mounts, the network and the filter of bare.c. */
#include "bare.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/mount.h>
#include <linux/seccomp.h>
#include <net/if.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { REFUSALS = 60, DETACH = 2 /* MNT_DETACH */ };

#ifndef PIDFD_GET_USER_NAMESPACE /* linux/pidfd.h, since 6.11 */
#define PIDFD_GET_USER_NAMESPACE _IO(0xFF, 9)
#endif

static int set(int fs, const char *key, const char *value)
{
	unsigned cmd = value ? FSCONFIG_SET_STRING : FSCONFIG_SET_FLAG;

	return (int)syscall(SYS_fsconfig, fs, cmd, key, value, 0);
}

static int set_fd(int fs, const char *key, int fd)
{
	return (int)syscall(SYS_fsconfig, fs, FSCONFIG_SET_FD, key, NULL, fd);
}

/* Ends the configuration: closes FS, gives a detached mount. */
static int mount_of(int fs, unsigned attr)
{
	int fd = -1;

	if (!syscall(SYS_fsconfig, fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0))
		fd = (int)syscall(SYS_fsmount, fs, FSMOUNT_CLOEXEC, attr);
	close(fs);
	return fd;
}

static int fs_open(const char *type)
{
	return (int)syscall(SYS_fsopen, type, FSOPEN_CLOEXEC);
}

static int attach(int fd, const char *path)
{
	int ret = (int)syscall(SYS_move_mount, fd, "", AT_FDCWD, path, MOVE_MOUNT_F_EMPTY_PATH);

	close(fd);
	return ret;
}

int bare_layer(const char *meta, const char *data)
{
	int fs = fs_open("erofs");

	if (fs < 0 || set(fs, "source", meta) || set(fs, "device", data) || set(fs, "ro", NULL))
		return -1;
	return mount_of(fs, MOUNT_ATTR_RDONLY);
}

int bare_userns(int pidfd, pid_t pid)
{
	char path[64];
	int fd = ioctl(pidfd, PIDFD_GET_USER_NAMESPACE, 0);

	if (fd >= 0)
		return fd;
	snprintf(path, sizeof(path), "/proc/%d/ns/user", pid);
	return open(path, O_RDONLY | O_CLOEXEC);
}

int bare_overlay(int lower, int upper, int work)
{
	int fs = fs_open("overlay");

	if (fs < 0 || set_fd(fs, "lowerdir+", lower) || set_fd(fs, "upperdir", upper) ||
	    set_fd(fs, "workdir", work) || set(fs, "volatile", NULL))
		return -1;
	return mount_of(fs, MOUNT_ATTR_NODEV);
}

static int mount_new(const char *type, const char *path, const char *key, const char *value)
{
	int fs = fs_open(type), fd;

	if (fs < 0 || (key && set(fs, key, value)))
		return -1;
	fd = mount_of(fs, MOUNT_ATTR_NOSUID);
	return fd < 0 ? -1 : attach(fd, path);
}

static int bind_nodes(void)
{
	static const char *const names[] = {"null", "zero", "full", "random", "urandom", "tty"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		char from[32], to[32];
		int fd;

		snprintf(from, sizeof(from), "/dev/%s", names[i]);
		snprintf(to, sizeof(to), "dev/%s", names[i]);
		fd = openat(AT_FDCWD, to, O_CREAT | O_WRONLY | O_CLOEXEC, 0666);
		if (fd < 0 || close(fd))
			return -1;
		fd = (int)syscall(SYS_open_tree, AT_FDCWD, from,
				  OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
		if (fd < 0 || attach(fd, to))
			return -1;
	}
	return 0;
}

/* The old root is stacked on the new one by pivot_root(".", "."), see pivot_root(2). */
int bare_root(int overlay, unsigned nodes)
{
	struct mount_attr slave = {.propagation = 1 << 18 /* MS_PRIVATE */};

	if (syscall(SYS_mount_setattr, AT_FDCWD, "/", AT_RECURSIVE, &slave, sizeof(slave)))
		return -1;
	if (syscall(SYS_move_mount, overlay, "", AT_FDCWD, "/tmp", MOVE_MOUNT_F_EMPTY_PATH) ||
	    chdir("/tmp"))
		return -1;
	if (mount_new("proc", "proc", NULL, NULL) || mount_new("tmpfs", "tmp", "mode", "1777") ||
	    mount_new("tmpfs", "dev", "mode", "755"))
		return -1;
	if ((nodes && bind_nodes()) || mkdir("dev/pts", 0755) ||
	    mount_new("devpts", "dev/pts", "ptmxmode", "666"))
		return -1;
	if (syscall(SYS_pivot_root, ".", ".") || syscall(SYS_umount2, ".", DETACH))
		return -1;
	return chdir("/");
}

int bare_lo_up(void)
{
	struct ifreq req = {.ifr_name = "lo", .ifr_flags = IFF_UP};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int ret = fd < 0 ? -1 : ioctl(fd, SIOCSIFFLAGS, &req);

	close(fd);
	return ret;
}

/* Refuses REFUSALS numbers that no system call has: what counts here is loading and translating. */
int bare_filter(void)
{
	struct sock_filter code[REFUSALS + 3];
	struct sock_fprog prog = {.len = REFUSALS + 3, .filter = code};
	unsigned n = 0;

	code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
						 offsetof(struct seccomp_data, nr));
	for (unsigned i = 0; i < REFUSALS; i++)
		code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 10000 + i,
							 (unsigned char)(REFUSALS - i), 0);
	code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
	return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog);
}
