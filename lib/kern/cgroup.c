#include "kern/cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/die.h"
#include "base/fd.h"
#include "base/num.h"

/* Where a hierarchy is mounted, "" if it is not: v2, or the v1 one with CONTROLLER. */
static void find_mount(const char *info, const char *controller, char out[256])
{
	size_t len = strlen(controller);

	out[0] = 0;
	/* mountinfo(5): ID PARENT DEV ROOT POINT OPTIONS ... - TYPE SOURCE SUPEROPTIONS */
	for (const char *line = info; *line; line += strcspn(line, "\n"), line += *line == '\n') {
		const char *sep = strstr(line, " - cgroup"), *end = line + strcspn(line, "\n");
		char root[256], point[256];
		const char *opt;

		if (!sep || sep > end || sscanf(line, "%*d %*d %*s %255s %255s", root, point) != 2)
			continue;
		if (!len) {
			if (!strncmp(sep, " - cgroup2 ", 11))
				goto found;
			continue;
		}
		if (strncmp(sep, " - cgroup ", 10) != 0)
			continue;
		for (opt = sep; opt && opt < end; opt = strpbrk(opt + 1, ", \n"))
			if (!strncmp(opt + 1, controller, len) && strchr(", \n", opt[1 + len]))
				goto found;
		continue;
	found:
		snprintf(out, 256, "%s", point);
		return;
	}
}

static int open_prefix(const char *mount, const char *prefix)
{
	char path[512];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", mount, prefix);
	fd = openat(AT_FDCWD, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd >= 0)
		return fd;
	if (mkdir(path, 0755) < 0 && errno != EEXIST)
		return fail("cannot make the control group '%s'", path);
	return fd_dir(AT_FDCWD, path, 0);
}

/* v2 alone: our prefix must hand the controllers down. */
static int delegate(const char *mount, const char *prefix)
{
	char path[512];

	snprintf(path, sizeof(path), "%s/cgroup.subtree_control", mount);
	if (fd_put(AT_FDCWD, path, "+cpu +memory +pids") < 0)
		return fail("cannot enable the cpu, memory and pids controllers in '%s'", path);
	snprintf(path, sizeof(path), "%s/%s/cgroup.subtree_control", mount, prefix);
	if (fd_put(AT_FDCWD, path, "+cpu +memory +pids") < 0)
		return fail("cannot enable the cpu, memory and pids controllers in '%s'", path);
	return 0;
}

struct mounts {
	char v2[256], mem[256], cpu[256], pids[256];
};

static int is_fs(const char *path, long magic)
{
	struct statfs s;

	return !statfs(path, &s) && (long)s.f_type == magic;
}

/* Where every system has them, without a look at the mount table, which grows with the node. */
static int usual_mounts(struct mounts *m)
{
	*m = (struct mounts){.v2 = "/sys/fs/cgroup"};
	if (is_fs(m->v2, CGROUP2_SUPER_MAGIC))
		return 1;
	*m = (struct mounts){"/sys/fs/cgroup/unified", "/sys/fs/cgroup/memory",
			     "/sys/fs/cgroup/cpu", "/sys/fs/cgroup/pids"};
	return is_fs(m->v2, CGROUP2_SUPER_MAGIC) && is_fs(m->mem, CGROUP_SUPER_MAGIC) &&
	       is_fs(m->cpu, CGROUP_SUPER_MAGIC) && is_fs(m->pids, CGROUP_SUPER_MAGIC);
}

static int find_mounts(struct mounts *m)
{
	autobuf info = BUF_INIT;

	if (usual_mounts(m))
		return 0;
	if (fd_read_file(AT_FDCWD, "/proc/self/mountinfo", 16 << 20, &info) < 0)
		return -1;
	find_mount(buf_cstr(&info), "", m->v2);
	find_mount(buf_cstr(&info), "memory", m->mem);
	find_mount(buf_cstr(&info), "cpu", m->cpu);
	find_mount(buf_cstr(&info), "pids", m->pids);
	return 0;
}

int cgroup_tree_open(struct cgroup_tree *t, const char *prefix)
{
	struct mounts m;

	*t = (struct cgroup_tree){-1, -1, -1, -1};
	if (find_mounts(&m) < 0)
		return -1;
	if (!*m.v2)
		return failx("no cgroup v2 hierarchy is mounted: mount -t cgroup2 cgroup2 DIR");
	t->v2 = open_prefix(m.v2, prefix);
	if (t->v2 < 0)
		return -1;
	if (!*m.mem && !*m.cpu && !*m.pids)
		return delegate(m.v2, prefix);
	if (!*m.mem || !*m.cpu || !*m.pids)
		return failx("the memory, cpu and pids controllers must all be v1, or all be v2");
	t->mem = open_prefix(m.mem, prefix);
	t->cpu = open_prefix(m.cpu, prefix);
	t->pids = open_prefix(m.pids, prefix);
	return t->mem < 0 || t->cpu < 0 || t->pids < 0 ? -1 : 0;
}

void cgroup_tree_close(struct cgroup_tree *t)
{
	fd_close(&t->v2);
	fd_close(&t->mem);
	fd_close(&t->cpu);
	fd_close(&t->pids);
}

void cgroup_close(struct cgroup *cg)
{
	fd_close(&cg->v2);
	fd_close(&cg->mem);
	fd_close(&cg->cpu);
	fd_close(&cg->pids);
}

static int open_one(int tree, const char *name, int make)
{
	if (tree < 0)
		return -1;
	if (make && mkdirat(tree, name, 0755) < 0 && errno != EEXIST)
		return -1;
	return openat(tree, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
}

static int open_group(const struct cgroup_tree *t, const char *name, int make, struct cgroup *cg)
{
	*cg = (struct cgroup)CGROUP_INIT;
	cg->v2 = open_one(t->v2, name, make);
	cg->mem = open_one(t->mem, name, make);
	cg->cpu = open_one(t->cpu, name, make);
	cg->pids = open_one(t->pids, name, make);
	if (cg->v2 >= 0 && (t->mem < 0 || (cg->mem >= 0 && cg->cpu >= 0 && cg->pids >= 0)))
		return 0;
	fail("cannot %s the control group '%s'", make ? "make" : "open", name);
	cgroup_close(cg);
	return -1;
}

int cgroup_open(const struct cgroup_tree *t, const char *name, struct cgroup *cg)
{
	return open_group(t, name, 0, cg);
}

int cgroup_make(const struct cgroup_tree *t, const char *name, const struct cgroup_limits *l,
		struct cgroup *cg)
{
	if (open_group(t, name, 1, cg) < 0)
		return -1;
	if (!cgroup_set_limits(cg, l))
		return 0;
	cgroup_close(cg);
	cgroup_remove(t, name);
	return -1;
}

static int put_limit(int dir, const char *file, uint64_t v, const char *after)
{
	char text[64];

	snprintf(text, sizeof(text), "%llu%s", (unsigned long long)v, after);
	return fd_put(dir, file, text) < 0 ? fail("cannot set '%s' to %s", file, text) : 0;
}

enum { CPU_PERIOD_US = 100000 };

int cgroup_set_limits(const struct cgroup *cg, const struct cgroup_limits *l)
{
	uint64_t quota = l->cpu_milli * (CPU_PERIOD_US / 1000);

	if (cg->mem < 0) {
		if (l->mem_bytes && (put_limit(cg->v2, "memory.max", l->mem_bytes, "") < 0 ||
				     put_limit(cg->v2, "memory.swap.max", 0, "") < 0))
			return -1;
		if (l->pids && put_limit(cg->v2, "pids.max", l->pids, "") < 0)
			return -1;
		return l->cpu_milli ? put_limit(cg->v2, "cpu.max", quota, " 100000") : 0;
	}
	if (l->mem_bytes && put_limit(cg->mem, "memory.limit_in_bytes", l->mem_bytes, "") < 0)
		return -1;
	if (l->pids && put_limit(cg->pids, "pids.max", l->pids, "") < 0)
		return -1;
	return l->cpu_milli ? put_limit(cg->cpu, "cpu.cfs_quota_us", quota, "") : 0;
}

static int dup_fd(int fd)
{
	return fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 3);
}

int cgroup_slot(const struct cgroup *box, const char *name, struct cgroup *slot)
{
	*slot = (struct cgroup){
		.v2 = open_one(box->v2, name, 1),
		.mem = open_one(box->mem, name, 1),
		.cpu = dup_fd(box->cpu),
		.pids = dup_fd(box->pids),
	};
	if (slot->v2 >= 0 && box->mem < 0 && !fd_put(box->v2, "cgroup.subtree_control", "+memory"))
		return 0;
	if (slot->v2 >= 0 && slot->mem >= 0 && slot->cpu >= 0 && slot->pids >= 0)
		return 0;
	fail("cannot make the control group '%s'", name);
	cgroup_close(slot);
	return -1;
}

void cgroup_slot_remove(const struct cgroup *box, const char *name, struct cgroup *slot)
{
	cgroup_close(slot);
	unlinkat(box->v2, name, AT_REMOVEDIR);
	if (box->mem >= 0)
		unlinkat(box->mem, name, AT_REMOVEDIR);
}

int cgroup_home(const struct cgroup *box, struct cgroup *home)
{
	if (box->mem < 0)
		return cgroup_slot(box, "init", home);
	*home = (struct cgroup){dup_fd(box->v2), dup_fd(box->mem), dup_fd(box->cpu),
				dup_fd(box->pids)};
	if (home->v2 >= 0 && home->mem >= 0 && home->cpu >= 0 && home->pids >= 0)
		return 0;
	fail("cannot open a control group");
	cgroup_close(home);
	return -1;
}

int cgroup_enter(const struct cgroup *cg, int pid, int v1_only)
{
	char text[16];

	snprintf(text, sizeof(text), "%d", pid);
	if ((!v1_only && fd_put(cg->v2, "cgroup.procs", text) < 0) ||
	    (cg->mem >= 0 && (fd_put(cg->mem, "cgroup.procs", text) < 0 ||
			      fd_put(cg->cpu, "cgroup.procs", text) < 0 ||
			      fd_put(cg->pids, "cgroup.procs", text) < 0)))
		return fail("cannot enter a control group");
	return 0;
}

int cgroup_kill(const struct cgroup *cg)
{
	return fd_put(cg->v2, "cgroup.kill", "1") < 0 ? fail("cannot kill a control group") : 0;
}

/* The number after KEY at the start of a line of a small control file; ABSENT if there is none. */
static uint64_t read_key(int dir, const char *file, const char *key, uint64_t absent)
{
	autofd fd = openat(dir, file, O_RDONLY | O_CLOEXEC);
	size_t len = strlen(key);
	char text[4096];
	ssize_t n = fd < 0 ? -1 : fd_read_all(fd, text, sizeof(text) - 1);

	if (n < 0)
		return absent;
	text[n] = 0;
	for (const char *line = text; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (!strncmp(line, key, len) && (!len || line[len] == ' '))
			return strtoull(line + len, NULL, 10);
	}
	return absent;
}

int cgroup_populated(const struct cgroup *cg)
{
	uint64_t v = read_key(cg->v2, "cgroup.events", "populated", 2);

	return v == 2 ? -1 : (int)v;
}

/*
 * Waits until cgroup.events has the line WANT: 1; 0 when END, on num_mono_us(), has come first; -1 if
 * the group is gone. The file signals a change once after each read (cgroup-v2.rst), but not before
 * 10 ms after the last signal (cgroup_file_notify()), and some kernels miss one between read and
 * poll: so it is read again anyway, first after TICK_US, then ever less often.
 */
static int wait_event(int dir, const char *want, uint64_t end, uint64_t tick_us)
{
	autofd fd = openat(dir, "cgroup.events", O_RDONLY | O_CLOEXEC);
	struct pollfd p = {.fd = fd, .events = POLLPRI};

	for (; fd >= 0; tick_us = tick_us < 25000 ? tick_us * 2 : 50000) {
		struct timespec t = {0};
		char text[128];
		ssize_t n = pread(fd, text, sizeof(text) - 1, 0);
		uint64_t now = num_mono_us();

		if (n < 0)
			return -1;
		text[n] = 0;
		if (strstr(text, want))
			return 1;
		if (now >= end)
			return 0;
		t.tv_nsec = (long)(tick_us < end - now ? tick_us : end - now) * 1000;
		ppoll(&p, 1, &t, NULL);
	}
	return -1;
}

int cgroup_wait_empty(const struct cgroup *cg, int timeout_ms)
{
	uint64_t end = num_mono_us() + (uint64_t)timeout_ms * 1000;

	return wait_event(cg->v2, "populated 0", end, 1000) != 0;
}

/*
 * A group with processes and groups of its own, as a box on a hybrid node, says "frozen 1" when only
 * the former are (cgroup_update_frozen()): each slot is asked, too. One that is gone has none.
 */
static int wait_frozen(const struct cgroup *cg, uint64_t end)
{
	enum { TICK_US = 20 };
	int r = wait_event(cg->v2, "frozen 1", end, TICK_US);
	int fd = r == 1 ? fd_dir(cg->v2, ".", 0) : -1;
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;

	if (r == 1 && !d)
		r = -1;
	while (r == 1 && (e = readdir(d))) {
		autofd sub = e->d_type == DT_DIR && e->d_name[0] != '.'
				     ? open_one(cg->v2, e->d_name, 0)
				     : -1;

		if (sub >= 0)
			r = wait_event(sub, "frozen 1", end, TICK_US) != 0;
	}
	if (d)
		closedir(d);
	return r;
}

int cgroup_frozen(const struct cgroup *cg)
{
	return wait_frozen(cg, 0);
}

int cgroup_freeze(const struct cgroup *cg, int on, int timeout_ms)
{
	uint64_t end = num_mono_us() + (uint64_t)timeout_ms * 1000;
	int r;

	if (fd_put(cg->v2, "cgroup.freeze", on ? "1" : "0") < 0)
		return fail("cannot %s a control group", on ? "freeze" : "thaw");
	r = on ? wait_frozen(cg, end) : wait_event(cg->v2, "frozen 0", end, 20);
	return r < 0 ? fail("cannot see whether a control group is frozen") : r;
}

int cgroup_usage(const struct cgroup *cg, struct cgroup_usage *u)
{
	memset(u, 0, sizeof(*u));
	u->cpu_ms = read_key(cg->v2, "cpu.stat", "usage_usec", 0) / 1000;
	if (cg->mem < 0) {
		u->mem = read_key(cg->v2, "memory.current", "", 0);
		u->mem_peak = read_key(cg->v2, "memory.peak", "", u->mem);
		u->oom_kills = read_key(cg->v2, "memory.events", "oom_kill", 0);
		u->tasks = read_key(cg->v2, "pids.current", "", 0);
		return 0;
	}
	u->mem = read_key(cg->mem, "memory.usage_in_bytes", "", 0);
	u->mem_peak = read_key(cg->mem, "memory.max_usage_in_bytes", "", u->mem);
	u->oom_kills = read_key(cg->mem, "memory.oom_control", "oom_kill", 0);
	u->tasks = read_key(cg->pids, "pids.current", "", 0);
	return 0;
}

uint64_t cgroup_home_oom_kills(const struct cgroup *box)
{
	return box->mem < 0 ? read_key(box->v2, "init/memory.events", "oom_kill", 0)
			    : read_key(box->mem, "memory.oom_control", "oom_kill", 0);
}

uint64_t cgroup_oom_kills(const struct cgroup *box)
{
	autofd fd = -1;
	struct dirent *e;
	uint64_t sum;
	DIR *d;

	if (box->mem < 0)
		return read_key(box->v2, "memory.events", "oom_kill", 0);
	/* v1 counts a kill in the victim's own group only, v2 in all groups above it too. */
	sum = read_key(box->mem, "memory.oom_control", "oom_kill", 0);
	fd = openat(box->mem, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	d = fd < 0 ? NULL : fdopendir(fd);
	if (!d)
		return sum;
	fd_take(&fd);
	while ((e = readdir(d))) {
		autofd sub = e->d_type == DT_DIR && e->d_name[0] != '.'
				     ? open_one(box->mem, e->d_name, 0)
				     : -1;

		if (sub >= 0)
			sum += read_key(sub, "memory.oom_control", "oom_kill", 0);
	}
	closedir(d);
	return sum;
}

void cgroup_reset_peak(const struct cgroup *cg)
{
	if (cg->mem >= 0)
		(void)fd_put(cg->mem, "memory.max_usage_in_bytes", "0");
}

/* Only rmdir removes in a cgroup file system: children first. Depth is bounded by the kernel. */
static int remove_groups(int at, const char *name, int depth)
{
	autofd fd = -1;
	struct dirent *e;
	DIR *d;

	if (!unlinkat(at, name, AT_REMOVEDIR) || errno == ENOENT)
		return 0;
	if (errno != EBUSY || depth > 64)
		return -1;
	fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	d = fd < 0 ? NULL : fdopendir(dup(fd));
	if (d) {
		while ((e = readdir(d)))
			if (e->d_type == DT_DIR && e->d_name[0] != '.')
				remove_groups(fd, e->d_name, depth + 1);
		closedir(d);
	}
	return unlinkat(at, name, AT_REMOVEDIR) < 0 && errno != ENOENT ? -1 : 0;
}

int cgroup_remove(const struct cgroup_tree *t, const char *name)
{
	const int trees[] = {t->v2, t->mem, t->cpu, t->pids};
	int r = 0;

	for (size_t i = 0; i < sizeof(trees) / sizeof(trees[0]); i++) {
		/* A killed task leaves its group a little after it stops being seen: wait for it.
		 */
		for (int tries = 0; trees[i] >= 0 && remove_groups(trees[i], name, 0) < 0;
		     tries++) {
			if (tries == 200) {
				r = fail("cannot remove the control group '%s'", name);
				break;
			}
			usleep(5000);
		}
	}
	return r;
}
