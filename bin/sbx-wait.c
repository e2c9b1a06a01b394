/*
 * sbx-wait: waits until boxes, or one command of a box, have ended. Reads the state directory and
 * asks the keepers to say when; changes nothing, leaves nothing.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/die.h"
#include "base/fd.h"
#include "base/num.h"
#include "base/opt.h"
#include "box/await.h"
#include "box/client.h"

static uint64_t timeout_ms, status_fd = UINT64_MAX;
static const char *status_file;

static const struct opt opts[] = {
	{'t', "timeout", "DURATION", OPT_DURATION, &timeout_ms,
	 "wait no longer than this; exit 124"},
	{0, "status", "FILE", OPT_STR, &status_file, "write how it ended there"},
	{0, "status-fd", "FD", OPT_COUNT, &status_fd, "write it to this descriptor"},
	{0},
};

static const struct opt_tool tool = {
	.usage = "[option]... ID [NUMBER] | ID... | -",
	.purpose =
		"Waits until boxes have ended, or command NUMBER of a box has; with '-' the IDs\n"
		"are read from stdin.",
	.opts = opts,
	.operands = -1,
	.operand = "ID",
};

struct wait {
	char id[ID_MAX + 1];
	int ctl; /* -1: it has ended */
	struct kv rec;
};

struct waits {
	struct wait *v;
	size_t n;
	int bad;
};

/* Opened before the wait: that it cannot be written should not be learnt at its end. */
static int open_status(void)
{
	int fd = -1;

	if (status_fd != UINT64_MAX) {
		fd = status_fd > INT_MAX ? -1 : fcntl((int)status_fd, F_DUPFD_CLOEXEC, 3);
		if (fd < 0)
			dief(EX_SBX, "--status-fd %llu is not open", (unsigned long long)status_fd);
	} else if (status_file) {
		fd = open(status_file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
		if (fd < 0)
			dief(EX_SBX, "cannot create '%s': %s", status_file, strerror(errno));
	}
	return fd;
}

static void put_status(int fd, const struct kv *rec, const char *const *keys)
{
	autobuf b = BUF_INIT;

	if (fd < 0)
		return;
	for (; *keys; keys++)
		if (kv_get(rec, *keys))
			buf_fmt(&b, "%s=%s\n", *keys, kv_get(rec, *keys));
	if (fd_write_all(fd, b.p, b.len) < 0 || close(fd) < 0)
		dief(EX_SBX, "cannot write the status record: %s", strerror(errno));
}

static int wait_command(const struct state *st, const char *id, uint64_t seq, uint64_t end_us)
{
	/* In the order of sbx-exec's status record. */
	static const char *const keys[] = {
		"end",		"code",		"signal",    "wall_ms", "cpu_ms", "mem_peak",
		"stdout_bytes", "stderr_bytes", "truncated", "seq",	NULL};
	int fd = open_status();
	autokv rec = {0};

	if (await_command(st, id, seq, end_us, &rec) < 0)
		die();
	put_status(fd, &rec, keys);
	if (!strcmp(kv_str(&rec, "end", ""), "client-gone"))
		warnf("command %llu was ended because its client went away",
		      (unsigned long long)seq);
	return await_exit_code(&rec);
}

/* Adds a box; one that has ended already needs no place. */
static void add(struct waits *w, const struct state *st, const char *word, uint64_t end_us)
{
	struct wait *one;

	w->v = xrealloc(w->v, (w->n + 1) * sizeof(*w->v));
	one = &w->v[w->n];
	memset(one, 0, sizeof(*one));
	one->ctl = -1;
	if (state_resolve(st, word, one->id) < 0) {
		warn();
		w->bad = fail_code();
		return;
	}
	w->n++;
	one->ctl = await_begin(st, one->id, 0, end_us);
	if (one->ctl >= 0 || fail_code() == EX_GONE)
		return;
	if (fail_code() == EX_TIMEOUT)
		die();
	warn();
	w->bad = fail_code();
}

static void add_from_stdin(struct waits *w, const struct state *st, uint64_t end_us)
{
	const char *word;

	while ((word = id_read(stdin)))
		add(w, st, word, end_us);
}

static void hear(struct waits *w, struct wait *one)
{
	int r = await_read(one->ctl, &one->rec);

	if (r > 0)
		return; /* how it ended; that it has is when the keeper goes too */
	if (r < 0) {
		warn();
		w->bad = fail_code();
	}
	fd_close(&one->ctl);
}

/* 0 when all have ended, EX_TIMEOUT when time is up. */
static int wait_all(struct waits *w, uint64_t end_us)
{
	struct pollfd *p = xcalloc(w->n + 1, sizeof(*p));

	for (;;) {
		uint64_t now = num_mono_us(), left = end_us > now ? (end_us - now) / 1000 + 1 : 0;
		size_t live = 0;

		for (size_t i = 0; i < w->n; i++) {
			p[i] = (struct pollfd){.fd = w->v[i].ctl, .events = POLLIN};
			live += w->v[i].ctl >= 0;
		}
		if (!live || (end_us && !left)) {
			free(p);
			if (live)
				warnf("%zu of %zu boxes %s not ended yet", live, w->n,
				      live > 1 ? "have" : "has");
			return live ? EX_TIMEOUT : 0;
		}
		if (poll(p, (nfds_t)w->n, !end_us ? -1 : left > 60000 ? 60000 : (int)left) < 0)
			continue;
		for (size_t i = 0; i < w->n; i++)
			if (w->v[i].ctl >= 0 && p[i].revents)
				hear(w, &w->v[i]);
	}
}

static void put_box_status(const struct state *st, const struct wait *one, int fd)
{
	static const char *const keys[] = {"cause",    "time_ms",   "signal", "cpu_ms",
					   "mem_peak", "oom_kills", NULL};
	autokv end = {0};

	/* Whoever stopped it may have removed its files by now: then what the keeper said counts. */
	box_end(st, one->id, &end);
	put_status(fd, kv_get(&one->rec, "cause") ? &one->rec : &end, keys);
}

static int wait_boxes(const struct state *st, int n, char **words, uint64_t end_us)
{
	struct waits w = {0};
	struct rlimit files;
	int fd = open_status(), r;

	/* One connection a box. */
	if (!getrlimit(RLIMIT_NOFILE, &files)) {
		files.rlim_cur = files.rlim_max;
		setrlimit(RLIMIT_NOFILE, &files);
	}
	for (int i = 0; i < n; i++)
		if (!strcmp(words[i], "-"))
			add_from_stdin(&w, st, end_us);
		else
			add(&w, st, words[i], end_us);
	r = wait_all(&w, end_us);
	if (!r && w.bad)
		r = n == 1 && strcmp(words[0], "-") != 0 ? w.bad : EX_NO;
	if (!r && w.n)
		put_box_status(st, &w.v[0], fd);
	return r;
}

int main(int argc, char **argv)
{
	char id[ID_MAX + 1];
	struct state st;
	int first = opt_parse(&tool, argc, argv), n = argc - first;
	uint64_t seq, end_us;

	if (!n)
		opt_misuse("needs a box: ID, or - to read IDs from stdin");
	if (state_open(&st, 0) < 0)
		die();
	end_us = timeout_ms ? num_mono_us() + timeout_ms * 1000 : 0;
	/* A whole ID has a dot in it: digits alone after one box are a command's number. */
	if (n == 2 && !num_u64("command", argv[first + 1], UINT64_MAX, &seq)) {
		if (!seq)
			opt_misuse("commands are numbered from 1");
		if (state_resolve(&st, argv[first], id) < 0)
			die();
		return wait_command(&st, id, seq, end_us);
	}
	if ((status_file || status_fd != UINT64_MAX) && (n > 1 || !strcmp(argv[first], "-")))
		opt_misuse("--status goes with one box only");
	return wait_boxes(&st, n, argv + first, end_us);
}
