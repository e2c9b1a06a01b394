/*
 * The layers of an image as one: a new layer's metadata and a record in STATE/img. The data stay where
 * they are. If it dies half-way, the next import or removal clears what it made.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/die.h"
#include "base/fd.h"
#include "base/opt.h"
#include "kern/mnt.h"
#include "store/image_tree.h"
#include "store/stage.h"

static int quiet;

static const struct opt opts[] = {
	{'q', "quiet", NULL, OPT_FLAG, &quiet, "no word of how many layers there were"},
	{0},
};

static const struct opt_tool tool = {
	.usage = "[-q] IMAGE NAME[:TAG]",
	.purpose =
		"Merge the layers of an image into one, which gets a name, and print its digest.\n"
		"No data are copied: the new layer refers to what the old ones do.",
	.opts = opts,
	.operands = -1,
	.operand = "IMAGE",
};

/* A layer can name one depot for what is not here; so all that lies on depots must lie on one. */
static int one_depot(const struct image_tree *it, struct layer *l)
{
	const char *depot = "";

	for (size_t i = 0; i < it->n; i++) {
		const char *d = it->layer[i].depot;

		if (*d && *depot && strcmp(d, depot) != 0)
			return failx("its data lie on two depots, '%s' and '%s'", depot, d);
		depot = *d ? d : depot;
	}
	l->depot = xstrdup(depot);
	return 0;
}

static int collapse(struct stage *s, struct image_tree *it, struct image *img, const char *source,
		    const char *ref)
{
	autolayer l = {0};

	l.kind = xstrdup("collapsed");
	l.source = xstrdup(source);
	l.at = xstrdup("");
	if (one_depot(it, &l) < 0 || image_tree_all(it) < 0 || stage_layer(s, it->tree, &l) < 0)
		return -1;
	memcpy(img->layer[0], l.digest, sizeof(l.digest));
	img->nlayers = 1;
	img->created_ms = 0;
	return stage_publish(s, img, ref);
}

int main(int argc, char **argv)
{
	char name[IMAGE_NAME + 1], tag[IMAGE_TAG + 1];
	int i = opt_parse(&tool, argc, argv), r;
	struct image_tree it;
	struct stage stage;
	struct image img;
	struct state st;
	size_t layers;

	if (argc - i != 2)
		opt_misuse("collapse takes an image and a name for the new one");
	if (image_split(argv[i + 1], name, tag) < 0 || state_open(&st, 0) < 0)
		die();
	if (stage_open(&stage, &st, mnt_unmount) < 0)
		stage_close(&stage, -1), die();
	r = image_load(&st, argv[i], &img);
	layers = img.nlayers;
	if (!r)
		r = stage_keep_layers(&stage, &img);
	if (!r) {
		r = image_tree_open(&it, &st, &img);
		if (!r)
			r = collapse(&stage, &it, &img, argv[i], argv[i + 1]);
		image_tree_close(&it);
	}
	r = stage_close(&stage, r);
	if (r < 0)
		fail_more("cannot collapse '%s'", argv[i]), die();
	if (!quiet)
		warnf("'%s' has one layer, made of %zu; its data are those of '%s'", argv[i + 1],
		      layers, argv[i]);
	puts(img.digest);
	image_free(&img);
	return finish(stdout);
}
