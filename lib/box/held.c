#include "box/held.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/num.h"
#include "kern/ns.h"

enum { PROC_FILE_MAX = 64 * 1024, GIVE_UP_US = 5000000, TICK_US = 10000 };

/* What follows KEY at the start of a line; NULL if no line has it. */
static const char *line_after(const struct buf *b, const char *key)
{
	size_t n = strlen(key);

	for (const char *p = buf_cstr(b); *p; p += strcspn(p, "\n"), p += *p == '\n')
		if (!strncmp(p, key, n))
			return p + n;
	return NULL;
}

/* A number of a status file (proc_pid_status(5)), which has no newline in a value; 0: none. */
static long status_num(int proc, const char *path, const char *key)
{
	autobuf b = BUF_INIT;
	const char *v;

	if (fd_read_file(proc, path, PROC_FILE_MAX, &b) < 0)
		return 0;
	v = line_after(&b, key);
	return v ? strtol(v, NULL, 10) : 0;
}

/*
 * Paths in /proc/PID/cgroup are as seen from the reader's cgroup namespace: what is outside begins
 * with as many /.. as it takes to get there (cgroup_namespaces(7)).
 */
static int in_box(int proc, long pid, int up)
{
	autobuf b = BUF_INIT;
	const char *p;
	char path[32];
	int n = 0;

	snprintf(path, sizeof(path), "%ld/cgroup", pid);
	if (fd_read_file(proc, path, PROC_FILE_MAX, &b) < 0 || !(p = line_after(&b, "0::")))
		return 0;
	for (; !strncmp(p, "/..", 3) && strchr("/\n", p[3]); p += 3)
		n++;
	return n <= up;
}

/* The pidfd comes before the look at the group: what is killed is what was looked at, or dead. */
static void kill_tracer(int proc, const char *status, int up)
{
	long tracer = status_num(proc, status, "TracerPid:"), pid;
	autofd pidfd = -1;
	char path[32];

	if (tracer <= 0)
		return;
	/* It may be any thread of its process. */
	snprintf(path, sizeof(path), "%ld/status", tracer);
	pid = status_num(proc, path, "Tgid:");
	pidfd = pid > 0 ? ns_pidfd_open((pid_t)pid) : -1;
	if (pidfd >= 0 && in_box(proc, pid, up))
		ns_pidfd_kill(pidfd, SIGKILL);
}

static void release(int proc, pid_t pid, int up)
{
	autofd fd = -1;
	struct dirent *e;
	char path[64];
	DIR *d;

	snprintf(path, sizeof(path), "%d/task", pid);
	fd = openat(proc, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	d = fd < 0 ? NULL : fdopendir(fd);
	if (!d)
		return;
	fd_take(&fd);
	while ((e = readdir(d))) {
		if (*e->d_name == '.')
			continue;
		snprintf(path, sizeof(path), "%d/task/%.20s/status", pid, e->d_name);
		kill_tracer(proc, path, up);
	}
	closedir(d);
}

void held_wait(int proc, pid_t pid, int up, int give_up, siginfo_t *si)
{
	uint64_t begin = num_mono_us();

	for (;;) {
		uint64_t passed = num_mono_us() - begin;
		int r = waitid(P_PID, (id_t)pid, si, WEXITED | WNOHANG);

		if (!r && si->si_pid)
			return;
		if ((r < 0 && errno != EINTR) || (give_up && passed >= GIVE_UP_US))
			break;
		if (passed >= HELD_US)
			release(proc, pid, up);
		usleep(TICK_US);
	}
	si->si_code = CLD_KILLED;
	si->si_status = SIGKILL;
}
