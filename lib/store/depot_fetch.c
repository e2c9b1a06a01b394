/*
 * From a depot onto a node. What the depot says of itself is not believed: every digest is reckoned
 * again from what was read, and metadata are looked through before the kernel sees them.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/die.h"
#include "base/fd.h"
#include "store/depot_dir.h"
#include "store/erofs_read.h"
#include "store/image_dir.h"
#include "store/stage.h"

enum { META_MAX = 1 << 30 };

/* The record under its own name. */
static int load_record(const struct depot_job *job, struct image *img)
{
	char want[IMAGE_DIGEST + 1];
	autobuf b = BUF_INIT;

	if (image_load(job->depot, job->ref, img) < 0)
		return fail_more("depot '%s'", job->depot->conf.state);
	memcpy(want, img->digest, sizeof(want));
	/* The digest covers the size, which is reckoned anew when the record is written here. */
	if (!image_sum_sizes(job->depot, img) && !image_record(img, &b) &&
	    !strcmp(want, img->digest))
		return 0;
	image_free(img);
	return failx("depot '%s': the record of image '%.12s' is damaged", job->depot->conf.state,
		     want);
}

static int copy_meta(void *arg, const struct layer *l, int meta)
{
	const struct depot_job *job = arg;
	autofree char *path = layer_meta_path(job->depot, l);
	struct tree *t;

	if (depot_copy_path(path, meta, l->meta_bytes, l->meta, "metadata") < 0)
		return -1;
	t = erofs_read(meta, l->dev, l->ndev);
	if (!t)
		return fail_more("metadata '%s'", path);
	tree_free(t);
	return 0;
}

static int all_here(const struct state *st, const struct layer *l)
{
	for (size_t i = 0; i < l->ndev; i++)
		if (!layer_blob_here(st, l, i))
			return 0;
	return 1;
}

/* The same, and they stay here: 1, 0, or -1 after fail(). */
static int keep_all(struct stage *s, const struct layer *l)
{
	for (size_t i = 0; i < l->ndev; i++) {
		char path[SHA_HEX + 8];
		int r;

		snprintf(path, sizeof(path), "data/%s", l->dev[i].sha);
		r = stage_keep(s, path);
		if (r <= 0)
			return r;
	}
	return 1;
}

/* 1: L's depot has what is not here, 0: it has not, or is gone; silent ones are not given up: -1. */
static int depot_serves(const struct depot_job *job, const struct layer *l)
{
	autobuf ids = BUF_INIT;

	if (!*l->depot)
		return 0;
	if (!job->probe(job->st, l, &ids))
		return 1;
	return errno == ETIMEDOUT ? fail_more("layer '%.12s' lies in another depot (take it from "
					      "this one with --move)",
					      l->digest)
				  : 0;
}

/*
 * The data are read from this depot from now on. What was derived refers to the other one: it goes
 * first, for without it a layer is read as its info says.
 */
static int move_to(const struct depot_job *job, struct stage *s, struct layer *l)
{
	autofd lock = image_lock(job->st);
	char path[IMAGE_DIGEST + 24];
	autobuf b = BUF_INIT;

	if (lock < 0)
		return -1;
	snprintf(path, sizeof(path), "img/cache/%s", l->digest);
	if (!renameat(job->st->state, path, s->fd, "old")) {
		if (fd_rmtree(s->fd, "old") < 0)
			return -1;
	} else if (errno != ENOENT) {
		return fail("cannot remove '%s'", path);
	}
	free(l->depot);
	l->depot = xstrdup(job->depot->conf.state);
	layer_info(l, &b);
	snprintf(path, sizeof(path), "img/layer/%s/info", l->digest);
	return fd_replace(job->st->state, path, b.p, b.len, 1);
}

/*
 * Images that are here rely on this layer: who writes another depot is not to be given their reads
 * because something that has the layer, too, is fetched from there.
 */
static int fetch_known(const struct depot_job *job, struct stage *s, struct layer *l)
{
	int r = 0;

	if (!strcmp(l->depot, job->depot->conf.state) || all_here(job->st, l))
		return 0;
	if (!job->move)
		r = depot_serves(job, l);
	return r ? (r < 0 ? -1 : 0) : move_to(job, s, l);
}

static int fetch_new(struct depot_job *job, struct stage *s, struct layer *l)
{
	int here;

	if (layer_check_digest(l) < 0)
		return failx("its info is damaged or is another's");
	if (l->meta_bytes > META_MAX)
		return failx("%llu bytes of metadata are too many",
			     (unsigned long long)l->meta_bytes);
	free(l->depot);
	l->depot = xstrdup(job->depot->conf.state);
	here = keep_all(s, l);
	if (here < 0)
		return -1;
	if (here)
		*l->depot = 0;
	return stage_copy_layer(s, l, copy_meta, job);
}

static int fetch_layer(struct depot_job *job, struct stage *s, const char *digest)
{
	autofree char *known = xasprintf("layer/%s", digest);
	autolayer l = {0};

	/* What is here is not to be removed before the image is. */
	if (stage_keep(s, known) < 0)
		return -1;
	if (!layer_load(job->st, digest, &l))
		return fetch_known(job, s, &l);
	if (errno != ENOENT)
		return -1;
	if (layer_load(job->depot, digest, &l) < 0)
		return fail_more("depot '%s'", job->depot->conf.state);
	if (fetch_new(job, s, &l) < 0)
		return fail_more("depot '%s': layer '%.12s'", job->depot->conf.state, digest);
	return 0;
}

static int fetch_all(struct depot_job *job, struct stage *s, struct image *img)
{
	char name[IMAGE_NAME + 1], tag[IMAGE_TAG + 1];
	int named;

	for (size_t i = 0; i < img->nlayers; i++)
		if (fetch_layer(job, s, img->layer[i]) < 0)
			return -1;
	named = image_name_of(job->depot, job->ref, job->name, name, tag);
	if (named < 0)
		return -1;
	if (stage_publish(s, img, !named ? NULL : job->name ? job->name : job->ref) < 0)
		return -1;
	memcpy(job->digest, img->digest, IMAGE_DIGEST + 1);
	return 0;
}

int depot_fetch(struct depot_job *job)
{
	struct stage s = {.fd = -1};
	struct image img;
	int r;

	if (load_record(job, &img) < 0)
		return -1;
	r = stage_open(&s, job->st, job->unmount) < 0 ? -1 : fetch_all(job, &s, &img);
	image_free(&img);
	return stage_close(&s, r);
}
