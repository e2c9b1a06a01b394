#include "kern/erofs.h"

#include <errno.h>

#include "base/buf.h"
#include "base/die.h"
#include "kern/loop.h"
#include "kern/mnt.h"

int erofs_mount_files(const char *meta, const char *const *dev, size_t ndev)
{
	autofree struct mnt_opt *opts = xcalloc(ndev + 3, sizeof(*opts));
	size_t n = 0;
	int fd;

	opts[n++] = (struct mnt_opt){"source", meta};
	for (size_t i = 0; i < ndev; i++)
		opts[n++] = (struct mnt_opt){"device", dev[i]};
	opts[n++] = (struct mnt_opt){"ro", NULL};
	/* Set-id bits stay: whose they are is decided by the id map of the box. */
	fd = mnt_new("erofs", opts, MNT_RO | MNT_NODEV);
	return fd < 0 ? fail_more("cannot mount layer '%s'", meta) : fd;
}

int erofs_mount_loop(const char *meta, const char *const *dev, size_t ndev)
{
	autofree struct loop *loops = xcalloc(ndev + 1, sizeof(*loops));
	autofree const char **path = xcalloc(ndev + 1, sizeof(*path));
	size_t n = 0;
	int fd = 0;

	for (; fd >= 0 && n <= ndev; n++) {
		fd = loop_attach(n ? dev[n - 1] : meta, &loops[n]);
		path[n] = loops[n].path;
	}
	if (fd < 0)
		fail_more("cannot mount layer '%s'", meta);
	else
		fd = erofs_mount_files(path[0], path + 1, ndev);
	/* The mount holds its devices by now; without one this frees them. */
	while (n)
		loop_close(&loops[--n]);
	return fd;
}

int erofs_mount(const char *meta, const char *const *dev, size_t ndev)
{
	int fd = erofs_mount_files(meta, dev, ndev);

	return fd < 0 && errno == ENOTBLK ? erofs_mount_loop(meta, dev, ndev) : fd;
}
