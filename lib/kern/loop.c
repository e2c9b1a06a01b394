#include "kern/loop.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/die.h"
#include "base/fd.h"
#include "kern/mnt.h"

enum { TRIES = 64 };

/* The number of the device is not that of its name once loops have partitions (max_part). */
static int device_number(int n, dev_t *dev)
{
	unsigned major, minor;
	autobuf b = BUF_INIT;
	char path[64];

	snprintf(path, sizeof(path), "/sys/block/loop%d/dev", n);
	if (fd_read_file(AT_FDCWD, path, 64, &b) < 0)
		return -1;
	if (sscanf(buf_cstr(&b), "%u:%u", &major, &minor) != 2)
		return failx("cannot read '%s'", path);
	*dev = makedev(major, minor);
	return 0;
}

/* Where /dev is no devtmpfs new devices do not appear: a node in a file system of its own, unseen. */
static int open_private(int n, struct loop *l)
{
	static const struct mnt_opt opts[] = {{"size", "4k"}, {"mode", "0700"}, {NULL, NULL}};
	autofd mnt = -1;
	dev_t dev = 0;
	int fd;

	if (device_number(n, &dev) < 0)
		return -1;
	mnt = mnt_new("tmpfs", opts, MNT_NOSUID | MNT_NOEXEC);
	if (mnt < 0)
		return -1;
	if (mknodat(mnt, "loop", S_IFBLK | 0600, dev) < 0)
		return fail("cannot make the device node of 'loop%d'", n);
	fd = openat(mnt, "loop", O_RDONLY | O_CLOEXEC);
	snprintf(l->path, sizeof(l->path), "/proc/self/fd/%d", fd);
	return fd;
}

static int open_device(int n, struct loop *l)
{
	int fd;

	snprintf(l->path, sizeof(l->path), "/dev/loop%d", n);
	fd = openat(AT_FDCWD, l->path, O_RDONLY | O_CLOEXEC);
	return fd < 0 && errno == ENOENT ? open_private(n, l) : fd;
}

/* One attempt; 1: somebody else has taken, or removed, the device that was free. */
static int try_attach(int control, int file, struct loop *l)
{
	/* Direct: the pages are cached once, not for the file and for the device; the kernel falls
	 * back by itself where that cannot be (loop_configure()). */
	struct loop_config config = {
		.fd = (unsigned)file,
		.block_size = LOOP_BLOCK,
		.info.lo_flags = LO_FLAGS_READ_ONLY | LO_FLAGS_AUTOCLEAR | LO_FLAGS_DIRECT_IO,
	};
	int n = ioctl(control, LOOP_CTL_GET_FREE);

	if (n < 0)
		return fail("cannot get a free loop device");
	l->fd = open_device(n, l);
	if (l->fd >= 0 && !ioctl(l->fd, LOOP_CONFIGURE, &config))
		return 0;
	if (errno == EBUSY || errno == ENXIO || errno == ENODEV) {
		loop_close(l);
		return 1;
	}
	fail("cannot use the loop device '%s'", l->path);
	loop_close(l);
	return -1;
}

int loop_attach(const char *file, struct loop *l)
{
	autofd fd = openat(AT_FDCWD, file, O_RDONLY | O_CLOEXEC);
	autofd control = -1;
	struct stat st;
	int r = 1;

	*l = (struct loop){.fd = -1};
	if (fd < 0 || fstat(fd, &st) < 0)
		return fail("cannot open '%s'", file);
	if (!S_ISREG(st.st_mode))
		return failx("'%s' is not a file", file);
	control = openat(AT_FDCWD, "/dev/loop-control", O_RDWR | O_CLOEXEC);
	if (control < 0)
		return fail("cannot open '/dev/loop-control'");
	for (int i = 0; i < TRIES && r > 0; i++)
		r = try_attach(control, fd, l);
	return r > 0 ? failx("cannot get a loop device: others take them") : r;
}

void loop_close(struct loop *l)
{
	fd_close(&l->fd);
}
