/* Compares layers and their data with their digests. Reads all of them, changes nothing. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/opt.h"
#include "box/probe.h"
#include "store/depot.h"
#include "store/verify.h"

static const char *depot;

static const struct opt opts[] = {
	{0, "depot", "DIR", OPT_STR, &depot, "of this depot, not of the node"},
	{0},
};

static const struct opt_tool tool = {
	.usage = "[--depot DIR] [IMAGE]...",
	.purpose =
		"Compares all layers, or those of images, with their digests; names what differs.",
	.opts = opts,
	.operands = -1,
	.operand = "IMAGE",
};

static void open_state(struct state *st)
{
	struct conf conf;

	if (!depot ? state_open(st, 0) < 0
		   : conf_load(&conf) < 0 || probe_depot(&conf, depot) < 0 ||
			     depot_open(st, &conf, depot, 0) < 0)
		die();
}

static int verify_image(struct verify *v, const struct state *st, const char *ref)
{
	struct image img;
	int bad = 0;

	if (image_load(st, ref, &img) < 0) {
		warn();
		return 1;
	}
	for (size_t i = 0; i < img.nlayers; i++)
		bad |= verify_layer(v, img.layer[i]);
	image_free(&img);
	return bad;
}

static int verify_all(struct verify *v, const struct state *st)
{
	char(*digest)[IMAGE_DIGEST + 1];
	size_t n;
	int bad = 0;

	if (layer_list(st, &digest, &n) < 0)
		die();
	for (size_t i = 0; i < n; i++)
		bad |= verify_layer(v, digest[i]);
	free(digest);
	return bad;
}

int main(int argc, char **argv)
{
	int first = opt_parse(&tool, argc, argv), bad = 0;
	struct verify *v;
	struct state st;

	open_state(&st);
	v = verify_open(&st, warn);
	if (first == argc)
		bad = verify_all(v, &st);
	for (int i = first; i < argc; i++)
		bad |= verify_image(v, &st, argv[i]);
	verify_close(v);
	return bad ? EX_NO : 0;
}
