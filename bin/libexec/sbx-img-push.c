/*
 * Copies an image into a depot: reads the node's layers, verifies them on the way, writes DEPOT/img;
 * the name comes last. If it dies half-way, a directory in DEPOT/img/tmp is left, which a push a day
 * later clears; nobody can see half of an image.
 */
#include <stdio.h>

#include "base/die.h"
#include "base/opt.h"
#include "box/reach.h"
#include "kern/mnt.h"
#include "store/depot.h"

static const char *name;
static int plain, verbose;

static const struct opt opts[] = {
	{0, "name", "NAME[:TAG]", OPT_STR, &name, "the image's name there (the one it has here)"},
	{0, "no-dedup", NULL, OPT_FLAG, &plain, "copy layers as they are, share no files"},
	{'v', "verbose", NULL, OPT_FLAG, &verbose,
	 "say how much was copied and how much was there"},
	{0},
};

static const struct opt_tool tool = {
	.usage = "[--name NAME[:TAG]] [--no-dedup] [-v] IMAGE DEPOT",
	.purpose = "Copies an image into a depot; prints the digest it has there.",
	.opts = opts,
	.operands = -1,
	.operand = "IMAGE DIR",
};

int main(int argc, char **argv)
{
	int first = opt_parse(&tool, argc, argv);
	struct state st, depot;
	struct depot_job job = {.st = &st, .depot = &depot, .unmount = mnt_unmount};

	if (argc - first != 2)
		opt_misuse("needs an image and a depot");
	job.ref = argv[first];
	job.name = name;
	job.plain = plain;
	if (state_open(&st, 0) < 0 || reach_depot(&depot, &st.conf, argv[first + 1], 1) < 0 ||
	    depot_push(&job) < 0)
		die();
	if (verbose)
		warnf("%llu bytes of data copied, %llu were there", (unsigned long long)job.copied,
		      (unsigned long long)job.shared);
	puts(job.digest);
	return finish(stdout);
}
