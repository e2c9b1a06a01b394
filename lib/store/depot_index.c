#include "store/depot_index.h"

#include <dirent.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/die.h"
#include "base/fd.h"
#include "store/digest.h"
#include "store/extents.h"
#include "store/image_dir.h"
#include "store/stage.h"

enum {
	PIECE = 1 << 18,
	SHARE_BLOBS = 31,	 /* that a layer borrows from: each is one more file to open */
	SHARE_MIN = 64,		 /* blocks that a blob must give to be worth that */
	INDEX_MAX = 16 << 20,	 /* bytes of one index */
	INDEX_TOTAL = 256 << 20, /* bytes of all that one push reads, the newest first */
};

struct entry {
	uint64_t hash;
	uint32_t block, n;
};

/* A run that the blob has at BLOCK. */
struct offer {
	uint32_t run, block;
};

struct cand {
	char sha[SHA_HEX + 1];
	struct offer *v;
	size_t n;
	uint64_t blocks; /* that nobody chosen before gives */
	int64_t mtime;
};

struct share {
	struct depot_tmp *t;
	struct tree *tree;
	struct runs runs;
	uint32_t *by_hash; /* indexes of runs */
	struct cand *cand;
	size_t ncand;
	int *blob; /* open local blobs, one for each device of L */
	const struct layer *l;
	char *piece, *other;
};

static int hash_run(int fd, struct run *r, char *piece)
{
	uint64_t at = (uint64_t)r->dblk * TREE_BLOCK, left = (uint64_t)r->n * TREE_BLOCK;
	EVP_MD_CTX *sha = sha_new();
	unsigned char raw[EVP_MAX_MD_SIZE];
	int ok = 1;

	while (left && ok) {
		size_t n = left < PIECE ? (size_t)left : PIECE;

		ok = pread(fd, piece, n, (off_t)at) == (ssize_t)n;
		EVP_DigestUpdate(sha, piece, n);
		at += n;
		left -= n;
	}
	ok = ok && EVP_DigestFinal_ex(sha, raw, NULL);
	EVP_MD_CTX_free(sha);
	if (!ok)
		return fail("cannot read the layer's data");
	memcpy(&r->hash, raw, sizeof(r->hash));
	return 0;
}

/* Opens the blobs, verified first, and hashes the runs. */
static int share_open(struct share *s, struct depot_tmp *t, const struct state *st,
		      const struct layer *l)
{
	autofree char *meta = layer_meta_path(st, l);

	*s = (struct share){.t = t, .l = l};
	s->blob = xcalloc(l->ndev + 1, sizeof(*s->blob));
	for (size_t i = 0; i < l->ndev; i++)
		s->blob[i] = -1;
	s->piece = xmalloc(PIECE);
	s->other = xmalloc(PIECE);
	s->tree = depot_read_tree(meta, l);
	if (!s->tree)
		return -1;
	for (size_t i = 0; i < l->ndev; i++) {
		autofree char *path = layer_blob_path(st, l, i);

		s->blob[i] = layer_open_blob(st, l, i);
		if (s->blob[i] < 0 || depot_copy(s->blob[i], -1, l->dev[i].blocks * TREE_BLOCK,
						 l->dev[i].sha, "data", path) < 0)
			return -1;
	}
	runs_of(s->tree, &s->runs);
	for (size_t i = 0; i < s->runs.n; i++)
		if (hash_run(s->blob[s->runs.v[i].dev], &s->runs.v[i], s->piece) < 0)
			return -1;
	return 0;
}

static void share_close(struct share *s)
{
	for (size_t i = 0; i < s->l->ndev; i++)
		fd_close(&s->blob[i]);
	for (size_t i = 0; i < s->ncand; i++)
		free(s->cand[i].v);
	free(s->cand);
	free(s->blob);
	free(s->piece);
	free(s->other);
	free(s->by_hash);
	runs_free(&s->runs);
	tree_free(s->tree);
}

static void put_entry(struct buf *b, const struct run *r, uint32_t block)
{
	const struct entry e = {r->hash, htole32(block), htole32(r->n)};

	buf_add(b, &e, sizeof(e));
}

static int put_index(struct depot_tmp *t, const char *sha, const struct buf *b)
{
	char path[SHA_HEX + 16];

	snprintf(path, sizeof(path), "img/index/%s", sha);
	return b->len ? depot_put(t, path, b->p, b->len) : 0;
}

int depot_index_layer(struct depot_tmp *t, const struct state *st, const struct layer *l,
		      const char *sha)
{
	char path[SHA_HEX + 16];
	struct share s;
	autobuf b = BUF_INIT;
	int r;

	snprintf(path, sizeof(path), "img/index/%s", sha);
	if (!faccessat(t->depot->state, path, F_OK, 0))
		return 0;
	r = share_open(&s, t, st, l);
	for (size_t i = 0; !r && i < s.runs.n; i++)
		if (!strcmp(l->dev[s.runs.v[i].dev].sha, sha))
			put_entry(&b, &s.runs.v[i], s.runs.v[i].dblk);
	share_close(&s);
	return r ? -1 : put_index(t, sha, &b);
}

static const struct runs *sorting; /* qsort has no argument */

static int by_hash(const void *a, const void *b)
{
	const struct run *x = &sorting->v[*(const uint32_t *)a];
	const struct run *y = &sorting->v[*(const uint32_t *)b];

	if (x->hash != y->hash)
		return x->hash < y->hash ? -1 : 1;
	return x->n < y->n ? -1 : x->n > y->n;
}

static void sort_runs(struct share *s)
{
	s->by_hash = xcalloc(s->runs.n + 1, sizeof(*s->by_hash));
	for (size_t i = 0; i < s->runs.n; i++)
		s->by_hash[i] = (uint32_t)i;
	sorting = &s->runs;
	qsort(s->by_hash, s->runs.n, sizeof(*s->by_hash), by_hash);
}

/* The first of the runs with that content in by_hash; runs.n if there is none. */
static size_t find(const struct share *s, const struct entry *e)
{
	size_t lo = 0, hi = s->runs.n;

	while (lo < hi) {
		size_t mid = (lo + hi) / 2;
		const struct run *r = &s->runs.v[s->by_hash[mid]];

		if (r->hash < e->hash || (r->hash == e->hash && r->n < le32toh(e->n)))
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static void take_offers(struct share *s, struct cand *c, const struct buf *b)
{
	for (size_t at = 0; at + sizeof(struct entry) <= b->len; at += sizeof(struct entry)) {
		struct entry e;

		memcpy(&e, b->p + at, sizeof(e));
		for (size_t i = find(s, &e); i < s->runs.n; i++) {
			const struct run *r = &s->runs.v[s->by_hash[i]];

			if (r->hash != e.hash || r->n != le32toh(e.n))
				break;
			if (!(c->n & (c->n - 1)))
				c->v = xrealloc(c->v, (c->n ? c->n * 2 : 1) * sizeof(*c->v));
			c->v[c->n++] = (struct offer){s->by_hash[i], le32toh(e.block)};
		}
	}
}

static int by_age(const void *a, const void *b)
{
	const struct cand *x = a, *y = b;

	return x->mtime > y->mtime ? -1 : x->mtime < y->mtime;
}

static int list_blobs(struct share *s)
{
	int fd = depot_dir(s->t->depot, "img/index");
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;
	struct stat sb;

	while (d && (e = readdir(d))) {
		if (!sha_valid(e->d_name) || fstatat(dirfd(d), e->d_name, &sb, 0) < 0)
			continue;
		if (!(s->ncand & (s->ncand - 1)))
			s->cand =
				xrealloc(s->cand, (s->ncand ? s->ncand * 2 : 1) * sizeof(*s->cand));
		s->cand[s->ncand] = (struct cand){.mtime = sb.st_mtime};
		memcpy(s->cand[s->ncand++].sha, e->d_name, SHA_HEX + 1);
	}
	if (d)
		closedir(d);
	else
		fd_close(&fd);
	if (s->ncand)
		qsort(s->cand, s->ncand, sizeof(*s->cand), by_age);
	return d ? 0 : fail_more("cannot look for shared files");
}

static int gather(struct share *s)
{
	size_t total = 0;

	if (list_blobs(s) < 0)
		return -1;
	sort_runs(s);
	for (size_t i = 0; i < s->ncand && total < INDEX_TOTAL; i++) {
		char path[SHA_HEX + 16];
		autobuf b = BUF_INIT;

		snprintf(path, sizeof(path), "img/index/%s", s->cand[i].sha);
		if (fd_read_file(s->t->depot->state, path, INDEX_MAX, &b) < 0)
			continue; /* one less to borrow from */
		take_offers(s, &s->cand[i], &b);
		total += b.len;
	}
	return 0;
}

enum { OWN = UINT32_MAX }; /* to_dev of a run that nobody gives */

static struct cand *best(struct share *s)
{
	struct cand *b = NULL;

	for (size_t i = 0; i < s->ncand; i++) {
		struct cand *c = &s->cand[i];

		c->blocks = 0;
		for (size_t k = 0; k < c->n; k++)
			if (s->runs.v[c->v[k].run].to_dev == OWN)
				c->blocks += s->runs.v[c->v[k].run].n;
		if (c->n && c->blocks >= SHARE_MIN && (!b || c->blocks > b->blocks))
			b = c;
	}
	return b;
}

static int same(struct share *s, const struct run *r, int fd, uint32_t block)
{
	uint64_t a = (uint64_t)r->dblk * TREE_BLOCK, b = (uint64_t)block * TREE_BLOCK;
	uint64_t left = (uint64_t)r->n * TREE_BLOCK;

	for (size_t n; left; left -= n, a += n, b += n) {
		n = left < PIECE ? (size_t)left : PIECE;
		if (pread(fd, s->other, n, (off_t)b) != (ssize_t)n ||
		    pread(s->blob[r->dev], s->piece, n, (off_t)a) != (ssize_t)n ||
		    memcmp(s->piece, s->other, n) != 0)
			return 0;
	}
	return 1;
}

/* Takes what C offers and indeed has; the blocks taken, or -1 after fail(). */
static int64_t borrow(struct share *s, struct cand *c)
{
	autofree char *path = xasprintf("img/data/%s", c->sha);
	autofd fd = fd_openat2(s->t->depot->state, path, O_RDONLY | O_NONBLOCK, 0,
			       RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV);
	int64_t blocks = 0, dev;
	struct stat sb;

	if (fd < 0 || fstat(fd, &sb) < 0 || !S_ISREG(sb.st_mode) || sb.st_size % TREE_BLOCK)
		return 0; /* an index that outlived its blob */
	dev = tree_blob(s->tree, c->sha, (uint64_t)sb.st_size / TREE_BLOCK);
	if (dev < 0)
		return -1;
	for (size_t i = 0; i < c->n; i++) {
		struct run *r = &s->runs.v[c->v[i].run];

		if (r->to_dev != OWN || !same(s, r, fd, c->v[i].block))
			continue;
		r->to_dev = (uint32_t)dev;
		r->to = c->v[i].block;
		blocks += r->n;
	}
	return blocks;
}

static int64_t borrow_all(struct share *s)
{
	int64_t total = 0, n;
	struct cand *c;

	for (size_t i = 0; i < s->runs.n; i++)
		s->runs.v[i].to_dev = OWN;
	for (int blobs = 0; blobs < SHARE_BLOBS && (c = best(s)); blobs++) {
		n = borrow(s, c);
		if (n < 0)
			return -1;
		c->n = 0;
		total += n;
	}
	return total;
}

static int copy_run(struct share *s, const struct run *r, int to, EVP_MD_CTX *sha)
{
	uint64_t at = (uint64_t)r->dblk * TREE_BLOCK, left = (uint64_t)r->n * TREE_BLOCK;

	for (size_t n; left; left -= n, at += n) {
		n = left < PIECE ? (size_t)left : PIECE;
		if (pread(s->blob[r->dev], s->piece, n, (off_t)at) != (ssize_t)n)
			return fail("cannot read the layer's data");
		EVP_DigestUpdate(sha, s->piece, n);
		if (fd_write_all(to, s->piece, n) < 0)
			return fail("cannot write to the depot");
	}
	return 0;
}

/* What nobody gives, one run after the other. BLOCKS: how many; SHA: of all of it. */
static int write_own(struct share *s, int fd, struct buf *index, uint32_t *blocks, char sha[65])
{
	EVP_MD_CTX *ctx = sha_new();
	int r = 0;

	*blocks = 0;
	for (size_t i = 0; !r && i < s->runs.n; i++) {
		struct run *run = &s->runs.v[i];

		if (run->to_dev != OWN)
			continue;
		r = copy_run(s, run, fd, ctx);
		run->to = *blocks;
		put_entry(index, run, *blocks);
		*blocks += run->n;
	}
	r = r ? r : sha_end(ctx, sha);
	EVP_MD_CTX_free(ctx);
	return r;
}

static int publish_own(struct share *s, uint64_t *copied)
{
	autofd fd = depot_create(s->t->fd, "data");
	autobuf index = BUF_INIT;
	char sha[65], to[SHA_HEX + 16];
	uint32_t blocks;
	int64_t dev;

	if (fd < 0 || write_own(s, fd, &index, &blocks, sha) < 0)
		return -1;
	if (!blocks)
		return unlinkat(s->t->fd, "data", 0) < 0 ? fail("cannot remove 'data'") : 0;
	dev = tree_blob(s->tree, sha, blocks);
	if (dev < 0 || depot_sync(fd, "data") < 0)
		return -1;
	for (size_t i = 0; i < s->runs.n; i++)
		if (s->runs.v[i].to_dev == OWN)
			s->runs.v[i].to_dev = (uint32_t)dev;
	snprintf(to, sizeof(to), "img/data/%s", sha);
	*copied += (uint64_t)blocks * TREE_BLOCK;
	return depot_publish(s->t, "data", to) < 0 ? -1 : put_index(s->t, sha, &index);
}

static int write_meta(struct share *s, struct layer *out)
{
	autofd fd = depot_create(s->t->fd, "meta");

	if (fd < 0 || layer_write_meta(fd, s->tree, out) < 0)
		return -1;
	layer_digest(out, out->digest);
	return 0;
}

static int share(struct share *s, struct layer *out, uint64_t *copied, uint64_t *shared)
{
	int64_t blocks = gather(s) < 0 ? -1 : borrow_all(s);

	if (blocks < SHARE_MIN)
		return blocks < 0 ? -1 : 0;
	if (publish_own(s, copied) < 0)
		return -1;
	*shared += (uint64_t)blocks * TREE_BLOCK;
	runs_apply(s->tree, &s->runs);
	out->kind = xstrdup(s->l->kind);
	out->source = xstrdup(s->l->source);
	out->at = xstrdup(s->l->at);
	out->depot = xstrdup("");
	if (write_meta(s, out) < 0)
		return -1;
	/* Of the blobs it borrows from, what it has itself. */
	out->data_bytes = 0;
	for (size_t i = 0; i < s->runs.n; i++)
		out->data_bytes += (uint64_t)s->runs.v[i].n * TREE_BLOCK;
	return 1;
}

int depot_share(struct depot_tmp *t, const struct state *st, const struct layer *l,
		struct layer *out, uint64_t *copied, uint64_t *shared)
{
	struct share s;
	int r = share_open(&s, t, st, l);

	if (!r)
		r = share(&s, out, copied, shared);
	share_close(&s);
	return r;
}
