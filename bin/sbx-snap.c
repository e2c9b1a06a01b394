/*
 * sbx-snap: makes an image of a box as it is now: its layers, and one more with what it has changed.
 * Reads STATE/box/ID/upper while the box is frozen; writes STATE/img. If it dies half-way, the box
 * goes on at once, and what it leaves in STATE/img/tmp goes with the next import, snapshot or
 * sbx-img gc.
 */
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/die.h"
#include "base/num.h"
#include "base/opt.h"
#include "base/rec.h"
#include "box/create.h"
#include "box/snapshot.h"

extern char **environ;

static const char *rules;
static int keep_all, lint, verbose;
static struct rec_opts out;

static const struct opt opts[] = {
	{0, "clean", "FILE", OPT_STR, &rules, "rules for what is left out (clean.rules)"},
	{0, "keep-all", NULL, OPT_FLAG, &keep_all, "leave nothing out"},
	{0, "lint", NULL, OPT_FLAG, &lint, "warn first of what gives answers away in the box"},
	{'v', "verbose", NULL, OPT_FLAG, &verbose, "say how long the box was frozen"},
	REC_OPTIONS(out),
	{0},
};

static const struct opt_tool tool = {
	.usage = "[option]... ID NAME[:TAG]",
	.purpose = "Makes an image of a box as it is now; prints the image's digest.",
	.opts = opts,
	.operands = -1,
	.operand = "ID IMAGE",
};

enum { DIGEST, LAYER, FROZEN, FILES, BYTES };

static const struct rec_col cols[] = {
	{"digest", REC_TEXT, 0}, {"layer", REC_TEXT, 1},  {"frozen_ms", REC_MS, 1},
	{"files", REC_NUM, 1},	 {"bytes", REC_BYTES, 1}, {NULL, REC_TEXT, 0},
};

/* What sbx-lint finds are warnings; that it could not look is a failure. */
static int run_lint(const struct state *st, const char *id)
{
	autofree char *path = xasprintf("%s/sbx-lint", st->conf.libexec), *line = NULL;
	char name[] = "sbx-lint", *argv[] = {name, (char *)id, NULL};
	posix_spawn_file_actions_t fa;
	int p[2], err, status = 0;
	size_t room = 0;
	ssize_t n;
	pid_t pid;
	FILE *f;

	if (pipe2(p, O_CLOEXEC) < 0 || !(f = fdopen(p[0], "r")))
		return fail("cannot make a pipe");
	posix_spawn_file_actions_init(&fa);
	posix_spawn_file_actions_adddup2(&fa, p[1], STDOUT_FILENO);
	err = posix_spawn(&pid, path, &fa, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&fa);
	close(p[1]);
	while (!err && (n = getline(&line, &room, f)) > 0)
		warnf("lint: %.*s", (int)n - (line[n - 1] == '\n'), line);
	fclose(f);
	errno = err;
	if (err || waitpid(pid, &status, 0) < 0)
		return fail("cannot run '%s'", path);
	if (WIFEXITED(status) && WEXITSTATUS(status) <= EX_NO)
		return 0;
	return failx("box '%s' could not be searched, no snapshot is made", id);
}

static int print(struct rec *r, const struct snapshot *s, const char *id)
{
	rec_text(r, DIGEST, s->img.digest);
	rec_text(r, LAYER, s->layer.digest);
	rec_num(r, FROZEN, (s->frozen_us + 999) / 1000);
	rec_num(r, FILES, s->layer.files);
	rec_num(r, BYTES, s->layer.data_bytes);
	rec_end(r);
	if (verbose)
		warnf("box '%s' was frozen for %llu.%03llu ms", id,
		      (unsigned long long)s->frozen_us / 1000,
		      (unsigned long long)s->frozen_us % 1000);
	return rec_close(r);
}

static void check(int operands, const char *ref)
{
	char name[IMAGE_NAME + 1], tag[IMAGE_TAG + 1];

	if (operands != 2)
		opt_misuse("needs a box and a name for the image: ID NAME[:TAG]");
	if (rules && keep_all)
		opt_misuse("--clean and --keep-all contradict each other");
	if (image_split(ref, name, tag) < 0)
		die();
	if (out.json && !out.cols)
		out.cols = "digest,layer,frozen_ms,files,bytes";
}

int main(int argc, char **argv)
{
	struct snapshot s = {0};
	struct clean *clean = NULL;
	char id[ID_MAX + 1];
	autospec spec = {0};
	struct state st;
	int first = opt_parse(&tool, argc, argv), r;
	const char *ref = argv[argc - 1];
	struct rec *rec;

	check(argc - first, ref);
	rec = rec_open(stdout, cols, &out);
	if (!rec || state_open(&st, 0) < 0 || state_resolve(&st, argv[first], id) < 0 ||
	    spec_load(&st, id, &spec) < 0 || (!keep_all && snapshot_rules(&st, rules, &clean) < 0))
		die();
	if (box_admit(&st) < 0 || (lint && run_lint(&st, id) < 0))
		die();
	s.clean = clean;
	r = snapshot_take(&st, &spec, &s);
	if (!r)
		r = stage_publish(&s.stage, &s.img, ref);
	if (!r)
		r = print(rec, &s, id);
	r = snapshot_close(&s, r);
	if (r < 0)
		die();
	return r;
}
