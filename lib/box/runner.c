#include "box/runner.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/die.h"
#include "base/fd.h"
#include "base/num.h"
#include "box/client.h"
#include "box/held.h"
#include "box/inside.h"
#include "box/profile.h"
#include "box/proto.h"
#include "box/tty.h"
#include "box/stream.h"
#include "kern/ns.h"

enum { IN, OUT, ERR, STREAMS };

struct running {
	const struct command *cmd;
	struct spec spec;
	uint64_t seq;
	int ctl, logdir, pts, report;
	struct inside in;
	struct tty tty;
	struct stream stream[STREAMS];
	int sigfd, pidfd;
	int proc; /* the node's: paths resolve in the box once that is entered */
	pid_t pid;
	uint64_t start_us;
	struct cgroup_usage before;
	int timed_out;
};

static void argv_pairs(struct buf *b, const struct command *cmd)
{
	autobuf all = BUF_INIT;

	for (char *const *a = cmd->argv; *a && all.len <= PROTO_ARGV_MAX; a++) {
		if (a != cmd->argv)
			buf_chr(&all, 0);
		buf_str(&all, *a);
	}
	kv_put_bytes(b, "argv", buf_cstr(&all),
		     all.len < PROTO_ARGV_MAX ? all.len : PROTO_ARGV_MAX);
	if (all.len > PROTO_ARGV_MAX)
		kv_put_num(b, "argv_cut", 1);
}

static void place_fds(struct running *r, int *fds, int n)
{
	r->in.pid1 = fds[PROTO_FD_PID1];
	r->in.slot = (struct cgroup)CGROUP_INIT;
	r->in.slot.v2 = fds[PROTO_FD_V2];
	r->pts = fds[PROTO_FD_PTS];
	if (n > PROTO_FD_PIDS) {
		r->in.slot.mem = fds[PROTO_FD_MEM];
		r->in.slot.cpu = fds[PROTO_FD_CPU];
		r->in.slot.pids = fds[PROTO_FD_PIDS];
	}
}

static int ask_keeper(struct running *r)
{
	const struct command *cmd = r->cmd;
	int fds[SOCK_FDS], n;
	autobuf b = BUF_INIT;
	autokv answer = {0};

	kv_put_line(&b, "op", "exec");
	argv_pairs(&b, cmd);
	kv_put_line(&b, "user", r->in.user);
	kv_put_line(&b, "cwd", r->in.cwd);
	kv_put_num(&b, "detach", (uint64_t)cmd->detach);
	kv_put_num(&b, "tty", (uint64_t)cmd->tty);
	kv_put_num(&b, "by", getuid());
	if (cmd->call)
		kv_put_num(&b, "tool", 1);
	if (client_call(r->ctl, &b, &answer, fds, &n) < 0)
		return -1;
	if (n < PROTO_FD_MEM)
		return failx("the keeper of box '%s' gave a bad answer", r->spec.id);
	place_fds(r, fds, n);
	r->seq = kv_u64(&answer, "seq", 0);
	return 0;
}

static void run_free(struct running *r)
{
	for (int i = 0; i < STREAMS; i++)
		stream_free(&r->stream[i]);
	free((void *)r->in.env);
	buf_free(&r->in.bpf);
	cgroup_close(&r->in.slot);
	fd_close(&r->in.pid1);
	fd_close(&r->pts);
	fd_close(&r->ctl);
	fd_close(&r->logdir);
	fd_close(&r->report);
	fd_close(&r->sigfd);
	fd_close(&r->pidfd);
	fd_close(&r->proc);
	tty_close(&r->tty);
	spec_free(&r->spec);
	free(r);
}

/* The image's and the box's variables (the spec has both), then those of this command. */
static void make_env(struct running *r)
{
	const struct command *cmd = r->cmd;
	const char **env, *e;
	size_t n = 0, extra = 0, i = 0;

	while (cmd->env && cmd->env[extra])
		extra++;
	env = xcalloc(r->spec.kv.n + extra + 3, sizeof(*env));
	while ((e = spec_next(&r->spec, "env", &i)))
		env[n++] = e;
	env[n++] = xasprintf("SBX_ID=%s", r->spec.id);
	if (cmd->tty && getenv("TERM"))
		env[n++] = xasprintf("TERM=%s", getenv("TERM"));
	for (i = 0; i < extra; i++)
		env[n++] = cmd->env[i];
	r->in.env = env;
}

static int begin(struct running *r, const struct state *st, const char *id)
{
	const struct command *cmd = r->cmd;
	char path[ID_MAX + 8];

	/* Until its exec the child is in reach of root in the box (CVE-2016-9962): not dumpable, it
	 * cannot be traced nor its descriptors opened from there. */
	prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	r->ctl = client_connect(st, id);
	if (r->ctl < 0 || spec_load(st, id, &r->spec) < 0)
		return -1;
	r->in.user = cmd->user ? cmd->user : r->spec.user;
	r->in.cwd = cmd->cwd ? cmd->cwd : r->spec.workdir;
	r->in.argv = cmd->argv;
	r->in.call = cmd->call;
	r->in.arg = cmd->arg;
	r->in.no_new_privs = r->spec.no_new_privs;
	make_env(r);
	if (profile_open(st, r->spec.seccomp, &r->in.bpf) < 0)
		return -1;
	snprintf(path, sizeof(path), "%s/log", id);
	r->logdir = fd_dir(st->box, path, 0);
	return r->logdir < 0 ? -1 : ask_keeper(r);
}

struct running *run_begin(const struct state *st, const char *id, const struct command *cmd)
{
	struct running *r = xcalloc(1, sizeof(*r));

	*r = (struct running){
		.cmd = cmd,
		.ctl = -1,
		.logdir = -1,
		.pts = -1,
		.report = -1,
		.sigfd = -1,
		.pidfd = -1,
		.proc = -1,
		.in = {.pid1 = -1, .slot = CGROUP_INIT, .fd = {-1, -1, -1}},
		.tty = TTY_INIT,
	};
	for (int i = 0; i < STREAMS; i++)
		stream_init(&r->stream[i], -1, -1);
	if (!begin(r, st, id))
		return r;
	run_free(r);
	return NULL;
}

uint64_t run_seq(const struct running *r)
{
	return r->seq;
}

static int null_fd(void)
{
	int fd = openat(AT_FDCWD, "/dev/null", O_RDWR | O_CLOEXEC);

	return fd < 0 ? fail("cannot open '/dev/null'") : fd;
}

/* A pipe whose end on our side does not block; INSIDE is the other end's place in it. */
static int make_pipe(int ends[2], int inside)
{
	if (pipe2(ends, O_CLOEXEC) < 0)
		return fail("cannot make a pipe");
	/* Not O_NONBLOCK for both: the command's end is its own. */
	fcntl(ends[!inside], F_SETFL, O_NONBLOCK);
	return 0;
}

static void set_log(struct running *r, int i, const char *suffix)
{
	struct stream *s = &r->stream[i];

	s->logdir = r->logdir;
	s->keep = r->cmd->max_output;
	s->prefix = r->cmd->prefix;
	snprintf(s->logname, sizeof(s->logname), "%llu.%s", (unsigned long long)r->seq, suffix);
}

static int connect_pipes(struct running *r)
{
	const int to[STREAMS] = {-1, r->cmd->out, r->cmd->err};
	int p[2];

	if (r->cmd->in < 0) {
		r->in.fd[IN] = null_fd();
		if (r->in.fd[IN] < 0)
			return -1;
	} else {
		if (make_pipe(p, 0) < 0)
			return -1;
		r->in.fd[IN] = p[0];
		stream_init(&r->stream[IN], r->cmd->in, p[1]);
		r->stream[IN].own_to = 1;
	}
	for (int i = OUT; i <= ERR; i++) {
		if (make_pipe(p, 1) < 0)
			return -1;
		r->in.fd[i] = p[1];
		stream_init(&r->stream[i], p[0], to[i]);
		r->stream[i].own_from = 1;
		set_log(r, i, i == OUT ? "out" : "err");
	}
	return 0;
}

static int connect_tty(struct running *r)
{
	int slave = tty_open(&r->tty, r->pts, r->cmd->in);

	if (slave < 0)
		return -1;
	for (int i = 0; i < STREAMS; i++)
		r->in.fd[i] = i ? fcntl(slave, F_DUPFD_CLOEXEC, 3) : slave;
	r->in.tty = 1;
	if (r->cmd->in >= 0)
		stream_init(&r->stream[IN], r->cmd->in, r->tty.master);
	stream_init(&r->stream[OUT], r->tty.master, r->cmd->out);
	set_log(r, OUT, "out");
	return 0;
}

static int start(struct running *r)
{
	const int entered = CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC |
			    CLONE_NEWUTS | CLONE_NEWCGROUP;
	int report[2];

	if ((r->cmd->tty ? connect_tty(r) : connect_pipes(r)) < 0)
		return -1;
	if (pipe2(report, O_CLOEXEC) < 0)
		return fail("cannot make a pipe");
	r->report = report[0];
	r->in.report = report[1];
	r->proc = openat(AT_FDCWD, "/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	cgroup_reset_peak(&r->in.slot);
	cgroup_usage(&r->in.slot, &r->before);
	/* From its first moment the child can be looked at from inside: by then it must be in the
	 * box's namespaces, or /proc/PID/mountinfo and /proc/PID/net show the node's. We go with it;
	 * what is left for us to do is done by descriptors. */
	if (ns_enter(r->in.pid1, entered, "namespaces") < 0) {
		close(report[1]);
		return fail_as(EX_GONE, "box '%s' has ended", r->spec.id);
	}
	r->start_us = num_mono_us();
	r->pid = ns_clone(0, &r->pidfd, r->in.slot.v2);
	if (r->pid == 0)
		inside_run(&r->in);
	close(report[1]);
	for (int i = 0; i < STREAMS; i++)
		fd_close(&r->in.fd[i]);
	if (r->pid < 0 && (errno == ENOMEM || errno == ENODEV)) /* its pid namespace is ending */
		return fail_as(EX_GONE, "box '%s' has ended", r->spec.id);
	if (r->pid < 0 && errno == EAGAIN)
		return failx("box '%s' has reached its limit of tasks", r->spec.id);
	return r->pid < 0 ? fail("cannot start a process in box '%s'", r->spec.id) : 0;
}

static void forward_signal(struct running *r)
{
	struct signalfd_siginfo si;

	if (read(r->sigfd, &si, sizeof(si)) != sizeof(si))
		return;
	if (si.ssi_signo == SIGWINCH)
		tty_resize(&r->tty);
	else if (kill(-r->pid, (int)si.ssi_signo) < 0) /* its own session's first process group */
		ns_pidfd_kill(r->pidfd, (int)si.ssi_signo); /* which it has not made yet */
}

/*
 * Keeps the streams moving until the command itself has ended, or should have: a thread of it that a
 * tracer holds keeps the pidfd from saying so.
 */
static void pump(struct running *r)
{
	uint64_t limit = r->cmd->timeout_ms ? r->start_us + r->cmd->timeout_ms * 1000 : 0;

	for (;;) {
		struct pollfd p[STREAMS + 3] = {{.fd = r->pidfd, .events = POLLIN},
						{.fd = r->sigfd, .events = POLLIN},
						{.fd = r->ctl, .events = 0}};
		uint64_t now = num_mono_us();
		int timeout = -1;

		if (limit && now >= limit) {
			if (r->timed_out)
				return;
			r->timed_out = 1;
			limit = now + HELD_US;
			cgroup_kill(&r->in.slot);
		}
		if (limit) {
			timeout = (int)((limit - now) / 1000 > 1000000 ? 1000000
								       : (limit - now) / 1000 + 1);
		}
		for (int i = 0; i < STREAMS; i++) {
			p[3 + i].fd = -1;
			p[3 + i].events = stream_wants(&r->stream[i], &p[3 + i].fd);
			if (!p[3 + i].events)
				p[3 + i].fd = -1;
		}
		if (poll(p, STREAMS + 3, timeout) < 0 && errno != EINTR)
			usleep(10000); /* no memory for poll itself */
		for (int i = 0; i < STREAMS; i++)
			if (p[3 + i].revents)
				stream_move(&r->stream[i]);
		if (r->cmd->tty && r->stream[IN].eof)
			tty_eof(&r->tty, &r->stream[IN]);
		if (p[1].revents)
			forward_signal(r);
		if (p[0].revents)
			return;
	}
}

static void judge(struct running *r, const siginfo_t *si, struct outcome *o)
{
	struct cgroup_usage u;

	cgroup_usage(&r->in.slot, &u);
	o->seq = r->seq;
	o->wall_ms = (num_mono_us() - r->start_us) / 1000;
	o->cpu_ms = u.cpu_ms - r->before.cpu_ms;
	o->mem_peak = u.mem_peak;
	o->stdout_bytes = r->stream[OUT].bytes;
	o->stderr_bytes = r->stream[ERR].bytes;
	o->truncated = r->stream[OUT].truncated || r->stream[ERR].truncated;
	if (si->si_code == CLD_EXITED)
		o->code = si->si_status;
	else
		o->signal = si->si_status;
	o->end = o->signal ? END_SIGNAL : END_EXIT;
	if (u.oom_kills > r->before.oom_kills)
		o->end = END_OOM;
	if (r->timed_out)
		o->end = END_TIMEOUT;
}

/* The command that could not be run says so where its own errors would go. */
static int read_report(struct running *r, struct outcome *o)
{
	char text[1200];
	ssize_t n = fd_read_all(r->report, text, sizeof(text) - 1);
	char *msg;
	long code;

	if (n <= 0)
		return 0;
	text[n] = 0;
	code = strtol(text, &msg, 10);
	if (code == EX_SBX)
		failx("%s", msg + (*msg == ' '));
	else if (r->cmd->err >= 0)
		dprintf(r->cmd->err, "%s: %s\n", prog, msg + (*msg == ' '));
	o->code = (int)code;
	return code == EX_SBX ? -1 : 0;
}

static void tell_keeper(struct running *r, struct outcome *o)
{
	int drains[PROTO_DRAINS], n = 0, fds[SOCK_FDS], nfds = 0;
	autobuf b = BUF_INIT;
	autokv answer = {0};

	kv_put_line(&b, "op", "end");
	kv_put_line(&b, "end", outcome_end_name(o->end));
	kv_put_num(&b, "code", (uint64_t)o->code);
	kv_put_num(&b, "signal", (uint64_t)o->signal);
	kv_put_num(&b, "wall_ms", o->wall_ms);
	kv_put_num(&b, "cpu_ms", o->cpu_ms);
	kv_put_num(&b, "mem_peak", o->mem_peak);
	kv_put_num(&b, "stdout_bytes", o->stdout_bytes);
	kv_put_num(&b, "stderr_bytes", o->stderr_bytes);
	kv_put_num(&b, "truncated", (uint64_t)o->truncated);
	/* What the command left in the background may go on writing to its pipes: the keeper reads
	 * them, or the next write would kill it. */
	for (int i = OUT; !r->cmd->tty && i <= ERR; i++)
		if (r->stream[i].from >= 0 && !r->stream[i].eof)
			drains[n++] = r->stream[i].from;
	if (cgroup_populated(&r->in.slot) != 1)
		n = 0;
	if (sock_send(r->ctl, b.p, b.len, drains, n) < 0 ||
	    client_answer(r->ctl, &answer, fds, &nfds) < 0 || kv_get(&answer, "died"))
		o->end = o->end == END_TIMEOUT ? END_TIMEOUT : END_BOX_DIED;
}

static const int forwarded[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH};

static void forwarded_set(sigset_t *set)
{
	sigemptyset(set);
	for (size_t i = 0; i < sizeof(forwarded) / sizeof(forwarded[0]); i++)
		sigaddset(set, forwarded[i]);
}

/* What did not start has ended all the same: who waits for its number is told, and the log. */
static int not_started(struct running *r, struct outcome *o)
{
	autofree char *why = xstrdup(fail_text());
	int code = fail_code();

	o->seq = r->seq;
	o->code = EX_SBX;
	o->end = code == EX_GONE ? END_BOX_DIED : END_EXIT;
	tell_keeper(r, o);
	return fail_as(code, "%s", why);
}

static int run(struct running *r, struct outcome *o)
{
	siginfo_t si = {0};
	int failed;

	if (r->sigfd < 0)
		fail("cannot watch signals");
	if (r->sigfd < 0 || start(r) < 0)
		return not_started(r, o);
	pump(r);
	held_wait(r->proc, r->pid, r->in.slot.mem < 0, r->timed_out, &si);
	tty_restore(&r->tty);
	stream_last(&r->stream[OUT]);
	stream_last(&r->stream[ERR]);
	judge(r, &si, o);
	failed = read_report(r, o);
	tell_keeper(r, o);
	return failed;
}

int run_command(struct running *r, struct outcome *o)
{
	sigset_t set, old;
	int failed;

	memset(o, 0, sizeof(*o));
	/* Ignored, as we may have inherited it, it leaves no exit status: wait(2). */
	signal(SIGCHLD, SIG_DFL);
	forwarded_set(&set);
	sigprocmask(SIG_BLOCK, &set, &old);
	r->sigfd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	failed = run(r, o);
	/* The command is over and recorded: from here on a signal may end us. */
	sigprocmask(SIG_SETMASK, &old, NULL);
	stream_flush(&r->stream[OUT]);
	stream_flush(&r->stream[ERR]);
	o->lost = r->stream[OUT].lost ? r->stream[OUT].lost : r->stream[ERR].lost;
	run_free(r);
	return failed;
}
