/*
 * Copies data of a fetched image onto this node: all, or what a trace says that boxes read. If it
 * dies half-way, a directory in STATE/img/tmp is left, which the next import or removal clears.
 */
#include <stdio.h>
#include <string.h>

#include "base/die.h"
#include "base/opt.h"
#include "box/node.h"
#include "box/probe.h"
#include "kern/mnt.h"
#include "store/cache.h"

static const char *from_trace;
static int verbose;

static const struct opt opts[] = {
	{0, "from-trace", "FILE", OPT_STR, &from_trace,
	 "only what these records of sbx-img trace name; - is standard input"},
	{'v', "verbose", NULL, OPT_FLAG, &verbose, "say how much was copied"},
	{0},
};

static const struct opt_tool tool = {
	.usage = "[--from-trace FILE] [-v] IMAGE",
	.purpose = "Copies the data of a fetched image onto this node.",
	.opts = opts,
	.operands = -1,
	.operand = "IMAGE",
};

/* A depot that is silent is told at once, not waited for. */
static void check_depots(const struct state *st, const struct image *img)
{
	for (size_t i = 0; i < img->nlayers; i++) {
		autolayer l = {0};
		autobuf ids = BUF_INIT;

		if (layer_load(st, img->layer[i], &l) < 0 || probe_layer(st, &l, &ids) < 0)
			die();
	}
}

static int cache(struct depot_job *job)
{
	int in = from_trace && !strcmp(from_trace, "-");
	FILE *f = !from_trace ? NULL : in ? stdin : fopen(from_trace, "re");
	int r;

	if (from_trace && !f)
		return fail("cannot open '%s'", from_trace);
	r = f ? cache_trace(job, f) : depot_cache(job);
	if (f && !in)
		fclose(f);
	return r;
}

int main(int argc, char **argv)
{
	int first = opt_parse(&tool, argc, argv);
	struct state st;
	struct depot_job job = {.st = &st, .unmount = mnt_unmount};
	struct image img;

	if (argc - first != 1)
		opt_misuse("needs an image");
	job.ref = argv[first];
	if (state_open(&st, 0) < 0 || image_load(&st, job.ref, &img) < 0)
		die();
	check_depots(&st, &img);
	if (cache(&job) < 0)
		die();
	/* Boxes made from now on read what is here. */
	for (size_t i = 0; i < img.nlayers; i++)
		if (node_renew_layer(&st, img.layer[i]) < 0)
			die();
	if (verbose)
		warnf("%llu bytes of data copied", (unsigned long long)job.copied);
	image_free(&img);
	return finish(stdout);
}
