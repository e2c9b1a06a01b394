/* Compares layers and their data with their digests. Reads all of them, changes nothing. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/die.h"
#include "base/opt.h"
#include "box/probe.h"
#include "box/reach.h"
#include "store/image.h"
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

/* Damage is what has to be told before all; then that something could not be looked at. */
static int worse(int a, int b)
{
	if (a == EX_NO || b == EX_NO)
		return EX_NO;
	return a ? a : b;
}

/* A depot that is not there is no damage: 0, or EX_AGAIN after fail_as(). */
static int reach(const struct state *st, const struct layer *l)
{
	autofree char *dir = xasprintf("%s/img/data", l->depot);
	size_t i = 0;

	while (i < l->ndev && layer_blob_here(st, l, i))
		i++;
	if (!*l->depot || i == l->ndev)
		return 0;
	if (probe_depot(&st->conf, l->depot) < 0)
		return fail_code();
	if (faccessat(AT_FDCWD, dir, F_OK, 0) < 0)
		return fail_as(EX_AGAIN, "depot '%s' is not there", l->depot), EX_AGAIN;
	return 0;
}

static int verify_one(struct verify *v, const struct state *st, const char *digest)
{
	autolayer l = {0};
	int code = layer_load(st, digest, &l) < 0 ? 0 : reach(st, &l);

	if (!code)
		return verify_layer(v, digest) ? EX_NO : 0;
	fail_more("layer '%.12s' cannot be verified", digest);
	warn();
	return code;
}

static int verify_image(struct verify *v, const struct state *st, const char *ref)
{
	struct image img;
	int code = 0;

	if (image_load(st, ref, &img) < 0) {
		warn();
		return EX_SBX;
	}
	for (size_t i = 0; i < img.nlayers; i++)
		code = worse(code, verify_one(v, st, img.layer[i]));
	image_free(&img);
	return code;
}

static int verify_all(struct verify *v, const struct state *st)
{
	char(*digest)[IMAGE_DIGEST + 1];
	size_t n;
	int code = 0;

	if (layer_list(st, &digest, &n) < 0)
		die();
	for (size_t i = 0; i < n; i++)
		code = worse(code, verify_one(v, st, digest[i]));
	free(digest);
	return code;
}

int main(int argc, char **argv)
{
	int first = opt_parse(&tool, argc, argv), code = 0;
	struct verify *v;
	struct state st;

	if (reach_images(&st, depot, 0) < 0)
		die();
	v = verify_open(&st, warn);
	if (first == argc)
		code = verify_all(v, &st);
	for (int i = first; i < argc; i++)
		code = worse(code, verify_image(v, &st, argv[i]));
	verify_close(v);
	return code;
}
