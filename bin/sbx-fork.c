/*
 * sbx-fork: makes boxes that begin as another one is now, and prints their IDs, each when its box can
 * run a command. They share one layer with what that box has changed. Reads and writes what sbx-snap and
 * sbx-create do. If it dies half-way, the boxes it has printed live on; the rest is cleared as theirs is.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/die.h"
#include "base/fd.h"
#include "base/opt.h"
#include "box/create_many.h"
#include "box/snapshot.h"
#include "kern/mnt.h"

static struct box_want want;
static uint64_t count = 1;
static int verbose;
static struct opt_list env, labels;

static const struct opt opts[] = {
	{'n', "count", "COUNT", OPT_COUNT, &count, "how many boxes (1)"},
	{0, "ttl", "DURATION", OPT_DURATION, &want.ttl_ms, "end them after this time"},
	{0, "idle", "DURATION", OPT_DURATION, &want.idle_ms,
	 "end them after this time without a command"},
	{'e', "env", "K=V", OPT_LIST, &env,
	 "more environment of their commands; K takes the caller's"},
	{'l', "label", "K=V", OPT_LIST, &labels, "label, beside or instead of the box's own"},
	{0, "name", "NAME", OPT_STR, &want.name, "a name beside the ID"},
	{0, "hostname", "NAME", OPT_STR, &want.hostname, "host name inside"},
	{'v', "verbose", NULL, OPT_FLAG, &verbose, "say how long the box was frozen"},
	{0},
};

static const struct opt_tool tool = {
	.usage = "[-n COUNT] [option]... ID",
	.purpose = "Makes boxes that begin as box ID is now; prints the ID of each.",
	.opts = opts,
	.operands = -1,
	.operand = "ID",
};

static void check(int operands)
{
	if (operands != 1)
		opt_misuse("needs one box: ID");
	if (create_check(&want, &labels, count) < 0)
		opt_misuse("%s", fail_text());
}

static void add(struct opt_list *list, const char *val)
{
	list->v = xrealloc(list->v, (list->n + 1) * sizeof(*list->v));
	list->v[list->n++] = val;
}

/* What was given to the box itself: its first env lines are its image's, and come with that again. */
static void take_env(const struct spec *spec, const struct image *img)
{
	size_t i = 0, skip = 0;
	const char *val;

	while (img->env[skip])
		skip++;
	while ((val = spec_next(spec, "env", &i)))
		if (skip)
			skip--;
		else
			add(&want.env, val);
	for (i = 0; i < env.n; i++)
		add(&want.env, env.v[i]);
}

static int is_relabelled(const char *label)
{
	size_t len = strcspn(label, "=") + 1;

	for (size_t i = 0; i < labels.n; i++)
		if (!strncmp(labels.v[i], label, len))
			return 1;
	return 0;
}

static void take_labels(const struct spec *spec)
{
	const char *val;
	size_t i = 0;

	while ((val = spec_next(spec, "label", &i)))
		if (!is_relabelled(val))
			add(&want.labels, val);
	for (i = 0; i < labels.n; i++)
		add(&want.labels, labels.v[i]);
}

/* The image has no name: enough of its digest for a person, and for sbx-create -i. */
static const char *short_ref(const struct image *img)
{
	static char ref[13];

	snprintf(ref, sizeof(ref), "%.12s", img->digest);
	return ref;
}

static void take_spec(const struct spec *spec, const struct image *img)
{
	want.parent = spec->id;
	want.user = spec->user;
	want.workdir = spec->workdir;
	want.net = spec->net;
	want.seccomp = spec->seccomp;
	want.no_new_privs = spec->no_new_privs;
	want.mem_bytes = spec->mem_bytes;
	want.pids = spec->pids;
	want.cpu_milli = spec->cpu_milli;
	want.ttl_ms = want.ttl_ms ? want.ttl_ms : spec->ttl_ms;
	want.idle_ms = want.idle_ms ? want.idle_ms : spec->idle_ms;
	want.max_output = spec->max_output;
	take_env(spec, img);
	take_labels(spec);
}

static int print_id(const char *id)
{
	return puts(id) >= 0 && !fflush(stdout)
		       ? 0
		       : fail("cannot print the ID of box '%s', it is removed", id);
}

/* The image has no name, so nothing but the stage keeps it until image_hold() does. */
static int make_boxes(const struct state *st, const struct spec *spec, const struct snapshot *s)
{
	struct create_many many = {.want = &want, .count = count, .told = print_id, .failed = warn};
	autofd hold = image_hold(st);
	struct compose from;

	take_spec(spec, &s->img);
	if (hold < 0 || compose_load(st, s->img.digest, NULL, NULL, 0, &from) < 0)
		return -1;
	from.part->ref = short_ref(&from.img);
	want.from = &from;
	return create_many(st, &many);
}

int main(int argc, char **argv)
{
	struct snapshot s = {0};
	char id[ID_MAX + 1];
	autospec spec = {0};
	struct state st;
	int first = opt_parse(&tool, argc, argv), r;

	check(argc - first);
	opt_env(&env);
	if (state_open(&st, 0) < 0 || state_resolve(&st, argv[first], id) < 0 ||
	    spec_load(&st, id, &spec) < 0 || box_admit(&st) < 0)
		die();
	r = snapshot_take(&st, &spec, &s);
	if (!r)
		r = stage_publish_held(&s.stage, &s.img);
	if (!r && verbose)
		warnf("box '%s' was frozen for %llu.%03llu ms", id,
		      (unsigned long long)s.frozen_us / 1000,
		      (unsigned long long)s.frozen_us % 1000);
	if (!r)
		r = make_boxes(&st, &spec, &s);
	r = snapshot_close(&s, r);
	if (r < 0)
		die();
	/* If there is no box of it, the image goes at once. */
	if (r && image_gc(&st, mnt_unmount) < 0)
		warn();
	return r ? r : finish(stdout);
}
