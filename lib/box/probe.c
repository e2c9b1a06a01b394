#include "box/probe.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/die.h"
#include "base/fd.h"
#include "base/num.h"
#include "kern/mnt.h"

enum { ANSWER_MAX = 64 * 1024 };

typedef int probe_fn(const struct state *st, const void *what, struct buf *answer);

/* In the child: "+" and the answer, or "-" and the sentence. */
static void tell(int fd, int r, const struct buf *answer)
{
	autobuf b = BUF_INIT;

	buf_chr(&b, r < 0 ? '-' : '+');
	buf_str(&b, r < 0 ? fail_text() : buf_cstr(answer));
	(void)fd_write_all(fd, b.p, b.len);
}

/* All up to the end of the stream, or -1 when the time is over. */
static int hear(int fd, uint64_t timeout_ms, struct buf *b)
{
	uint64_t end = num_mono_us() + timeout_ms * 1000;
	ssize_t n = 1;

	while (n && b->len < ANSWER_MAX) {
		uint64_t now = num_mono_us();
		struct pollfd p = {.fd = fd, .events = POLLIN};

		if (now >= end || poll(&p, 1, (int)((end - now) / 1000 + 1)) < 0)
			return -1;
		if (!p.revents)
			continue;
		n = read(fd, buf_room(b, 4096), 4096);
		if (n < 0)
			return -1;
		b->len += (size_t)n;
		b->p[b->len] = 0;
	}
	return 0;
}

/*
 * One that waits for a server that does not answer may not even be killed before the server is
 * given up: it is left to whoever reaps orphans.
 */
static void leave(pid_t pid)
{
	kill(pid, SIGKILL);
	for (int i = 0; i < 20 && !waitpid(pid, NULL, WNOHANG); i++)
		usleep(1000);
}

/*
 * What is left behind must hold nothing of ours: neither a lock nor a pipe whose end somebody awaits.
 * A and B stay; one of them may be -1.
 */
static void close_others(int a, int b)
{
	unsigned lo = (unsigned)(a < b ? a : b), hi = (unsigned)(a < b ? b : a);

	if ((int)lo < 0)
		lo = hi;
	if (lo > 0)
		syscall(SYS_close_range, 0, lo - 1, 0);
	if (hi > lo + 1)
		syscall(SYS_close_range, lo + 1, hi - 1, 0);
	syscall(SYS_close_range, hi + 1, ~0u, 0);
}

static int run(const struct state *st, const char *depot, probe_fn *fn, const void *what,
	       struct buf *answer)
{
	uint64_t limit = st->conf.depot_timeout_ms;
	autobuf b = BUF_INIT;
	int p[2], r;
	pid_t pid;

	if (pipe2(p, O_CLOEXEC) < 0)
		return fail("cannot make a pipe");
	pid = fork();
	if (!pid) {
		autobuf mine = BUF_INIT;

		close_others(p[1], st->state);
		r = fn(st, what, &mine);
		tell(p[1], r, &mine);
		_exit(0);
	}
	close(p[1]);
	if (pid < 0) {
		close(p[0]);
		return fail("cannot start a process");
	}
	r = hear(p[0], limit < INT32_MAX ? limit : INT32_MAX, &b);
	close(p[0]);
	if (r < 0) {
		leave(pid);
		errno = ETIMEDOUT;
		return fail_as(EX_AGAIN, "depot '%s' does not answer", depot);
	}
	waitpid(pid, NULL, 0);
	if (b.len && b.p[0] == '+') {
		buf_add(answer, b.p + 1, b.len - 1);
		return 0;
	}
	errno = EIO;
	return fail_as(EX_AGAIN, "depot '%s': %s", depot,
		       b.len > 1 ? b.p + 1 : "what asked it died");
}

/* statfs asks the server where stat may be answered from what the client remembers (sshfs). */
static int look(const struct state *st, const void *what, struct buf *answer)
{
	struct statfs fs;

	(void)st;
	(void)answer;
	return statfs(what, &fs) < 0 && errno != ENOENT ? fail("cannot reach it") : 0;
}

int probe_depot(const struct conf *conf, const char *path)
{
	const struct state st = {.conf = *conf, .state = -1};
	autobuf none = BUF_INIT;

	return run(&st, path, look, path, &none);
}

static int look_blob(const struct state *st, const struct layer *l, size_t i, struct buf *answer)
{
	autofree char *path = layer_blob_path(st, l, i);
	autofd fd = layer_open_blob(st, l, i);
	struct mnt_file f;

	if (fd < 0)
		return -1;
	if (mnt_identify(fd, &f) < 0)
		return fail("cannot look at '%s'", path);
	buf_fmt(answer, "%s %llx:%llx:%llx\n", path, (unsigned long long)f.dev,
		(unsigned long long)f.ino, (unsigned long long)f.mount);
	return 0;
}

static int look_layer(const struct state *st, const void *what, struct buf *answer)
{
	const struct layer *l = what;

	if (look(st, l->depot, answer) < 0)
		return -1;
	for (size_t i = 0; i < l->ndev; i++)
		if (!layer_blob_here(st, l, i) && look_blob(st, l, i, answer) < 0)
			return -1;
	return 0;
}

int probe_remote(const struct state *st, const struct layer *l)
{
	for (size_t i = 0; *l->depot && i < l->ndev; i++)
		if (!layer_blob_here(st, l, i))
			return 1;
	return 0;
}

int probe_layer(const struct state *st, const struct layer *l, struct buf *ids)
{
	return probe_remote(st, l) ? run(st, l->depot, look_layer, l, ids) : 0;
}
