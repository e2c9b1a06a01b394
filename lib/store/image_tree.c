#include "store/image_tree.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/die.h"
#include "base/fd.h"
#include "store/erofs_read.h"

enum { PIECE = 256 * 1024 };

struct tree *layer_tree(const struct state *st, const struct layer *l)
{
	autofree char *path = layer_meta_path(st, l);
	autofd fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	struct tree *t = fd < 0 ? NULL : erofs_read(fd, l->dev, l->ndev);

	if (fd < 0)
		fail("cannot open '%s'", path);
	else if (!t)
		fail_more("layer '%.12s'", l->digest);
	return t;
}

int image_tree_open(struct image_tree *it, const struct state *st, const struct image *img)
{
	*it = (struct image_tree){.st = st, .tree = tree_new()};
	it->layer = xcalloc(img->nlayers + 1, sizeof(*it->layer));
	for (size_t i = 0; i < IMAGE_TREE_FDS; i++)
		it->open[i].fd = -1;
	for (; it->n < img->nlayers; it->n++)
		if (layer_load(st, img->layer[it->n], &it->layer[it->n]) < 0)
			return -1;
	return 0;
}

int image_tree_next(struct image_tree *it)
{
	struct tree *t;
	int r;

	if (it->laid == it->n)
		return 0;
	t = layer_tree(it->st, &it->layer[it->laid]);
	if (t && !it->laid && tree_is_plain(t)) {
		tree_free(it->tree);
		it->tree = t;
		r = 0;
	} else {
		r = t ? tree_overlay(it->tree, t) : -1;
		tree_free(t);
	}
	it->laid++;
	return r < 0 ? -1 : 1;
}

int image_tree_all(struct image_tree *it)
{
	int r;

	while ((r = image_tree_next(it)) > 0)
		;
	return r;
}

void image_tree_close(struct image_tree *it)
{
	if (!it->tree)
		return;
	for (size_t i = 0; i < IMAGE_TREE_FDS; i++)
		fd_close(&it->open[i].fd);
	for (size_t i = 0; i < it->n; i++)
		layer_free(&it->layer[i]);
	free(it->layer);
	free(it->piece);
	tree_free(it->tree);
	*it = (struct image_tree){0};
}

/* A blob by the first layer that has it: an fd, or -1 after fail(). */
static int open_blob(const struct image_tree *it, const char *sha)
{
	for (size_t i = 0; i < it->n; i++)
		for (size_t k = 0; k < it->layer[i].ndev; k++)
			if (!strcmp(it->layer[i].dev[k].sha, sha))
				return layer_open_blob(it->st, &it->layer[i], k);
	return failx("no layer of the image refers to the data '%.12s'", sha);
}

static int blob_fd(struct image_tree *it, const char *sha)
{
	size_t i = (size_t)(sha[0] * 31 + sha[1] * 7 + sha[2]) % IMAGE_TREE_FDS;

	if (it->open[i].fd >= 0 && !strcmp(it->open[i].sha, sha))
		return it->open[i].fd;
	fd_close(&it->open[i].fd);
	it->open[i].fd = open_blob(it, sha);
	if (it->open[i].fd >= 0)
		memcpy(it->open[i].sha, sha, SHA_HEX + 1);
	return it->open[i].fd;
}

/* The first extent that ends behind block LBLK; NULL: a hole up to the end. */
static const struct tree_extent *extent_at(const struct tree_inode *ino, uint64_t lblk)
{
	uint32_t lo = 0, hi = ino->n;

	while (lo < hi) {
		uint32_t mid = lo + (hi - lo) / 2;

		if ((uint64_t)ino->ext[mid].lblk + ino->ext[mid].n <= lblk)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < ino->n ? &ino->ext[lo] : NULL;
}

/* At most N bytes at OFF, all of one extent or hole; its place in its blob, or -1 for a hole. */
static size_t run_at(const struct tree_inode *ino, uint64_t off, size_t n, int64_t *at,
		     uint32_t *dev)
{
	const struct tree_extent *e = extent_at(ino, off / TREE_BLOCK);
	uint64_t start = e ? (uint64_t)e->lblk * TREE_BLOCK : ino->size, end;

	*at = -1;
	if (!e || start > off) {
		end = start;
	} else {
		end = start + (uint64_t)e->n * TREE_BLOCK;
		*at = (int64_t)((uint64_t)e->dblk * TREE_BLOCK + (off - start));
		*dev = e->dev;
	}
	return end - off < n ? (size_t)(end - off) : n;
}

static int read_blob(struct image_tree *it, const char *sha, int64_t at, char *p, size_t n)
{
	int fd = blob_fd(it, sha);

	if (fd < 0)
		return -1;
	while (n) {
		ssize_t got = pread(fd, p, n, at);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return fail("cannot read the data '%.12s'", sha);
		if (!got)
			return failx("the data '%.12s' end too early", sha);
		p += got;
		at += got;
		n -= (size_t)got;
	}
	return 0;
}

ssize_t image_tree_read(struct image_tree *it, const struct tree *t, const struct tree_inode *ino,
			uint64_t off, void *p, size_t n)
{
	const struct tree_blob *blob;
	size_t done = 0, len;
	uint32_t count, dev = 0;
	int64_t at;

	blob = tree_blobs(t, &count);
	if (off >= ino->size)
		return 0;
	if (n > ino->size - off)
		n = (size_t)(ino->size - off);
	for (; done < n; done += len) {
		len = run_at(ino, off + done, n - done, &at, &dev);
		if (at < 0)
			memset((char *)p + done, 0, len);
		else if (read_blob(it, blob[dev].sha, at, (char *)p + done, len) < 0)
			return -1;
	}
	return (ssize_t)n;
}

/* Bytes at OFF that need no reading: of both files in the same place, or in holes of both. */
static size_t known_same(struct image_tree *a, const struct tree_inode *x, struct image_tree *b,
			 const struct tree_inode *y, uint64_t off)
{
	int64_t at, bt;
	uint32_t i = 0, k = 0, n;
	size_t len = run_at(x, off, SIZE_MAX, &at, &i), other = run_at(y, off, SIZE_MAX, &bt, &k);

	if (at != bt || (at >= 0 && strcmp(tree_blobs(a->tree, &n)[i].sha,
					   tree_blobs(b->tree, &n)[k].sha) != 0))
		return 0;
	return len < other ? len : other;
}

int image_tree_same(struct image_tree *a, const struct tree_inode *x, struct image_tree *b,
		    const struct tree_inode *y)
{
	uint64_t off = 0;
	char *p, *q;

	a->piece = a->piece ? a->piece : xmalloc(PIECE);
	b->piece = b->piece ? b->piece : xmalloc(PIECE);
	p = a->piece;
	q = b->piece;
	if (x->size != y->size)
		return 0;
	while (off < x->size) {
		size_t skip = known_same(a, x, b, y, off);
		ssize_t n, m;

		if (skip) {
			off += skip;
			continue;
		}
		n = image_tree_read(a, a->tree, x, off, p, PIECE);
		m = n < 0 ? -1 : image_tree_read(b, b->tree, y, off, q, PIECE);
		if (n < 0 || m < 0)
			return -1;
		if (n != m || memcmp(p, q, (size_t)n) != 0)
			return 0;
		off += (uint64_t)n;
	}
	return 1;
}
