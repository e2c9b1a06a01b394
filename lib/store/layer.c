#include "store/layer.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/die.h"
#include "base/fd.h"
#include "base/kv.h"

/* "SHA BLOCKS" */
static int read_device(const char *val, struct tree_blob *b)
{
	char *end;

	if (strlen(val) < SHA_HEX + 2 || val[SHA_HEX] != ' ')
		return -1;
	memcpy(b->sha, val, SHA_HEX);
	b->sha[SHA_HEX] = 0;
	errno = 0;
	b->blocks = strtoull(val + SHA_HEX + 1, &end, 10);
	return errno || *end || !sha_valid(b->sha) || b->blocks >= UINT32_MAX ? -1 : 0;
}

/* An info may come from a depot: where its subtree lies is not to lead anywhere else. */
int layer_at_valid(const char *at)
{
	if (strlen(at) >= LAYER_AT)
		return 0;
	while (*at) {
		size_t n = *at == '/' ? strcspn(++at, "/") : 0;

		if (!n || n > 255 || (*at == '.' && (n == 1 || (n == 2 && at[1] == '.'))))
			return 0;
		at += n;
	}
	return 1;
}

static int fill(struct layer *l, const struct kv *kv, const char *path)
{
	snprintf(l->meta, sizeof(l->meta), "%s", kv_str(kv, "meta_sha256", ""));
	l->meta_bytes = kv_u64(kv, "meta_bytes", 0);
	l->data_bytes = kv_u64(kv, "data_bytes", 0);
	l->files = kv_u64(kv, "files", 0);
	l->kind = xstrdup(kv_str(kv, "kind", ""));
	l->source = xstrdup(kv_str(kv, "source", ""));
	l->at = xstrdup(kv_str(kv, "at", ""));
	l->depot = xstrdup(kv_str(kv, "depot", ""));
	l->dev = xcalloc(kv->n + 1, sizeof(*l->dev));
	for (size_t i = 0; i < kv->n; i++)
		if (!strcmp(kv->pair[i].key, "device") &&
		    (l->ndev == LAYER_DEVICES ||
		     read_device(kv->pair[i].val, &l->dev[l->ndev++]) < 0))
			return failx("%s:%d: bad device", path, kv->pair[i].line);
	/* No digest covers these: what a depot says must not grow past what can be read again. */
	if (strlen(l->kind) > 64 || strlen(l->source) > 8192 || strlen(l->depot) >= PATH_MAX)
		return failx("%s: a value is too long", path);
	if (!layer_at_valid(l->at))
		return failx("%s: '%.200s' is no place for a subtree", path, l->at);
	return sha_valid(l->meta) ? 0 : failx("%s: no meta_sha256", path);
}

int layer_load_info(const struct state *st, const char *path, const char *digest, struct layer *l)
{
	autokv kv = {0};

	memset(l, 0, sizeof(*l));
	if (kv_load(&kv, st->state, path) < 0)
		return fail_more("layer '%.12s'", digest);
	memcpy(l->digest, digest, SHA_HEX + 1);
	if (!fill(l, &kv, path))
		return 0;
	layer_free(l);
	errno = EINVAL;
	return -1;
}

int layer_load(const struct state *st, const char *digest, struct layer *l)
{
	char path[SHA_HEX + 32];

	memset(l, 0, sizeof(*l));
	if (!sha_valid(digest))
		return failx("'%.80s' is no layer's digest", digest);
	snprintf(path, sizeof(path), "img/layer/%s/info", digest);
	return layer_load_info(st, path, digest, l);
}

static int compare(const void *a, const void *b)
{
	return memcmp(a, b, SHA_HEX);
}

struct list {
	char (*v)[SHA_HEX + 1];
	size_t n;
};

static int list_one(void *arg, int dir, const char *name)
{
	struct list *l = arg;

	(void)dir;
	if (!sha_valid(name))
		return 0;
	if (!(l->n & (l->n - 1)))
		l->v = xrealloc(l->v, (l->n ? l->n * 2 : 1) * sizeof(*l->v));
	memcpy(l->v[l->n++], name, SHA_HEX + 1);
	return 0;
}

int layer_list(const struct state *st, char (**digest)[SHA_HEX + 1], size_t *n)
{
	struct list l = {0};
	int r = state_each(st, "img/layer", list_one, &l);

	if (l.n)
		qsort(l.v, l.n, sizeof(*l.v), compare);
	*digest = l.v;
	*n = l.n;
	return r;
}

void layer_free(struct layer *l)
{
	free(l->dev);
	free(l->kind);
	free(l->source);
	free(l->at);
	free(l->depot);
	memset(l, 0, sizeof(*l));
}

static void put_opt(struct buf *b, const char *key, const char *val)
{
	if (val && *val)
		kv_put_file(b, key, val);
}

void layer_info_plain(const struct layer *l, struct buf *b)
{
	kv_put_file(b, "meta_sha256", l->meta);
	for (size_t i = 0; i < l->ndev; i++)
		buf_fmt(b, "device = %s %llu\n", l->dev[i].sha,
			(unsigned long long)l->dev[i].blocks);
	buf_fmt(b, "meta_bytes = %llu\ndata_bytes = %llu\nfiles = %llu\n",
		(unsigned long long)l->meta_bytes, (unsigned long long)l->data_bytes,
		(unsigned long long)l->files);
	put_opt(b, "kind", l->kind);
	put_opt(b, "source", l->source);
	put_opt(b, "at", l->at);
}

void layer_info(const struct layer *l, struct buf *b)
{
	layer_info_plain(l, b);
	put_opt(b, "depot", l->depot);
}

char *layer_meta_path(const struct state *st, const struct layer *l)
{
	return xasprintf("%s/img/layer/%s/meta", st->conf.state, l->digest);
}

int layer_blob_here(const struct state *st, const struct layer *l, size_t i)
{
	char path[SHA_HEX + 16];

	snprintf(path, sizeof(path), "img/data/%s", l->dev[i].sha);
	return !faccessat(st->state, path, F_OK, 0);
}

char *layer_blob_path(const struct state *st, const struct layer *l, size_t i)
{
	int here = !*l->depot || layer_blob_here(st, l, i);

	return xasprintf("%s/img/data/%s", here ? st->conf.state : l->depot, l->dev[i].sha);
}

int layer_load_derived(const struct state *st, const char *digest, struct layer *l)
{
	char path[SHA_HEX + 32];

	if (!sha_valid(digest))
		return failx("'%.80s' is no layer's digest", digest);
	snprintf(path, sizeof(path), "img/cache/%s/info", digest);
	return layer_load_info(st, path, digest, l);
}

char *layer_derived_meta_path(const struct state *st, const char *digest)
{
	return xasprintf("%s/img/cache/%s/meta", st->conf.state, digest);
}

int layer_open_blob(const struct state *st, const struct layer *l, size_t i)
{
	int here = !*l->depot || layer_blob_here(st, l, i);
	autofd depot = here ? -1 : fd_dir(AT_FDCWD, l->depot, 0), fd = -1;
	autofree char *path = xasprintf("img/data/%s", l->dev[i].sha);
	struct stat sb;

	if (!here && depot < 0)
		return -1;
	fd = fd_openat2(here ? st->state : depot, path, O_RDONLY | O_NONBLOCK, 0,
			RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
	if (fd < 0 || fstat(fd, &sb) < 0)
		return fail("cannot open '%s/%s'", here ? st->conf.state : l->depot, path);
	if (!S_ISREG(sb.st_mode) || (uint64_t)sb.st_size != l->dev[i].blocks * TREE_BLOCK)
		return failx("'%s/%s' is no file of the right size",
			     here ? st->conf.state : l->depot, path);
	return fd_take(&fd);
}
