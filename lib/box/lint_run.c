#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/die.h"
#include "base/fd.h"
#include "base/kv.h"
#include "box/copy_side.h"
#include "box/lint.h"
#include "box/lint_inside.h"
#include "box/runner.h"

/* How long the process inside may take to say that its time is over. */
enum { LOG_BYTES = 64 * 1024, LATE_MS = 2000, FAILED_MAX = 600 };

struct reader {
	const char *id;
	lint_found *found;
	void *arg;
	int n, failed;
	size_t len;
	char line[LINT_LINE];
};

/* To the reader, past what the process inside may have left as half a line. */
static int say_failed(int out)
{
	autobuf b = BUF_INIT;

	buf_chr(&b, '\n');
	kv_put_num(&b, "code", (uint64_t)fail_code());
	kv_put_bytes(&b, "failed", fail_text(), strnlen(fail_text(), FAILED_MAX));
	buf_chr(&b, '\n');
	return fd_write_all(out, b.p, b.len);
}

static int judge(const char *id, const struct outcome *o)
{
	if (o->end == END_TIMEOUT)
		return fail_as(EX_TIMEOUT, "box '%s' was not looked through within the time limit",
			       id);
	if (o->end == END_BOX_DIED)
		return fail_as(EX_GONE, "box '%s' has ended under the search", id);
	if (o->end == END_OOM)
		return failx("the search of box '%s' needs more memory than the box has", id);
	if (o->end == END_SIGNAL)
		return failx("the search of box '%s' was killed by signal %d", id, o->signal);
	return o->code ? failx("the search of box '%s' ended with status %d", id, o->code) : 0;
}

/* In a child, because a process that runs a command enters its box's namespaces. */
static void run(const struct state *st, const char *id, uint64_t limit_ms, int out)
{
	char name[] = "sbx-lint", *argv[] = {name, NULL};
	const struct command cmd = {
		.argv = argv,
		.user = "0",
		.cwd = "/",
		.timeout_ms = limit_ms + LATE_MS,
		.max_output = LOG_BYTES,
		.in = -1,
		.out = out,
		.err = -1,
		.call = lint_inside,
		.arg = &limit_ms,
	};
	struct running *r = run_begin(st, id, &cmd);
	struct outcome o;

	/* What the box might take over has nothing of the node to tell. */
	for (char **e = environ; *e; e++)
		explicit_bzero(*e, strlen(*e));
	if (!r || run_command(r, &o) < 0 || judge(id, &o) < 0)
		say_failed(out);
}

static int known(const char *kind)
{
	static const char *const kinds[] = {
		"git-unreachable", "git-ref", "git-reflog", "git-alternate",
		"history",	   "backup",  "core",	    "unchecked"};

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (!strcmp(kind, kinds[i]))
			return 1;
	return 0;
}

static int bad(struct reader *r)
{
	r->failed = 1;
	return failx("box '%s' gave a record that means nothing", r->id);
}

static int take_line(struct reader *r, const char *line, size_t n)
{
	autokv kv = {0};
	const char *text;

	if (!n)
		return 0;
	if (kv_parse_line(&kv, "record", line, n) < 0)
		return bad(r);
	text = kv_get(&kv, "failed");
	if (text) {
		r->failed = 1;
		return fail_as((int)(kv_u64(&kv, "code", EX_SBX) & 0xff), "%s", side_quote(text));
	}
	if (!known(kv_str(&kv, "kind", "")) || !kv_get(&kv, "path"))
		return bad(r);
	if (r->n == LINT_FINDINGS_MAX) {
		r->failed = 1;
		return failx("more than %d findings in box '%s'", LINT_FINDINGS_MAX, r->id);
	}
	r->n++;
	r->found(r->arg, &(struct lint_finding){.kind = kv_get(&kv, "kind"),
						.path = kv_get(&kv, "path"),
						.count = kv_u64(&kv, "count", 0),
						.detail = side_quote(kv_str(&kv, "detail", ""))});
	return 0;
}

/* All lines of what was read; half of one stays for the next read. */
static int take(struct reader *r)
{
	char *from = r->line, *end = r->line + r->len, *nl;

	while ((nl = memchr(from, '\n', (size_t)(end - from)))) {
		if (take_line(r, from, (size_t)(nl - from)) < 0)
			return -1;
		from = nl + 1;
	}
	r->len = (size_t)(end - from);
	if (r->len == sizeof(r->line))
		return bad(r);
	memmove(r->line, from, r->len);
	return 0;
}

static int read_records(struct reader *r, int fd)
{
	for (;;) {
		ssize_t k = read(fd, r->line + r->len, sizeof(r->line) - r->len);

		if (k < 0 && errno == EINTR)
			continue;
		if (k < 0)
			return fail("cannot read what was found");
		if (!k)
			return 0;
		r->len += (size_t)k;
		if (take(r) < 0)
			return -1;
	}
}

int lint_box(const struct state *st, const char *id, uint64_t limit_ms, lint_found *found,
	     void *arg)
{
	struct reader reader = {.id = id, .found = found, .arg = arg};
	pid_t parent = getpid(), pid;
	int p[2], status, r;

	if (lint_git_init() < 0)
		return -1;
	if (pipe2(p, O_CLOEXEC) < 0)
		return fail("cannot make a pipe");
	pid = fork();
	if (pid == 0) {
		close(p[0]);
		if (!prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) && getppid() == parent)
			run(st, id, limit_ms, p[1]);
		_exit(0);
	}
	close(p[1]);
	if (pid < 0) {
		close(p[0]);
		return fail("cannot start a process");
	}
	r = read_records(&reader, p[0]);
	/* With the process goes its connection, and the keeper then kills what it runs. */
	if (r < 0)
		kill(pid, SIGKILL);
	close(p[0]);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (r < 0)
		return -1;
	return status ? failx("the search of box '%s' was killed", id) : reader.n;
}
