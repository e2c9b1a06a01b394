#include "store/cache.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/die.h"
#include "store/image_dir.h"

int cache_load(const struct state *st, const char *digest, struct layer *l)
{
	char path[IMAGE_DIGEST + 32];

	if (!image_digest_valid(digest))
		return failx("'%.80s' is no layer's digest", digest);
	snprintf(path, sizeof(path), "img/cache/%s/info", digest);
	return layer_load_info(st, path, digest, l);
}

char *cache_meta_path(const struct state *st, const char *digest)
{
	return xasprintf("%s/img/cache/%s/meta", st->conf.state, digest);
}
