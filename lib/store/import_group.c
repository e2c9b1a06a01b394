/*
 * Which of the source's layers make one of ours. Layers are taken in order into one tree and one blob,
 * a group; what a group did to the tree is written as a layer. Whether a layer joins a group depends on
 * what is below it alone, so images that begin with the same layers share ours of these.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/die.h"
#include "store/import.h"
#include "store/tree_ops.h"

int import_begin(struct import *im)
{
	im->tree = tree_new();
	im->data = stage_data(im->stage, im->tree);
	return im->data ? 0 : -1;
}

void import_free(struct import *im)
{
	int fd = im->data ? blob_close(im->data) : -1;

	if (fd >= 0)
		close(fd);
	tree_free(im->tree);
	tree_free(im->before);
	im->data = NULL;
	im->tree = im->before = NULL;
}

static int differs(void *arg, enum tree_change how, const char *path, const struct tree_inode *a,
		   const struct tree_inode *b)
{
	(void)arg, (void)how, (void)path, (void)a, (void)b;
	return 1;
}

/* 1 if the layer T, on top of BEFORE, would change nothing of what is now. */
static int is_empty(const struct import *im, const struct tree *t)
{
	struct tree *blank;
	int r;

	if (tree_root(t)->n)
		return 0;
	blank = im->before ? im->before : tree_new();
	r = !tree_compare(blank, im->tree, NULL, differs, NULL);
	if (!im->before)
		tree_free(blank);
	return r;
}

/* overlayfs refuses a layer that is there twice; the upper one hides all the lower has. */
static void add_digest(struct image *img, const char *digest)
{
	size_t n = 0;

	for (size_t i = 0; i < img->nlayers; i++)
		if (strcmp(img->layer[i], digest) != 0)
			memmove(img->layer[n++], img->layer[i], sizeof(*img->layer));
	img->layer = xrealloc(img->layer, (n + 1) * sizeof(*img->layer));
	memcpy(img->layer[n++], digest, sizeof(*img->layer));
	img->nlayers = n;
}

static int write_layer(struct import *im, struct import_config *c, struct tree *t)
{
	autolayer l = {.kind = xstrdup(c->kind), .source = xstrdup(im->source)};

	if (im->at) {
		l.at = xstrdup(im->at);
		if (tree_sink(t, im->at) < 0)
			return -1;
	}
	if (stage_layer(im->stage, t, &l) < 0)
		return -1;
	add_digest(&c->img, l.digest);
	return 0;
}

/* What the group did to the tree, as a layer; NULL: the tree itself, which then is not needed any more. */
static int own_tree(struct import *im, int last, struct tree **own)
{
	*own = NULL;
	if (im->before)
		*own = tree_delta(im->before, im->tree);
	else if (im->at && !last)
		*own = tree_copy(im->tree);
	else
		return 0;
	return *own ? 0 : -1;
}

/* 1 if a layer was written, 0 if it would have been empty. */
static int take_layer(struct import *im, struct import_config *c, int last)
{
	struct tree *own, *t;
	int r = 0;

	if (own_tree(im, last, &own) < 0)
		return -1;
	t = own ? own : im->tree;
	/* An image has at least one layer, even if nothing is in it. */
	if (!is_empty(im, t) || (last && !c->img.nlayers)) {
		r = write_layer(im, c, t) < 0 ? -1 : 1;
		tree_free(im->before);
		/* Only what something comes on top of is kept apart: one group needs no copy. */
		im->before = r < 0 || last ? NULL : tree_copy(im->tree);
		if (r > 0 && !last && !im->before)
			r = -1;
	}
	tree_free(own);
	return r;
}

static int end_group(struct import *im, struct import_config *c, int last)
{
	struct blob *data = im->data;
	int full = blob_bytes(data) > 0, r;

	/* A file that nothing was written to serves the next group. */
	if (full || last) {
		im->data = NULL;
		if (stage_data_end(im->stage, data) < 0)
			return -1;
	}
	r = take_layer(im, c, last);
	im->groups += full || r > 0;
	return r < 0 ? -1 : 0;
}

int import_next(struct import *im, struct import_config *c, uint64_t packed)
{
	uint64_t data = blob_bytes(im->data);

	tree_next_layer(im->tree);
	if (!im->begun || im->groups + 1 >= IMAGE_LAYERS ||
	    (data < im->collapse && packed < im->collapse - data)) {
		im->begun = 1;
		return 0;
	}
	if (end_group(im, c, 0) < 0)
		return -1;
	if (!im->data)
		im->data = stage_data(im->stage, im->tree);
	return im->data ? 0 : -1;
}

int import_end(struct import *im, struct import_config *c)
{
	return end_group(im, c, 1);
}
