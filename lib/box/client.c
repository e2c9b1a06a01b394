#include "box/client.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/die.h"
#include "base/fd.h"
#include "base/lock.h"
#include "base/num.h"
#include "box/spec.h"
#include "kern/cgroup.h"
#include "kern/ns.h"
#include "store/slot.h"

enum { CONNECT_MS = 10000 };

const char *box_state_name(enum box_state s)
{
	static const char *const names[] = {"creating", "running", "stopping", "dead"};

	return names[s];
}

enum box_state box_state_load(const struct state *st, const char *id, struct kv *kv)
{
	char path[ID_MAX + 8];
	const char *name;

	snprintf(path, sizeof(path), "%s/lock", id);
	if (lock_held(st->run_box, path) != 1)
		return BOX_DEAD;
	snprintf(path, sizeof(path), "%s/state", id);
	if (kv_load(kv, st->run_box, path) < 0)
		return BOX_CREATING;
	name = kv_str(kv, "state", "");
	return !strcmp(name, "running") ? BOX_RUNNING : BOX_STOPPING;
}

enum box_state box_state(const struct state *st, const char *id)
{
	autokv kv = {0};

	return box_state_load(st, id, &kv);
}

void box_end(const struct state *st, const char *id, struct kv *end)
{
	static const char lost[] = "cause = lost\n";
	char path[ID_MAX + 8];

	snprintf(path, sizeof(path), "%s/end", id);
	if (kv_load(end, st->box, path) < 0)
		kv_parse_file(end, "end", lost, sizeof(lost) - 1);
}

static int gone(const struct state *st, const char *id)
{
	autokv end = {0};

	if (faccessat(st->box, id, F_OK, 0) < 0)
		return fail_as(EX_GONE, "no box '%s' on this node", id);
	box_end(st, id, &end);
	return fail_as(EX_GONE, "box '%s' has ended (%s)", id, kv_str(&end, "cause", "lost"));
}

int client_connect(const struct state *st, const char *id)
{
	autofd dir = openat(st->run_box, id, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int fd = dir < 0 ? -1 : sock_connect(dir, "ctl", CONNECT_MS);

	if (fd >= 0)
		return fd;
	if (dir >= 0 && box_state(st, id) == BOX_CREATING)
		return fail_as(EX_AGAIN, "box '%s' is still being made", id);
	return errno == EAGAIN ? fail_as(EX_AGAIN, "the keeper of box '%s' does not answer", id)
			       : gone(st, id);
}

int client_answer(int ctl, struct kv *answer, int *fds, int *nfds)
{
	autofree char *msg = xmalloc(SOCK_MAX);
	ssize_t n = sock_recv(ctl, msg, SOCK_MAX, fds, nfds);
	const char *err;

	if (n <= 0)
		return fail_as(EX_GONE, "the box has ended");
	if (kv_parse_line(answer, "answer", msg, (size_t)n) < 0)
		return -1;
	err = kv_get(answer, "err");
	return err ? fail_as((int)kv_u64(answer, "code", EX_SBX), "%s", err) : 0;
}

int client_call(int ctl, const struct buf *request, struct kv *answer, int *fds, int *nfds)
{
	*nfds = 0;
	if (sock_send(ctl, request->p, request->len, NULL, 0) < 0)
		return fail_as(EX_GONE, "the box has ended");
	return client_answer(ctl, answer, fds, nfds);
}

int client_freeze(const struct state *st, const char *id)
{
	autofd ctl = client_connect(st, id);
	int fds[SOCK_FDS], n;
	autobuf b = BUF_INIT;
	autokv answer = {0};

	if (ctl < 0)
		return -1;
	kv_put_line(&b, "op", "freeze");
	return client_call(ctl, &b, &answer, fds, &n) < 0 ? fail_more("box '%s'", id)
							  : fd_take(&ctl);
}

int box_stop_begin(const struct state *st, const char *id, const char *cause)
{
	autofd dir = openat(st->run_box, id, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	autofd fd = dir < 0 ? -1 : sock_connect(dir, "ctl", CONNECT_MS);
	autobuf b = BUF_INIT;

	if (fd < 0)
		return -1;
	kv_put_line(&b, "op", "stop");
	kv_put_line(&b, "cause", cause);
	return sock_send(fd, b.p, b.len, NULL, 0) < 0 ? -1 : fd_take(&fd);
}

int box_stop_wait(int ctl, const char *id, int timeout_ms)
{
	struct pollfd p = {.fd = ctl, .events = POLLIN};
	int r;

	do
		r = poll(&p, 1, timeout_ms);
	while (r < 0 && errno == EINTR);
	close(ctl);
	return r ? 0 : fail_as(EX_AGAIN, "box '%s' does not end", id);
}

/* Kills what a keeper that died by kill -9 may have left, and gives the groups back. */
static int remove_groups(const char *id)
{
	struct cgroup_tree tree;
	struct cgroup cg;
	int r;

	if (cgroup_tree_open(&tree, "sbx") < 0)
		return -1;
	if (!cgroup_open(&tree, id, &cg)) {
		cgroup_kill(&cg);
		cgroup_wait_empty(&cg, 10000);
		cgroup_close(&cg);
	}
	r = cgroup_remove(&tree, id);
	cgroup_tree_close(&tree);
	return r;
}

static int drop_slot(void *p, uint32_t slot, const char *id)
{
	const void **arg = p;

	if (!strcmp(id, arg[1]))
		slot_free(arg[0], slot, id);
	return 0;
}

/*
 * Under another name first: a creation that has just made this directory, and finds it without a
 * lock file between two of our steps, shall see that it is not its own any more. "." and the ID is
 * what sbx-reap removes without a question.
 */
static int remove_run(const struct state *st, const char *id)
{
	char aside[ID_MAX + 2];

	snprintf(aside, sizeof(aside), ".%s", id);
	if (fd_rmtree(st->run_box, aside) < 0)
		return -1;
	if (renameat(st->run_box, id, st->run_box, aside) < 0)
		return errno == ENOENT ? 0 : fail("cannot move the run directory of box '%s'", id);
	return fd_rmtree(st->run_box, aside);
}

int box_remove(const struct state *st, const char *id)
{
	autofd dir = openat(st->run_box, id, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	autofd lock = -1;
	autospec spec = {0};
	const void *arg[2] = {st, id};
	int known;

	if (dir < 0 && errno != ENOENT)
		return fail("cannot open the run directory of box '%s'", id);
	if (dir >= 0) {
		lock = lock_take(dir, "lock", LOCK_TRY);
		if (lock < 0)
			return errno == EWOULDBLOCK ? fail("box '%s' is in use", id) : -1;
	}
	if (remove_groups(id) < 0)
		return -1;
	known = !spec_load(st, id, &spec);
	if (known && *spec.name)
		state_unlink_own(st, "name", spec.name, id);
	if (fd_rmtree(st->box, id) < 0)
		return -1;
	/* The slot after the files that belong to its ids, the run directory last: as long as that
	 * is there, so is the way to find the rest. */
	if (known)
		slot_free(st, spec.slot, id);
	else
		slot_each(st, drop_slot, arg);
	return remove_run(st, id);
}

int box_remove_wait(const struct state *st, const char *id)
{
	int r;

	/* A keeper whose connection has closed still holds the lock for a moment, and so does another
	 * sbx-stop or sbx-reap that is at the same box. */
	for (int tries = 0; (r = box_remove(st, id)) < 0 && errno == EWOULDBLOCK && tries < 2000;
	     tries++)
		usleep(5000);
	return r;
}

static void kill_group(const char *id)
{
	struct cgroup_tree tree;
	struct cgroup cg;

	if (cgroup_tree_open(&tree, "sbx") < 0)
		return;
	if (!cgroup_open(&tree, id, &cg)) {
		cgroup_kill(&cg);
		cgroup_close(&cg);
	}
	cgroup_tree_close(&tree);
}

/* Kills the keeper, if the process of that number still is it. */
static void kill_keeper(const struct state *st, const char *id)
{
	char path[ID_MAX + 32], want[ID_MAX + 16];
	autofd pidfd = -1;
	autokv state = {0};
	autobuf cmd = BUF_INIT;
	int pid, len;

	snprintf(path, sizeof(path), "%s/state", id);
	pid = kv_load(&state, st->run_box, path) < 0 ? 0 : (int)kv_u64(&state, "keeper", 0);
	pidfd = pid > 1 ? ns_pidfd_open(pid) : -1;
	snprintf(path, sizeof(path), "/proc/%d/cmdline", pid);
	len = snprintf(want, sizeof(want), "sbx-keep%c%s", 0, id);
	if (pidfd >= 0 && !fd_read_file(AT_FDCWD, path, 4096, &cmd) && cmd.len >= (size_t)len &&
	    !memcmp(cmd.p, want, (size_t)len))
		ns_pidfd_kill(pidfd, SIGKILL);
}

void box_kill(const struct state *st, const char *id)
{
	kill_group(id);
	kill_keeper(st, id);
}
