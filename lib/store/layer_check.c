/* A layer against its digests: before each mount, so without a library. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/die.h"
#include "base/fd.h"
#include "base/sha256.h"
#include "store/layer.h"

enum { PIECE = 1 << 16 };

static int hash_file(const char *path, char hex[65])
{
	autofree char *piece = xmalloc(PIECE);
	autofd fd = openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	struct sha256 s;
	ssize_t n;

	if (fd < 0)
		return fail("cannot open '%s'", path);
	sha256_start(&s);
	while ((n = read(fd, piece, PIECE)) > 0)
		sha256_add(&s, piece, (size_t)n);
	sha256_end(&s, hex);
	return n < 0 ? fail("cannot read '%s'", path) : 0;
}

static int check_file(const struct layer *l, const char *path)
{
	char hex[65];

	if (hash_file(path, hex) < 0)
		return -1;
	return strcmp(hex, l->meta) ? failx("metadata '%s' are damaged", path) : 0;
}

void layer_digest(const struct layer *l, char hex[SHA_HEX + 1])
{
	struct sha256 s;

	sha256_start(&s);
	sha256_add(&s, l->meta, strlen(l->meta));
	for (size_t i = 0; i < l->ndev; i++) {
		sha256_add(&s, "\n", 1);
		sha256_add(&s, l->dev[i].sha, SHA_HEX);
	}
	sha256_add(&s, "\n", 1);
	sha256_end(&s, hex);
}

int layer_check_digest(const struct layer *l)
{
	char own[SHA_HEX + 1];

	layer_digest(l, own);
	return strcmp(own, l->digest) ? failx("its info is damaged") : 0;
}

static int check(const struct state *st, const char *digest)
{
	autofree char *path = NULL, *derived = layer_derived_meta_path(st, digest);
	autolayer l = {0}, d = {0};

	if (layer_load(st, digest, &l) < 0)
		return -1;
	path = layer_meta_path(st, &l);
	if (layer_check_digest(&l) < 0 || check_file(&l, path) < 0)
		return -1;
	if (layer_load_derived(st, digest, &d) < 0)
		return errno == ENOENT ? 0 : -1;
	return check_file(&d, derived);
}

int layer_check(const struct state *st, const char *digest)
{
	return check(st, digest) < 0 ? fail_more("layer '%s'", digest) : 0;
}
