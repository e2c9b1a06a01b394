/*
 * Brings an image from a depot: its record, name and metadata come here, verified; its data stay
 * there and are read on demand. If it dies half-way, a directory in STATE/img/tmp is left, which the
 * next import or removal clears.
 */
#include <stdio.h>

#include "base/die.h"
#include "base/opt.h"
#include "box/probe.h"
#include "box/reach.h"
#include "kern/mnt.h"
#include "store/depot.h"

static const char *name;
static int move;

static const struct opt opts[] = {
	{0, "name", "NAME[:TAG]", OPT_STR, &name, "the image's name here (the one it has there)"},
	{0, "move", NULL, OPT_FLAG, &move, "read layers from this depot that another one has, too"},
	{0},
};

static const struct opt_tool tool = {
	.usage = "[--name NAME[:TAG]] [--move] IMAGE DEPOT",
	.purpose =
		"Brings an image from a depot, its data to be read on demand; prints its digest.",
	.opts = opts,
	.operands = -1,
	.operand = "IMAGE DIR",
};

int main(int argc, char **argv)
{
	int first = opt_parse(&tool, argc, argv);
	struct state st, depot;
	struct depot_job job = {
		.st = &st, .depot = &depot, .unmount = mnt_unmount, .probe = probe_layer};

	if (argc - first != 2)
		opt_misuse("needs an image and a depot");
	job.ref = argv[first];
	job.name = name;
	job.move = move;
	if (state_open(&st, 1) < 0 || reach_depot(&depot, &st.conf, argv[first + 1], 0) < 0 ||
	    depot_fetch(&job) < 0)
		die();
	puts(job.digest);
	return finish(stdout);
}
