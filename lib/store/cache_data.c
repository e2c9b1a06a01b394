/* Bringing a fetched image's data here: all of it, or what a trace says. */
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
#include "base/kv.h"
#include "store/cache.h"
#include "store/depot_dir.h"
#include "store/digest.h"
#include "store/erofs_write.h"
#include "store/image_dir.h"
#include "store/stage.h"

enum {
	GRAIN = 16,	 /* blocks: what was read is rounded to it */
	SMALL = 64,	 /* blocks: of a file no longer than this all is brought */
	PIECE = 1 << 18, /* bytes */
};

static int copy_blob(const struct depot_job *job, struct stage *s, const struct layer *l, size_t i)
{
	autofree char *from = layer_blob_path(job->st, l, i);
	autofree char *to = xasprintf("data/%s", l->dev[i].sha);
	autofd fd = -1;

	/* The image may have it twice. */
	if (!faccessat(s->fd, to, F_OK, 0))
		return 0;
	fd = depot_create(s->fd, "data/new");
	if (fd < 0 ||
	    depot_copy_path(from, fd, l->dev[i].blocks * TREE_BLOCK, l->dev[i].sha, "data") < 0)
		return fail_more("layer '%.12s'", l->digest);
	if (fdatasync(fd) < 0 || renameat(s->fd, "data/new", s->fd, to) < 0)
		return fail("cannot write the image's data to disk");
	return 0;
}

static int copy_layer(struct depot_job *job, struct stage *s, const char *digest)
{
	autolayer l = {0};

	if (layer_load(job->st, digest, &l) < 0)
		return -1;
	for (size_t i = 0; i < l.ndev; i++) {
		if (layer_blob_here(job->st, &l, i))
			continue;
		if (copy_blob(job, s, &l, i) < 0)
			return -1;
		job->copied += l.dev[i].blocks * TREE_BLOCK;
	}
	return 0;
}

/* LAYER for each layer of the image, then what was staged is published. */
static int run(struct depot_job *job,
	       int (*layer)(struct depot_job *, struct stage *, const char *, void *), void *arg)
{
	struct stage s = {.fd = -1};
	struct image img;
	int r;

	if (image_load(job->st, job->ref, &img) < 0)
		return -1;
	memcpy(job->digest, img.digest, IMAGE_DIGEST + 1);
	r = stage_open(&s, job->st, job->unmount);
	for (size_t i = 0; !r && i < img.nlayers; i++)
		r = layer(job, &s, img.layer[i], arg);
	r = r ? r : stage_publish_cache(&s);
	image_free(&img);
	return stage_close(&s, r);
}

static int copy_one(struct depot_job *job, struct stage *s, const char *digest, void *arg)
{
	(void)arg;
	return copy_layer(job, s, digest);
}

int depot_cache(struct depot_job *job)
{
	return run(job, copy_one, NULL);
}

/* Blocks from LO to before HI of a file. */
struct want {
	struct tree_inode *ino;
	uint32_t lo, hi;
};

struct record {
	char layer[IMAGE_DIGEST + 1];
	char *path;
	uint64_t off, bytes;
};

struct trace {
	struct record *v;
	size_t n;
};

static int read_record(char *line, struct record *r)
{
	char *field[4], *end[2];

	for (int i = 0; i < 4; i++)
		if (!(field[i] = strsep(&line, "\t")))
			return -1;
	if (!sha_valid(field[0]) || field[1][0] != '/')
		return -1;
	memcpy(r->layer, field[0], IMAGE_DIGEST + 1);
	kv_unescape(field[1], strlen(field[1]));
	errno = 0;
	r->off = strtoull(field[2], &end[0], 10);
	r->bytes = strtoull(field[3], &end[1], 10);
	if (errno || *end[0] || *end[1] || r->off > INT64_MAX || r->bytes > INT64_MAX)
		return -1;
	r->path = xstrdup(field[1]);
	return 0;
}

static int read_trace(FILE *f, struct trace *t)
{
	autofree char *line = NULL;
	size_t room = 0, number = 0;
	ssize_t n;

	while ((n = getline(&line, &room, f)) >= 0) {
		number++;
		if (n && line[n - 1] == '\n')
			line[n - 1] = 0;
		if (!*line)
			continue;
		if (!(t->n & (t->n - 1)))
			t->v = xrealloc(t->v, (t->n ? t->n * 2 : 1) * sizeof(*t->v));
		if (read_record(line, &t->v[t->n]) < 0)
			return failx("line %zu is no record of a trace", number);
		t->n++;
	}
	return ferror(f) ? fail("cannot read the trace") : 0;
}

static void free_trace(struct trace *t)
{
	for (size_t i = 0; i < t->n; i++)
		free(t->v[i].path);
	free(t->v);
}

static int by_place(const void *a, const void *b)
{
	const struct want *x = a, *y = b;

	if (x->ino != y->ino)
		return x->ino < y->ino ? -1 : 1;
	return x->lo < y->lo ? -1 : x->lo > y->lo;
}

/* What the trace wants of this layer, in grains, sorted; a path that is none of its files is left out. */
static size_t wants(struct tree *t, const struct trace *tr, const char *digest, struct want *w)
{
	size_t n = 0;

	for (size_t i = 0; i < tr->n; i++) {
		const struct record *r = &tr->v[i];
		struct tree_inode *ino = strcmp(r->layer, digest) ? NULL : tree_lookup(t, r->path);
		uint64_t blocks, hi;

		if (!ino || !S_ISREG(ino->mode) || !r->bytes || r->off >= ino->size)
			continue;
		blocks = (ino->size + TREE_BLOCK - 1) / TREE_BLOCK;
		hi = (r->off + r->bytes + TREE_BLOCK - 1) / TREE_BLOCK;
		hi = (hi + GRAIN - 1) / GRAIN * GRAIN;
		w[n] = (struct want){ino, (uint32_t)(r->off / TREE_BLOCK / GRAIN * GRAIN),
				     (uint32_t)(hi < blocks ? hi : blocks)};
		if (blocks <= SMALL) {
			w[n].lo = 0;
			w[n].hi = (uint32_t)blocks;
		}
		n++;
	}
	qsort(w, n, sizeof(*w), by_place);
	return n;
}

struct bring {
	const struct depot_job *job;
	const struct layer *l; /* what the tree was read of: its devices are the blobs to read */
	int *blob;	       /* open ones, -1 before */
	int to;
	uint32_t blocks; /* written */
	EVP_MD_CTX *sha;
	char *piece;
};

static int open_blob(struct bring *b, uint32_t dev)
{
	if (b->blob[dev] < 0)
		b->blob[dev] = layer_open_blob(b->job->st, b->l, dev);
	return b->blob[dev];
}

static int copy_blocks(struct bring *b, uint32_t dev, uint32_t block, uint32_t n)
{
	uint64_t at = (uint64_t)block * TREE_BLOCK, left = (uint64_t)n * TREE_BLOCK;
	int from = open_blob(b, dev);

	for (size_t k; from >= 0 && left; left -= k, at += k) {
		k = left < PIECE ? (size_t)left : PIECE;
		if (pread(from, b->piece, k, (off_t)at) != (ssize_t)k)
			return fail("cannot read data '%s'", b->l->dev[dev].sha);
		EVP_DigestUpdate(b->sha, b->piece, k);
		if (fd_write_all(b->to, b->piece, k) < 0)
			return fail("cannot write the cached data");
	}
	b->blocks += n;
	return from < 0 ? -1 : 0;
}

/* E cut to the blocks from LO to before HI. */
static struct tree_extent cut(const struct tree_extent *e, uint32_t lo, uint32_t hi)
{
	return (struct tree_extent){
		.lblk = lo, .n = hi - lo, .dblk = e->dblk + (lo - e->lblk), .dev = e->dev};
}

enum { NEW = UINT32_MAX }; /* the device of what is brought, until its name is known */

/* The extents of INO anew: what lies in one of the N ranges W comes here. */
static int bring_file(struct bring *b, struct tree_inode *ino, const struct want *w, size_t n)
{
	struct tree_extent *old = ino->ext;
	uint32_t count = ino->n;
	int r = 0;

	ino->ext = NULL;
	ino->n = 0;
	for (uint32_t i = 0; !r && i < count; i++) {
		uint32_t at = old[i].lblk, end = old[i].lblk + old[i].n;

		for (size_t k = 0; !r && k < n && at < end; k++) {
			uint32_t lo = w[k].lo > at ? w[k].lo : at;
			uint32_t hi = w[k].hi < end ? w[k].hi : end;
			struct tree_extent e;

			if (lo >= hi || layer_blob_here(b->job->st, b->l, old[i].dev))
				continue;
			if (lo > at)
				tree_add_extent(ino, cut(&old[i], at, lo));
			e = cut(&old[i], lo, hi);
			at = hi;
			r = copy_blocks(b, e.dev, e.dblk, e.n);
			e.dblk = b->blocks - e.n;
			e.dev = NEW;
			tree_add_extent(ino, e);
		}
		if (at < end)
			tree_add_extent(ino, cut(&old[i], at, end));
	}
	free(old);
	return r;
}

/* Ranges of one file come one after the other; those that touch become one. */
static int bring_all(struct bring *b, struct want *w, size_t n)
{
	for (size_t i = 0; i < n;) {
		size_t first = i, m = i;

		while (++i < n && w[i].ino == w[first].ino)
			if (w[i].lo > w[m].hi)
				w[++m] = w[i];
			else if (w[i].hi > w[m].hi)
				w[m].hi = w[i].hi;
		if (bring_file(b, w[first].ino, w + first, m - first + 1) < 0)
			return -1;
	}
	return 0;
}

static void rename_new(const struct want *w, size_t n, uint32_t dev)
{
	for (size_t i = 0; i < n; i++)
		for (uint32_t k = 0; w[i].ino && k < w[i].ino->n; k++)
			if (w[i].ino->ext[k].dev == NEW)
				w[i].ino->ext[k].dev = dev;
}

/* The new blob gets its name, in the stage and in the tree. */
static int end_blob(struct bring *b, struct stage *s, struct tree *t, const struct want *w,
		    size_t n)
{
	char sha[65], to[SHA_HEX + 16];
	int64_t dev;

	if (sha_end(b->sha, sha) < 0)
		return -1;
	dev = tree_blob(t, sha, b->blocks);
	if (dev < 0)
		return -1;
	rename_new(w, n, (uint32_t)dev);
	snprintf(to, sizeof(to), "data/%s", sha);
	if (fdatasync(b->to) < 0 || renameat(s->fd, "data/new", s->fd, to) < 0)
		return fail("cannot write the cached data to disk");
	return 0;
}

static int bring_layer(struct depot_job *job, struct stage *s, const struct layer *l,
		       struct tree *t, const struct trace *trace)
{
	struct bring b = {.job = job, .l = l, .to = depot_create(s->fd, "data/new")};
	autofree struct want *w = xcalloc(trace->n + 1, sizeof(*w));
	size_t n = wants(t, trace, l->digest, w);
	int r = -1;

	b.blob = xcalloc(l->ndev + 1, sizeof(*b.blob));
	memset(b.blob, 0xff, (l->ndev + 1) * sizeof(*b.blob));
	b.piece = xmalloc(PIECE);
	b.sha = sha_new();
	if (b.to >= 0)
		r = bring_all(&b, w, n);
	if (!r && b.blocks)
		r = end_blob(&b, s, t, w, n);
	else if (!r)
		r = unlinkat(s->fd, "data/new", 0);
	job->copied += (uint64_t)b.blocks * TREE_BLOCK;
	for (size_t i = 0; i < l->ndev; i++)
		fd_close(&b.blob[i]);
	fd_close(&b.to);
	free(b.blob);
	free(b.piece);
	EVP_MD_CTX_free(b.sha);
	return r < 0 ? -1 : b.blocks != 0;
}

/* The tree of the derived metadata, or of the layer's own; L is what was read. */
static struct tree *read_layer(const struct state *st, const char *digest, struct layer *l)
{
	autofree char *path = NULL;
	struct tree *t;

	if (!layer_load_derived(st, digest, l)) {
		path = layer_derived_meta_path(st, digest);
	} else {
		if (errno != ENOENT || layer_load(st, digest, l) < 0)
			return NULL;
		path = layer_meta_path(st, l);
	}
	t = depot_read_tree(path, l);
	if (!t)
		fail_more("layer '%.12s'", digest);
	return t;
}

static int trace_layer(struct depot_job *job, struct stage *s, const char *digest, void *arg)
{
	autolayer l = {0}, out = {0};
	struct tree *t = read_layer(job->st, digest, &l);
	int r = t ? bring_layer(job, s, &l, t, arg) : -1;

	if (r > 0) {
		memcpy(out.digest, digest, IMAGE_DIGEST + 1);
		out.kind = xstrdup(l.kind);
		out.source = xstrdup(l.source);
		out.at = xstrdup(l.at);
		out.depot = xstrdup(l.depot);
		r = stage_cache(s, t, &out);
	}
	tree_free(t);
	return r < 0 ? -1 : 0;
}

int cache_trace(struct depot_job *job, FILE *in)
{
	struct trace t = {0};
	int r = read_trace(in, &t);

	r = r ? r : run(job, trace_layer, &t);
	free_trace(&t);
	return r;
}
