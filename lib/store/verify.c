#include "store/verify.h"

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
#include "store/image_dir.h"

struct seen {
	char sha[SHA_HEX + 1];
	int bad;
};

struct verify {
	const struct state *st;
	void (*bad)(void);
	struct seen *seen;
	size_t n;
};

struct verify *verify_open(const struct state *st, void (*bad)(void))
{
	struct verify *v = xcalloc(1, sizeof(*v));

	v->st = st;
	v->bad = bad;
	return v;
}

void verify_close(struct verify *v)
{
	free(v->seen);
	free(v);
}

static int damaged(struct verify *v)
{
	v->bad();
	return 1;
}

static int verify_blob(struct verify *v, const struct layer *l, size_t i)
{
	autofree char *path = layer_blob_path(v->st, l, i);
	size_t k = 0;

	while (k < v->n && strcmp(v->seen[k].sha, l->dev[i].sha) != 0)
		k++;
	if (k == v->n) {
		if (!(v->n & (v->n - 1)))
			v->seen = xrealloc(v->seen, (v->n ? v->n * 2 : 1) * sizeof(*v->seen));
		memcpy(v->seen[v->n].sha, l->dev[i].sha, SHA_HEX + 1);
		v->seen[v->n++].bad = depot_copy_path(path, -1, l->dev[i].blocks * TREE_BLOCK,
						      l->dev[i].sha, "data") < 0;
	} else if (v->seen[k].bad) {
		failx("data '%s' is damaged", path);
	}
	if (!v->seen[k].bad)
		return 0;
	fail_more("layer '%s'", l->digest);
	return damaged(v);
}

int verify_layer(struct verify *v, const char *digest)
{
	autolayer l = {0}, derived = {0};
	int bad = layer_check(v->st, digest) < 0 ? damaged(v) : 0;

	if (layer_load(v->st, digest, &l) < 0)
		return bad;
	for (size_t i = 0; i < l.ndev; i++)
		bad |= verify_blob(v, &l, i);
	if (layer_load_derived(v->st, digest, &derived) < 0)
		return bad;
	for (size_t i = 0; i < derived.ndev; i++)
		bad |= verify_blob(v, &derived, i);
	return bad;
}
