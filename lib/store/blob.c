#include "store/blob.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/die.h"
#include "base/fd.h"
#include "store/digest.h"
#include "store/extents.h"

enum {
	HELD = 1 << 20,	      /* bytes gathered for one write */
	WRITEBACK = 8 << 20,  /* started early, so that the final sync is short */
	MAX_CHUNKS = 1 << 20, /* of one sparse file: its index takes 8 bytes each */
	BUCKETS = 1 << 14,
	FILLED = 1 << 30, /* bytes: zeros for holes that need no reason */
	ALIKE = 8,	  /* files of one hash that are compared with a new one */
};

/* A file that lies in the data, to be found again by its content. */
struct known {
	struct known *next;
	uint64_t hash;
	uint64_t size;
	uint32_t block;
};

struct blob {
	int fd;
	struct tree *tree;
	uint32_t dev; /* this file among the tree's blobs */
	EVP_MD_CTX *sha;
	char *held;
	size_t n;	  /* bytes held */
	uint64_t at;	  /* where they go: what is before is written and hashed */
	uint64_t started; /* write-back was started up to here */
	struct known *known[BUCKETS];
	/* the file being written */
	struct tree_inode *ino;
	uint64_t size;
	uint64_t grain;	 /* bytes: a hole is kept only in multiples of it */
	uint64_t cur;	 /* next offset in the file */
	uint64_t open;	 /* offset at which the current extent began */
	uint64_t begin;	 /* where in the data that is */
	uint64_t filled; /* zeros written in place of holes, all files together */
};

struct blob *blob_open(int fd, struct tree *t)
{
	int64_t dev = tree_blob(t, "", 0);
	struct blob *d;

	if (dev < 0)
		return NULL;
	d = xcalloc(1, sizeof(*d));
	d->fd = fd;
	d->tree = t;
	d->dev = (uint32_t)dev;
	d->held = xmalloc(HELD);
	d->sha = sha_new();
	return d;
}

int blob_close(struct blob *d)
{
	int fd;

	if (!d)
		return -1;
	fd = d->fd;
	for (size_t i = 0; i < BUCKETS; i++)
		for (struct known *k = d->known[i], *next; k; k = next) {
			next = k->next;
			free(k);
		}
	EVP_MD_CTX_free(d->sha);
	free(d->held);
	free(d);
	return fd;
}

uint64_t blob_bytes(const struct blob *d)
{
	return d->at + d->n;
}

static int flush(struct blob *d)
{
	if (!d->n)
		return 0;
	if (fd_write_all(d->fd, d->held, d->n) < 0)
		return fail("cannot write the image's data");
	EVP_DigestUpdate(d->sha, d->held, d->n);
	d->at += d->n;
	d->n = 0;
	if (d->at - d->started >= WRITEBACK) {
		/* A hint; an error would come again from the final sync. */
		sync_file_range(d->fd, (off_t)d->started, (off_t)(d->at - d->started),
				SYNC_FILE_RANGE_WRITE);
		d->started = d->at;
	}
	return 0;
}

static int append(struct blob *d, const char *p, uint64_t n)
{
	while (n) {
		size_t k = HELD - d->n < n ? HELD - d->n : (size_t)n;

		if (p)
			memcpy(d->held + d->n, p, k);
		else
			memset(d->held + d->n, 0, k);
		d->filled += p ? 0 : k;
		d->n += k;
		d->cur += k;
		n -= k;
		if (p)
			p += k;
		if (d->n == HELD && flush(d) < 0)
			return -1;
	}
	return 0;
}

int blob_begin(struct blob *d, struct tree_inode *ino, uint64_t size)
{
	if (size > INT64_MAX - TREE_BLOCK || size / TREE_BLOCK >= UINT32_MAX - 1)
		return failx("a file of %llu bytes is too large", (unsigned long long)size);
	d->ino = ino;
	d->size = ino->size = size;
	d->grain = TREE_BLOCK;
	while (size / d->grain > MAX_CHUNKS)
		d->grain *= 2;
	d->cur = d->open = 0;
	/* A file that fits is held whole, so that it can be compared before it is written. */
	if (d->n + size > HELD && flush(d) < 0)
		return -1;
	d->begin = d->at + d->n;
	return 0;
}

static uint64_t up(uint64_t n, uint64_t to)
{
	return (n + to - 1) / to * to;
}

/* Ends the current extent: the data get whole grains, but nothing behind the file's last block. */
static int close_extent(struct blob *d)
{
	uint64_t end = up(d->cur, d->grain), last = up(d->size, TREE_BLOCK), len;

	if (end > last)
		end = last;
	if (append(d, NULL, end - d->cur) < 0)
		return -1;
	len = d->cur - d->open;
	if (!len)
		return 0;
	if ((d->begin + len) / TREE_BLOCK >= UINT32_MAX - 1)
		return failx("the image's data are too large");
	tree_add_extent(d->ino, (struct tree_extent){.lblk = (uint32_t)(d->open / TREE_BLOCK),
						     .n = (uint32_t)(len / TREE_BLOCK),
						     .dblk = (uint32_t)(d->begin / TREE_BLOCK),
						     .dev = d->dev});
	d->open = d->cur;
	d->begin += len;
	return 0;
}

int blob_write(struct blob *d, uint64_t off, const void *p, size_t n)
{
	if (off < d->cur || off > d->size || n > d->size - off)
		return failx("its data are out of order or longer than its size");
	if (!n)
		return 0;
	if (off / d->grain * d->grain > up(d->cur, d->grain)) {
		if (close_extent(d) < 0)
			return -1;
		d->cur = d->open = off / d->grain * d->grain;
	}
	if (append(d, NULL, off - d->cur) < 0)
		return -1;
	/* A sparse file of many terabytes keeps holes in large pieces only: few bytes in it, set apart
	 * with care, would fill the disk. */
	if (d->filled > FILLED && d->filled / 8 > d->at + d->n - d->filled)
		return failx("a sparse file of %llu bytes has too many holes",
			     (unsigned long long)d->size);
	return append(d, p, n);
}

static uint64_t hash_of(const char *p, size_t n)
{
	uint64_t h = n, v;

	for (; n >= 8; p += 8, n -= 8) {
		memcpy(&v, p, 8);
		h = (h ^ v) * 0x9e3779b97f4a7c15ull;
		h ^= h >> 32;
	}
	return h;
}

/* 1 if N bytes at P are what lies in block BLOCK and after. */
static int same(struct blob *d, uint32_t block, const char *p, size_t n)
{
	uint64_t off = (uint64_t)block * TREE_BLOCK;
	char old[16384];

	if (off >= d->at)
		return !memcmp(d->held + (off - d->at), p, n);
	for (size_t k; n; n -= k, p += k, off += k) {
		k = n < sizeof(old) ? n : sizeof(old);
		if (pread(d->fd, old, k, (off_t)off) != (ssize_t)k || memcmp(old, p, k) != 0)
			return 0;
	}
	return 1;
}

/*
 * The file just ended lies whole in what is held: if an older one has the same content, that is
 * used and this one is taken back. The hash only finds candidates; the bytes decide.
 */
static void share(struct blob *d)
{
	struct tree_extent *e = d->ino->ext;
	size_t n = (size_t)e->n * TREE_BLOCK;
	char *p = d->held + d->n - n;
	uint64_t hash = hash_of(p, n);
	struct known **at = &d->known[hash % BUCKETS], *k;
	int alike = 0;

	for (k = *at; k; k = k->next) {
		if (k->hash != hash || k->size != n)
			continue;
		/* Content that was made to collide is neither shared nor remembered. */
		if (++alike > ALIKE)
			return;
		if (!same(d, k->block, p, n))
			continue;
		e->dblk = k->block;
		d->n -= n;
		return;
	}
	k = xmalloc(sizeof(*k));
	*k = (struct known){.next = *at, .hash = hash, .size = n, .block = e->dblk};
	*at = k;
}

int blob_end(struct blob *d)
{
	struct tree_inode *ino = d->ino;

	if (close_extent(d) < 0)
		return -1;
	if (ino->n == 1 && !ino->ext->lblk && (uint64_t)ino->ext->dblk * TREE_BLOCK >= d->at)
		share(d);
	d->ino = NULL;
	return 0;
}

/* Moves N blocks from FROM down to d->at through the held buffer (which flush() then hashes). */
static int move_down(struct blob *d, uint32_t from, uint32_t n)
{
	uint64_t off = (uint64_t)from * TREE_BLOCK, left = (uint64_t)n * TREE_BLOCK;

	while (left) {
		size_t k = HELD - d->n < left ? HELD - d->n : (size_t)left;

		if (pread(d->fd, d->held + d->n, k, (off_t)off) != (ssize_t)k)
			return fail("cannot read back the image's data");
		d->n += k;
		off += k;
		left -= k;
		if (d->n == HELD && flush(d) < 0)
			return -1;
	}
	return 0;
}

/*
 * Runs in ascending order are copied towards the start: the place written is never behind the place
 * read, for what is held was read before. Files that share content have equal runs.
 */
static int compact(struct blob *d, struct runs *all, size_t first, size_t end)
{
	if (lseek(d->fd, 0, SEEK_SET) < 0 || !EVP_DigestInit_ex(d->sha, NULL, NULL))
		return fail("cannot go over the image's data again");
	d->at = d->started = 0;
	for (size_t i = first; i < end; i++) {
		struct run *v = &all->v[i];

		v->to = (uint32_t)((d->at + d->n) / TREE_BLOCK);
		if (move_down(d, v->dblk, v->n) < 0)
			return -1;
	}
	if (flush(d) < 0)
		return -1;
	return ftruncate(d->fd, (off_t)d->at) < 0 ? fail("cannot shorten the image's data") : 0;
}

/* Drops what no file of the tree uses. The runs of this file are neighbours among all of the tree. */
static int drop_unused(struct blob *d)
{
	size_t first = 0, end;
	uint64_t used = 0;
	struct runs all;
	int r = 0;

	runs_of(d->tree, &all);
	while (first < all.n && all.v[first].dev != d->dev)
		first++;
	for (end = first; end < all.n && all.v[end].dev == d->dev; end++)
		used += all.v[end].n;
	if (used * TREE_BLOCK < d->at) {
		r = compact(d, &all, first, end);
		runs_apply(d->tree, &all);
	}
	runs_free(&all);
	return r;
}

int blob_finish(struct blob *d, char sha[SHA_HEX + 1])
{
	struct tree_blob *blobs;
	uint32_t n;

	if (flush(d) < 0 || drop_unused(d) < 0 || sha_end(d->sha, sha) < 0)
		return -1;
	blobs = tree_blobs(d->tree, &n);
	memcpy(blobs[d->dev].sha, sha, SHA_HEX + 1);
	blobs[d->dev].blocks = d->at / TREE_BLOCK;
	return 0;
}
