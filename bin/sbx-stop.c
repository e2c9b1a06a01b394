/*
 * sbx-stop: ends boxes and removes everything of them: processes, groups, slot, name, files, log.
 * All are asked to end first and then waited for, so many end side by side. If it dies half-way,
 * running it again, or sbx-reap, goes on where it was.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/die.h"
#include "base/opt.h"
#include "box/client.h"
#include "box/spec.h"

static int all, keep, quiet;
static struct opt_list labels;
static uint64_t timeout_ms = 30000;

static const struct opt opts[] = {
	{0, "all", NULL, OPT_FLAG, &all,
	 "all boxes of this node (with -l: those that have the labels)"},
	{'l', "label", "K=V", OPT_LIST, &labels, "with --all: only boxes with this label"},
	{0, "keep", NULL, OPT_FLAG, &keep, "end them, but leave files and log for sbx-reap"},
	{'t', "timeout", "DURATION", OPT_DURATION, &timeout_ms,
	 "kill a box that has not ended after this time (30s)"},
	{'q', "quiet", NULL, OPT_FLAG, &quiet, "no message about boxes that do not exist"},
	{0},
};

static const struct opt_tool tool = {
	.usage = "ID...|-|--all [-l K=V]...",
	.purpose = "Ends boxes and removes all of them; '-' reads IDs from stdin.",
	.opts = opts,
	.operands = -1,
	.operand = "ID",
};

struct ending {
	char id[ID_MAX + 1];
	int ctl; /* the keeper's connection; -1: it has none */
};

/* This many connections at a time: below the usual limit of open files. */
enum { AT_ONCE = 256 };

static struct ending list[AT_ONCE];
static size_t n;
static int bad;

static void failed(void)
{
	warn();
	bad = 1;
}

static void end_all(const struct state *st)
{
	int wait_ms = timeout_ms < INT_MAX ? (int)timeout_ms : INT_MAX;

	for (size_t i = 0; i < n; i++) {
		struct ending *e = &list[i];

		/* A keeper that is stuck: the end of the box is asked for, not an answer. */
		if (e->ctl >= 0 && box_stop_wait(e->ctl, e->id, wait_ms) < 0)
			box_kill(st, e->id);
		if (!keep && box_remove_wait(st, e->id) < 0)
			failed();
	}
	n = 0;
}

static void begin(const struct state *st, const char *id)
{
	struct ending *e;

	if (n == AT_ONCE)
		end_all(st);
	e = &list[n++];
	snprintf(e->id, sizeof(e->id), "%s", id);
	e->ctl = box_stop_begin(st, id, "stopped");
}

static void begin_word(const struct state *st, const char *word)
{
	char id[ID_MAX + 1];

	if (!state_resolve(st, word, id))
		begin(st, id);
	else if (fail_code() != EX_GONE || !quiet)
		failed();
}

static void begin_stdin(const struct state *st)
{
	const char *word;

	while ((word = id_read(stdin)))
		begin_word(st, word);
}

static int has_labels(const struct state *st, const char *id)
{
	autospec spec = {0};

	if (labels.n && spec_load(st, id, &spec) < 0)
		return 0;
	for (size_t i = 0; i < labels.n; i++)
		if (!spec_has_label(&spec, labels.v[i]))
			return 0;
	return 1;
}

static void begin_all(const struct state *st)
{
	struct state_iter *it = state_boxes(st);
	const char *id;
	int r = -1;

	while (it && (r = state_next(it, &id)) > 0)
		if (has_labels(st, id))
			begin(st, id);
	if (r < 0)
		die();
	state_end(it);
}

int main(int argc, char **argv)
{
	int first = opt_parse(&tool, argc, argv);
	struct state st;

	if (first == argc && !all)
		opt_misuse("needs boxes: ID..., - or --all");
	if (labels.n && !all)
		opt_misuse("--label goes with --all");
	if (state_open(&st, 0) < 0)
		die();
	if (all)
		begin_all(&st);
	for (int i = first; i < argc; i++) {
		if (!strcmp(argv[i], "-"))
			begin_stdin(&st);
		else
			begin_word(&st, argv[i]);
	}
	end_all(&st);
	return bad ? EX_NO : 0;
}
