#include "box/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/die.h"
#include "base/fd.h"
#include "base/num.h"
#include "base/sock.h"
#include "kern/ns.h"
#include "store/log.h"

/* FIXED: what turn() polls beside the connections. */
enum { DRAIN_TICK_MS = 50, FREEZE_TICK_MS = 5, MAX_CONN = 4096, FIXED = 4 };

static int put_state(struct keeper *k, const char *state)
{
	autobuf b = BUF_INIT;
	char num[24];

	kv_put_file(&b, "state", state);
	snprintf(num, sizeof(num), "%d", k->run.pid);
	kv_put_file(&b, "pid", num);
	snprintf(num, sizeof(num), "%d", getpid());
	kv_put_file(&b, "keeper", num);
	snprintf(num, sizeof(num), "%llu", (unsigned long long)num_now_ms());
	kv_put_file(&b, "since_ms", num);
	return fd_replace(k->rundir, "state", b.p, b.len, 0);
}

void keeper_stop(struct keeper *k, const char *cause)
{
	if (k->stopping)
		return;
	k->stopping = 1;
	k->cause = cause;
	k->kill_at_us = num_mono_us() + PROTO_GRACE_MS * 1000ull;
	put_state(k, "stopping");
	cgroup_kill(&k->run.cgroup);
	ns_pidfd_kill(k->run.pidfd, SIGKILL);
}

static void accept_all(struct keeper *k)
{
	int fd, i;

	while ((fd = accept4(k->ctl, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0) {
		struct ucred who;
		socklen_t len = sizeof(who);

		/* The directory is closed to others; this also keeps out one who got an fd of it.
		 */
		if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len) < 0 ||
		    who.uid != geteuid()) {
			close(fd);
			continue;
		}
		for (i = 0; i < k->nconn && k->conn[i].fd >= 0; i++)
			;
		if (i == MAX_CONN) {
			close(fd);
			continue;
		}
		if (i == k->nconn)
			k->conn = xrealloc(k->conn, (size_t)++k->nconn * sizeof(*k->conn));
		memset(&k->conn[i], 0, sizeof(k->conn[i]));
		k->conn[i].fd = fd;
		k->conn[i].peer = ns_pidfd_open(who.pid);
	}
	if (errno == EMFILE || errno == ENFILE)
		usleep(10000); /* the caller stays in the queue: do not spin on it */
}

static void drain(struct keeper *k)
{
	static char sink[64 * 1024];

	for (int i = 0; i < k->ndrain; i++) {
		ssize_t n = read(k->drain[i], sink, sizeof(sink));

		if (n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR)))
			continue;
		close(k->drain[i]);
		k->drain[i--] = k->drain[--k->ndrain];
	}
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
	return !a || (b && b < a) ? b : a;
}

/* When something is due next, on num_mono_us(); 0: never. */
static uint64_t next_due(const struct keeper *k)
{
	uint64_t due = k->stopping ? k->kill_at_us : 0;

	if (!k->stopping && k->spec.ttl_ms)
		due = earlier(due, k->born_us + k->spec.ttl_ms * 1000);
	if (!k->stopping && k->spec.idle_ms && !k->running)
		due = earlier(due, k->idle_since_us + k->spec.idle_ms * 1000);
	for (int i = 0; i < k->nconn; i++)
		if (k->conn[i].fd >= 0)
			due = earlier(due, k->conn[i].settle_us);
	return due;
}

static void do_due(struct keeper *k)
{
	uint64_t now = num_mono_us();

	for (int i = 0; i < k->nconn; i++) {
		struct conn *c = &k->conn[i];

		if (c->fd >= 0 && c->settle_us && c->settle_us <= now)
			keeper_settle(k, c, 0);
		/* A stopped client keeps a dead child unreaped, and that keeps pid 1 from ending.
		 */
		if (c->fd >= 0 && k->stopping && k->kill_at_us <= now && c->kind == CONN_EXEC &&
		    c->peer >= 0)
			ns_pidfd_kill(c->peer, SIGKILL);
	}
	if (k->stopping && k->kill_at_us <= now)
		k->kill_at_us = now + PROTO_GRACE_MS * 1000ull;
	if (!k->stopping && k->spec.ttl_ms && k->born_us + k->spec.ttl_ms * 1000 <= now)
		keeper_stop(k, "ttl");
	if (!k->stopping && k->spec.idle_ms && !k->running &&
	    k->idle_since_us + k->spec.idle_ms * 1000 <= now)
		keeper_stop(k, "idle");
}

/* The ID is told, or who was to tell it has died and nobody will ever use the box. */
static void hear_maker(struct keeper *k)
{
	char text[8];
	ssize_t n = recv(k->maker, text, sizeof(text), MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	fd_close(&k->maker);
	if (n <= 0)
		keeper_stop(k, "creator-died");
}

/* One round of the loop; 1 when pid 1 of the box has ended. */
static int turn(struct keeper *k, int sigfd)
{
	int tick = keeper_freeze(k) ? FREEZE_TICK_MS : k->ndrain ? DRAIN_TICK_MS : 0;
	uint64_t due = next_due(k), now = num_mono_us();
	int timeout = !due	   ? -1
		      : due <= now ? 0
				   : (int)((due - now) / 1000 > 3600000 ? 3600000
									: (due - now) / 1000 + 1);
	int n = 0, nconn = k->nconn;
	struct pollfd *p = xcalloc((size_t)nconn + FIXED, sizeof(*p));
	struct signalfd_siginfo si;
	int dead;

	if (tick && (timeout < 0 || timeout > tick))
		timeout = tick;
	p[n++] = (struct pollfd){.fd = k->run.pidfd, .events = POLLIN};
	p[n++] = (struct pollfd){.fd = k->ctl, .events = POLLIN};
	p[n++] = (struct pollfd){.fd = sigfd, .events = POLLIN};
	p[n++] = (struct pollfd){.fd = k->maker, .events = POLLIN};
	for (int i = 0; i < nconn; i++)
		p[n++] = (struct pollfd){.fd = k->conn[i].fd, .events = POLLIN};
	if (poll(p, (nfds_t)n, timeout) < 0 && errno != EINTR)
		usleep(10000); /* no memory for poll itself: try again, the box must not go
				  unwatched */
	for (int i = 0; i < nconn; i++)
		if (p[FIXED + i].revents)
			keeper_request(k, &k->conn[i]);
	if (p[1].revents)
		accept_all(k);
	if (p[2].revents && read(sigfd, &si, sizeof(si)) == sizeof(si))
		keeper_stop(k, "keeper-stopped");
	if (p[3].revents)
		hear_maker(k);
	if (k->ndrain)
		drain(k);
	dead = p[0].revents != 0;
	free(p);
	if (!dead)
		do_due(k);
	return dead;
}

static void write_end(struct keeper *k, int status, const char *cause)
{
	struct cgroup_usage u;
	autobuf b = BUF_INIT;

	cgroup_usage(&k->run.cgroup, &u);
	buf_fmt(&b, "cause = %s\ntime_ms = %llu\n", cause, (unsigned long long)num_now_ms());
	if (WIFSIGNALED(status))
		buf_fmt(&b, "signal = %d\n", WTERMSIG(status));
	buf_fmt(&b, "cpu_ms = %llu\nmem_peak = %llu\noom_kills = %llu\n",
		(unsigned long long)u.cpu_ms, (unsigned long long)u.mem_peak,
		(unsigned long long)cgroup_oom_kills(&k->run.cgroup));
	fd_replace(k->boxdir, "end", b.p, b.len, 0);
	log_start(&b, ++k->seq, "stop");
	kv_put_line(&b, "cause", cause);
	log_append(k->logfd, &b);
}

/* Its files may be removed before whoever waits for the box can read them. */
static void tell_end(struct keeper *k)
{
	autobuf b = BUF_INIT;

	kv_put_line(&b, "ok", "1");
	kv_put_line(&b, "cause", k->cause);
	kv_put_num(&b, "time_ms", num_now_ms());
	for (int i = 0; i < k->nconn; i++)
		if (k->conn[i].fd >= 0 && k->conn[i].kind == CONN_WAIT && !k->conn[i].seq)
			sock_send(k->conn[i].fd, b.p, b.len, NULL, 0);
}

/* pid 1 is gone, and with it every process: say why, let the waiters go, give the groups back. */
static void bury(struct keeper *k)
{
	int status = 0;

	waitpid(k->run.pid, &status, 0);
	if (!k->cause)
		k->cause = cgroup_home_oom_kills(&k->run.cgroup) ? "oom" : "init-died";
	k->stopping = 1;
	for (int i = 0; i < k->nconn; i++)
		if (k->conn[i].fd >= 0 && k->conn[i].settle_us)
			keeper_settle(k, &k->conn[i], 1);
		else if (k->conn[i].fd >= 0 && k->conn[i].kind == CONN_EXEC)
			keeper_drop(k, &k->conn[i]);
	write_end(k, status, k->cause);
	tell_end(k);
	unlinkat(k->rundir, "ctl", 0);
	cgroup_remove(&k->tree, k->spec.id);
}

static int open_all(struct keeper *k, const struct state *st, const char *id)
{
	struct cgroup_limits limits;

	k->boxdir = fd_dir(st->box, id, 0);
	k->rundir = k->boxdir < 0 ? -1 : fd_dir(st->run_box, id, 0);
	if (k->rundir < 0 || spec_load(st, id, &k->spec) < 0)
		return -1;
	k->backend = backend_find(k->spec.backend);
	if (!k->backend)
		return failx("box '%s': no backend '%s'", id, k->spec.backend);
	k->logfd = log_open_append(k->boxdir);
	k->ctl = k->logfd < 0 ? -1 : sock_listen(k->rundir, "ctl");
	if (k->ctl < 0 || cgroup_tree_open(&k->tree, "sbx") < 0)
		return -1;
	limits = (struct cgroup_limits){k->spec.mem_bytes, k->spec.pids, k->spec.cpu_milli};
	return cgroup_make(&k->tree, id, &limits, &k->run.cgroup);
}

static int start(struct keeper *k, const struct state *st, const char *id)
{
	autobuf b = BUF_INIT;

	if (open_all(k, st, id) < 0)
		return -1;
	if (k->backend->start(st, &k->spec, &k->run) < 0) {
		cgroup_remove(&k->tree, id);
		return -1;
	}
	k->born_us = k->idle_since_us = num_mono_us();
	log_start(&b, k->seq, "create");
	if (log_append(k->logfd, &b) < 0 || put_state(k, "running") < 0)
		return -1;
	return 0;
}

int keeper_main(const struct state *st, const char *id)
{
	struct keeper k = {
		.run = {.pid = -1, .pidfd = -1, .root = -1, .pts = -1, .cgroup = CGROUP_INIT},
		.boxdir = -1,
		.rundir = -1,
		.logfd = -1,
		.ctl = -1,
		.maker = KEEP_FD_READY,
	};
	struct rlimit files;
	sigset_t term;
	int sigfd;

	/* Its memory, and that of a child on its way into the box, is nobody else's business. */
	prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	/* Two descriptors a client: the usual soft limit would be too few for a busy box. */
	if (!getrlimit(RLIMIT_NOFILE, &files)) {
		files.rlim_cur = files.rlim_max;
		setrlimit(RLIMIT_NOFILE, &files);
	}
	sigemptyset(&term);
	sigaddset(&term, SIGTERM);
	sigprocmask(SIG_BLOCK, &term, NULL);
	sigfd = signalfd(-1, &term, SFD_CLOEXEC | SFD_NONBLOCK);
	if (sigfd < 0 || start(&k, st, id) < 0) {
		dprintf(KEEP_FD_READY, "%d %s", sigfd < 0 ? EX_SBX : fail_code(), fail_text());
		return EX_SBX;
	}
	/* If the maker is gone, hear_maker() will hear that. */
	(void)send(k.maker, "ok", 2, MSG_NOSIGNAL);
	while (!turn(&k, sigfd))
		;
	bury(&k);
	return 0;
}
