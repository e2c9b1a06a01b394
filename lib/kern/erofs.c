#include "kern/erofs.h"

#include <errno.h>

#include <stddef.h>

#include "base/die.h"
#include "kern/mnt.h"

int erofs_mount(const char *meta, const char *data)
{
	const struct mnt_opt opts[] = {
		{"source", meta},
		{"device", data},
		{"ro", NULL},
		{NULL, NULL},
	};
	/* Set-id bits stay: whose they are is decided by the id map of the box. */
	int fd = mnt_new("erofs", opts, MNT_RO | MNT_NODEV);

	/* What fs/erofs says of a file it cannot read through its page cache, one on tmpfs say. */
	if (fd < 0 && errno == ENOTBLK)
		return failx("the file system of '%s' cannot hold layers: use ext4, xfs or btrfs",
			     meta);
	return fd < 0 ? fail_more("cannot mount layer '%s'", meta) : fd;
}
