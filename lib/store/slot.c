#include "store/slot.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/die.h"
#include "base/fd.h"
#include "base/num.h"

int slot_take(const struct state *st, const char *id, uint32_t *slot)
{
	uint32_t max = (uint32_t)st->conf.max_boxes, start = 0;
	autofd dir = fd_dir(st->state, "slot", 1);

	if (dir < 0)
		return -1;
	/* A start by chance keeps the probes short until the node is almost full. */
	if (getrandom(&start, sizeof(start), 0) != sizeof(start))
		return fail("cannot get random bytes");
	for (uint32_t i = 0; i < max; i++) {
		uint32_t n = (uint32_t)(((uint64_t)start + i) % max);
		char name[16];

		snprintf(name, sizeof(name), "%u", n);
		if (!symlinkat(id, dir, name)) {
			*slot = n;
			return 0;
		}
		if (errno == ENOSPC || errno == EDQUOT)
			return fail_as(EX_AGAIN, "the state disk is full: '%s'", st->conf.state);
		if (errno != EEXIST)
			return fail("cannot take a slot");
	}
	return fail_as(EX_AGAIN, "all %u slots of this node are taken (max_boxes in sbx.conf)",
		       max);
}

void slot_free(const struct state *st, uint32_t slot, const char *id)
{
	char path[32];

	snprintf(path, sizeof(path), "%u", slot);
	state_unlink_own(st, "slot", path, id);
}

int slot_each(const struct state *st, int (*fn)(void *arg, uint32_t slot, const char *id),
	      void *arg)
{
	int fd = openat(st->state, "slot", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;
	int r = 0;

	if (!d)
		return errno == ENOENT ? 0 : fail("cannot read '%s/slot'", st->conf.state);
	while (!r && (e = readdir(d))) {
		char id[ID_MAX + 1];
		uint64_t slot;
		ssize_t n;

		if (num_u64("slot", e->d_name, UINT32_MAX, &slot) < 0)
			continue;
		n = readlinkat(dirfd(d), e->d_name, id, sizeof(id));
		if (n < 0 || n > ID_MAX)
			continue;
		id[n] = 0;
		r = fn(arg, (uint32_t)slot, id);
	}
	closedir(d);
	return r;
}
