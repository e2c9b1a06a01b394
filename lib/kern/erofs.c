#include "kern/erofs.h"

#include <errno.h>

#include "base/buf.h"
#include "base/die.h"
#include "kern/mnt.h"

int erofs_mount(const char *meta, const char *const *dev, size_t n)
{
	autofree struct mnt_opt *opts = xcalloc(n + 3, sizeof(*opts));
	int fd;

	opts[0] = (struct mnt_opt){"source", meta};
	opts[1] = (struct mnt_opt){"ro", NULL};
	for (size_t i = 0; i < n; i++)
		opts[i + 2] = (struct mnt_opt){"device", dev[i]};
	/* Set-id bits stay: whose they are is decided by the id map of the box. */
	fd = mnt_new("erofs", opts, MNT_RO | MNT_NODEV);

	/* What fs/erofs says of a file it cannot read through its page cache, one on tmpfs say. */
	if (fd < 0 && errno == ENOTBLK)
		return failx("the file system of '%s' cannot hold layers: use ext4, xfs or btrfs",
			     meta);
	return fd < 0 ? fail_more("cannot mount layer '%s'", meta) : fd;
}
