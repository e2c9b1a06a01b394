#include "kern/overlay.h"

#include <errno.h>
#include <linux/mount.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/die.h"
#include "base/fd.h"
#include "kern/mnt.h"

/* By fd since Linux 6.13; detached mounts as lowers since 6.15. */
static int set_dir(int fs, const char *key, int dir)
{
	return (int)syscall(SYS_fsconfig, fs, FSCONFIG_SET_FD, key, NULL, dir);
}

static int set_string(int fs, const char *key, const char *val)
{
	return (int)syscall(SYS_fsconfig, fs, FSCONFIG_SET_STRING, key, val, 0);
}

static int fail_overlay(int fs)
{
	int err = errno;
	char log[256];
	ssize_t n = read(fs, log, sizeof(log) - 1);

	log[n > 0 ? n : 0] = 0;
	log[strcspn(log, "\n")] = 0;
	errno = err;
	return fail("cannot mount the overlay%s%s%s", n > 0 ? " (" : "", log, n > 0 ? ")" : "");
}

static int add_lowers(int fs, const int *lower, size_t n)
{
	/* overlayfs wants the topmost lower first (kernel doc, overlayfs.rst). */
	for (size_t i = n; i--;)
		if (set_dir(fs, "lowerdir+", lower[i]) < 0)
			return fail_overlay(fs);
	return 0;
}

static int finish_mount(int fs)
{
	long fd;

	if (set_string(fs, "source", "sbx") < 0 ||
	    syscall(SYS_fsconfig, fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		return fail_overlay(fs);
	fd = syscall(SYS_fsmount, fs, FSMOUNT_CLOEXEC, MNT_NODEV);
	return fd < 0 ? fail_overlay(fs) : (int)fd;
}

int overlay_mount(const int *lower, size_t n, int upper, int work)
{
	autofd fs = (int)syscall(SYS_fsopen, "overlay", FSOPEN_CLOEXEC);

	if (fs < 0)
		return fail("cannot mount an overlay");
	if (add_lowers(fs, lower, n) < 0)
		return -1;
	/* redirect_dir: without it a rename of an image's directory fails with EXDEV. */
	if (set_dir(fs, "upperdir", upper) < 0 || set_dir(fs, "workdir", work) < 0 ||
	    set_string(fs, "redirect_dir", "on") < 0 ||
	    syscall(SYS_fsconfig, fs, FSCONFIG_SET_FLAG, "volatile", NULL, 0) < 0)
		return fail_overlay(fs);
	return finish_mount(fs);
}

int overlay_view(const int *lower, size_t n)
{
	autofd fs = (int)syscall(SYS_fsopen, "overlay", FSOPEN_CLOEXEC);

	if (fs < 0)
		return fail("cannot mount an overlay");
	if (add_lowers(fs, lower, n) < 0)
		return -1;
	return set_string(fs, "redirect_dir", "follow") < 0 ? fail_overlay(fs) : finish_mount(fs);
}
