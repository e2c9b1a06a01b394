/* The groups of bare.c. */
#include "bare.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <linux/magic.h>
#include <unistd.h>

#include "base/fd.h"

enum { REMOVE_TRIES = 1000, REMOVE_WAIT_US = 100 };

static const char *const roots_v1[GROUPS] = {"/sys/fs/cgroup/unified", "/sys/fs/cgroup/memory",
					     "/sys/fs/cgroup/cpu", "/sys/fs/cgroup/pids"};

static const struct {
	int root; /* index in roots_v1 */
	const char *v1, *v1_value, *v2, *v2_value;
} limits[] = {
	{1, "memory.limit_in_bytes", "1073741824", "memory.max", "1073741824"},
	{2, "cpu.cfs_quota_us", "100000", "cpu.max", "100000 100000"},
	{3, "pids.max", "512", "pids.max", "512"},
};

static void name(char out[64], const char *root)
{
	snprintf(out, 64, "%s/bench-bare.%d", root, getpid());
}

int groups_open(struct groups *g)
{
	struct statfs fs;

	if (statfs("/sys/fs/cgroup", &fs))
		return -1;
	g->v2 = fs.f_type == CGROUP2_SUPER_MAGIC;
	for (g->n = 0; g->n < (g->v2 ? 1 : GROUPS); g->n++) {
		char path[64];

		name(path, g->v2 ? "/sys/fs/cgroup" : roots_v1[g->n]);
		g->parent[g->n] = fd_dir(AT_FDCWD, path, 1);
		if (g->parent[g->n] < 0)
			return -1;
	}
	if (!g->v2)
		return 0;
	if (fd_put(AT_FDCWD, "/sys/fs/cgroup/cgroup.subtree_control", "+memory +cpu +pids"))
		return -1;
	return fd_put(g->parent[0], "cgroup.subtree_control", "+memory +cpu +pids");
}

int groups_make(struct groups *g)
{
	for (int i = 0; i < g->n; i++) {
		if (mkdirat(g->parent[i], "box", 0755))
			return -1;
		g->box[i] = openat(g->parent[i], "box", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (g->box[i] < 0)
			return -1;
	}
	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		int at = g->box[g->v2 ? 0 : limits[i].root];

		if (fd_put(at, g->v2 ? limits[i].v2 : limits[i].v1,
			   g->v2 ? limits[i].v2_value : limits[i].v1_value))
			return -1;
	}
	return 0;
}

int groups_enter(const struct groups *g, pid_t pid)
{
	char text[16];

	snprintf(text, sizeof(text), "%d", pid);
	for (int i = 0; i < g->n; i++)
		if (fd_put(g->box[i], "cgroup.procs", text))
			return -1;
	return 0;
}

/* A group stays busy for a moment after its last process was reaped. */
static int remove_dir(int at, const char *path)
{
	for (int try = 0; try < REMOVE_TRIES; try++) {
		if (!unlinkat(at, path, AT_REMOVEDIR))
			return 0;
		if (errno != EBUSY)
			return -1;
		usleep(REMOVE_WAIT_US);
	}
	return -1;
}

int groups_remove(struct groups *g)
{
	for (int i = 0; i < g->n; i++) {
		close(g->box[i]);
		if (remove_dir(g->parent[i], "box"))
			return -1;
	}
	return 0;
}

void groups_close(struct groups *g)
{
	for (int i = 0; i < g->n; i++) {
		char path[64];

		name(path, g->v2 ? "/sys/fs/cgroup" : roots_v1[i]);
		close(g->parent[i]);
		remove_dir(AT_FDCWD, path);
	}
}
