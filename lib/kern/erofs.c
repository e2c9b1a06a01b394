#include "kern/erofs.h"

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

	return fd < 0 ? fail_more("cannot mount layer '%s'", meta) : fd;
}
