/* From a node into a depot: data, layers, the record, and last the name. */
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
#include "store/depot_index.h"
#include "store/image_dir.h"
#include "store/stage.h"

struct push {
	struct depot_job *job;
	struct depot_tmp tmp;
	int named; /* 0: it has no name, neither here nor there */
	char name[IMAGE_NAME + 1], tag[IMAGE_TAG + 1];
};

static int push_blob(struct push *p, const struct layer *l, size_t i)
{
	const struct tree_blob *b = &l->dev[i];
	autofree char *from = layer_blob_path(p->job->st, l, i);
	uint64_t bytes = b->blocks * TREE_BLOCK;
	char to[SHA_HEX + 16];
	autofd in = -1, fd = -1;

	if (depot_has_blob(p->job->depot, b)) {
		p->job->shared += bytes;
		return 0;
	}
	in = layer_open_blob(p->job->st, l, i);
	fd = in < 0 ? -1 : depot_create(p->tmp.fd, "data");
	if (fd < 0 || depot_copy(in, fd, bytes, b->sha, "data", from) < 0 ||
	    depot_sync(fd, "data") < 0)
		return fail_more("layer '%.12s'", l->digest);
	snprintf(to, sizeof(to), "img/data/%s", b->sha);
	p->job->copied += bytes;
	return depot_publish(&p->tmp, "data", to);
}

/* The metadata from META, the info from L. */
static int push_layer_files(struct push *p, const struct layer *l, int meta)
{
	char to[IMAGE_DIGEST + 16];
	autobuf b = BUF_INIT;
	autofd dir = -1, copy = -1, info = -1;

	if (mkdirat(p->tmp.fd, "layer", 0755) < 0)
		return fail("cannot make a directory in '%s/img/tmp'", p->job->depot->conf.state);
	dir = fd_dir(p->tmp.fd, "layer", 0);
	copy = dir < 0 ? -1 : depot_create(dir, "meta");
	info = copy < 0 ? -1 : depot_create(dir, "info");
	if (info < 0 || depot_copy(meta, copy, l->meta_bytes, l->meta, "metadata", l->digest) < 0)
		return fail_more("layer '%.12s'", l->digest);
	layer_info_plain(l, &b);
	if (fd_write_all(info, b.p, b.len) < 0)
		return fail("cannot write the layer's info");
	if (depot_sync(copy, "metadata") < 0 || depot_sync(info, "the layer's info") < 0)
		return -1;
	snprintf(to, sizeof(to), "img/layer/%s", l->digest);
	return depot_publish(&p->tmp, "layer", to);
}

static int blobs_there(const struct push *p, const struct layer *l)
{
	for (size_t i = 0; i < l->ndev; i++)
		if (!depot_has_blob(p->job->depot, &l->dev[i]))
			return 0;
	return 1;
}

/* A layer that is there, with all its data. */
static int layer_there(const struct push *p, const char *digest)
{
	autolayer l = {0};

	return depot_has_layer(p->job->depot, digest) && !layer_load(p->job->depot, digest, &l) &&
	       blobs_there(p, &l);
}

/* What became of the layer when it was pushed before, by any node. 1 known, 0 not. */
static int pushed_as(const struct push *p, const char *digest, char as[IMAGE_DIGEST + 1])
{
	char path[IMAGE_DIGEST + 16];
	autobuf b = BUF_INIT;

	snprintf(path, sizeof(path), "img/from/%s", digest);
	if (fd_read_file(p->job->depot->state, path, IMAGE_DIGEST + 1, &b) < 0)
		return 0;
	if (b.len && b.p[b.len - 1] == '\n')
		b.p[--b.len] = 0;
	if (!sha_valid(buf_cstr(&b)))
		return 0;
	memcpy(as, b.p, IMAGE_DIGEST + 1);
	return layer_there(p, as);
}

static int push_as_is(struct push *p, const struct layer *l)
{
	autofree char *path = layer_meta_path(p->job->st, l);
	autofd meta = openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC);

	if (meta < 0)
		return fail("cannot open '%s'", path);
	for (size_t i = 0; i < l->ndev; i++)
		if (push_blob(p, l, i) < 0 ||
		    depot_index_layer(&p->tmp, p->job->st, l, l->dev[i].sha) < 0)
			return -1;
	return layer_there(p, l->digest) ? 0 : push_layer_files(p, l, meta);
}

static int push_shared(struct push *p, const struct layer *l, char digest[IMAGE_DIGEST + 1])
{
	char from[IMAGE_DIGEST + 16], line[IMAGE_DIGEST + 2];
	autolayer out = {0};
	autofd meta = -1;
	int r = depot_share(&p->tmp, p->job->st, l, &out, &p->job->copied, &p->job->shared);

	if (r <= 0)
		return r;
	meta = openat(p->tmp.fd, "meta", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (meta < 0)
		return fail("cannot open the new metadata");
	if (push_layer_files(p, &out, meta) < 0 || unlinkat(p->tmp.fd, "meta", 0) < 0)
		return -1;
	snprintf(from, sizeof(from), "img/from/%s", l->digest);
	snprintf(line, sizeof(line), "%s\n", out.digest);
	memcpy(digest, out.digest, IMAGE_DIGEST + 1);
	return depot_put(&p->tmp, from, line, strlen(line)) < 0 ? -1 : 1;
}

/* LAYER is its digest here, and becomes the one there. */
static int push_layer(struct push *p, char layer[IMAGE_DIGEST + 1])
{
	char as[IMAGE_DIGEST + 1];
	autolayer l = {0};
	int r = 0;

	if (layer_load(p->job->st, layer, &l) < 0)
		return -1;
	if (layer_check_digest(&l) < 0)
		return fail_more("layer '%.12s'", layer);
	if (layer_there(p, layer))
		return 0;
	if (!p->job->plain && pushed_as(p, layer, as)) {
		memcpy(layer, as, sizeof(as));
		return 0;
	}
	if (!p->job->plain)
		r = push_shared(p, &l, layer);
	return r ? (r < 0 ? -1 : 0) : push_as_is(p, &l);
}

static int push_record(struct push *p, struct image *img)
{
	char path[IMAGE_DIGEST + 16];
	autobuf b = BUF_INIT;

	if (image_sum_sizes(p->job->depot, img) < 0 || image_record(img, &b) < 0)
		return -1;
	memcpy(p->job->digest, img->digest, IMAGE_DIGEST + 1);
	snprintf(path, sizeof(path), "img/image/%s", img->digest);
	return faccessat(p->job->depot->state, path, F_OK, 0) ? depot_put(&p->tmp, path, b.p, b.len)
							      : 0;
}

static int push_name(struct push *p)
{
	const char *name = p->named ? p->name : IMAGE_NONE;
	char dir[IMAGE_PATH], path[IMAGE_PATH], text[IMAGE_DIGEST + 2];

	if (image_name_path(name, NULL, dir) < 0 ||
	    image_name_path(name, p->named ? p->tag : p->job->digest, path) < 0 ||
	    depot_mkdir(p->job->depot, dir) < 0)
		return -1;
	snprintf(text, sizeof(text), "%s\n", p->job->digest);
	return depot_put(&p->tmp, path, text, strlen(text));
}

static int push_all(struct push *p, struct image *img)
{
	for (size_t i = 0; i < img->nlayers; i++)
		if (push_layer(p, img->layer[i]) < 0)
			return -1;
	return push_record(p, img) < 0 ? -1 : push_name(p);
}

/*
 * What keeps an image keeps its layers and their data from any collection: no lock is held while they
 * are copied, which may take as long as the depot likes.
 */
static int load_kept(struct stage *s, const struct depot_job *job, struct image *img)
{
	autofree char *path = NULL;
	int r;

	if (image_load(job->st, job->ref, img) < 0)
		return -1;
	path = xasprintf("image/%s", img->digest);
	r = stage_keep(s, path);
	if (r == 1)
		return 0;
	image_free(img);
	return r < 0 ? -1 : failx("image '%s' was removed just now", job->ref);
}

static int push_kept(struct stage *s, struct push *p)
{
	struct image img;
	int r;

	if (load_kept(s, p->job, &img) < 0)
		return -1;
	p->named = image_name_of(p->job->st, p->job->ref, p->job->name, p->name, p->tag);
	r = p->named < 0 || depot_tmp_open(&p->tmp, p->job->depot) < 0 ? -1 : push_all(p, &img);
	image_free(&img);
	return depot_tmp_close(&p->tmp, r);
}

int depot_push(struct depot_job *job)
{
	struct push p = {.job = job, .tmp = {.dir = -1, .fd = -1}};
	struct stage s = {.fd = -1};
	int r = stage_open(&s, job->st, job->unmount) < 0 ? -1 : push_kept(&s, &p);

	return stage_close(&s, r);
}
