/*
 * Looks through a box for what gives answers away: histories, and what git repositories have beyond
 * their HEAD. Changes nothing, and leaves nothing behind if it dies. A program of its own because it
 * alone needs libgit2: sbx-snap --lint runs it.
 */
#include <stdio.h>

#include "base/die.h"
#include "base/id.h"
#include "base/opt.h"
#include "base/rec.h"
#include "box/lint.h"

static struct rec_opts out;
static uint64_t limit_ms = 60000;

static const struct opt opts[] = {
	{'t', "timeout", "DURATION", OPT_DURATION, &limit_ms, "give up after this time (60s)"},
	REC_OPTIONS(out),
	{0},
};

static const struct opt_tool tool = {
	.usage = "[option]... ID",
	.purpose = "Finds what gives answers away in a box.",
	.opts = opts,
	.operands = 1,
	.operand = "ID",
};

enum { KIND, PATH, COUNT, DETAIL };

static const struct rec_col cols[] = {
	{"kind", REC_TEXT, 0},	 {"path", REC_TEXT, 0}, {"count", REC_NUM, 0},
	{"detail", REC_TEXT, 0}, {NULL, REC_TEXT, 0},
};

static void print(void *arg, const struct lint_finding *f)
{
	struct rec *rec = arg;

	rec_text(rec, KIND, f->kind);
	rec_text(rec, PATH, f->path);
	rec_num(rec, COUNT, f->count);
	rec_text(rec, DETAIL, *f->detail ? f->detail : NULL);
	rec_end(rec);
}

int main(int argc, char **argv)
{
	int first = opt_parse(&tool, argc, argv), n, code;
	char id[ID_MAX + 1];
	struct state st;
	struct rec *rec;

	if (argc - first != 1)
		opt_misuse("one box is needed");
	if (!limit_ms)
		opt_misuse("a time limit is needed");
	rec = rec_open(stdout, cols, &out);
	if (!rec)
		die();
	if (state_open(&st, 0) < 0 || state_resolve(&st, argv[first], id) < 0)
		die();
	n = lint_box(&st, id, limit_ms, print, rec);
	code = n < 0 ? fail_code() : n > 0 ? EX_NO : 0;
	if (n < 0)
		warn();
	return rec_close(rec) ? EX_SBX : code;
}
