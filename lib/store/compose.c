#include "store/compose.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/die.h"
#include "store/layer.h"

/* LIST ends with NULL. A key that is there already keeps its place and gets the new value. */
static char **env_put(char **list, const char *pair)
{
	size_t n = 0, key = strcspn(pair, "=");

	for (; list && list[n]; n++)
		if (!strncmp(list[n], pair, key) && list[n][key] == '=') {
			free(list[n]);
			list[n] = xstrdup(pair);
			return list;
		}
	list = xrealloc(list, (n + 2) * sizeof(*list));
	list[n] = xstrdup(pair);
	list[n + 1] = NULL;
	return list;
}

static void take(char **to, char **from)
{
	free(*to);
	*to = *from;
	*from = NULL;
}

static void add_layers(struct compose *c, const struct image *img)
{
	struct image *all = &c->img;
	size_t n = all->nlayers + img->nlayers;

	all->layer = xrealloc(all->layer, n * sizeof(*all->layer));
	c->from = xrealloc(c->from, n * sizeof(*c->from));
	memcpy(all->layer + all->nlayers, img->layer, img->nlayers * sizeof(*img->layer));
	for (; all->nlayers < n; all->nlayers++)
		c->from[all->nlayers] = (unsigned)c->nparts;
}

/* IMG is taken over by the first, and its pieces by the others. */
static void add(struct compose *c, const char *key, const char *ref, struct image *img)
{
	struct compose_part *p = &c->part[c->nparts];

	*p = (struct compose_part){.key = key, .ref = ref};
	memcpy(p->digest, img->digest, sizeof(p->digest));
	if (c->nparts) {
		add_layers(c, img);
		for (char **e = img->env; *e; e++)
			c->img.env = env_put(c->img.env, *e);
		if (!strcmp(key, "workspace") && *img->user)
			take(&c->img.user, &img->user);
		if (!strcmp(key, "workspace") && *img->workdir)
			take(&c->img.workdir, &img->workdir);
		image_free(img);
	} else {
		c->img = *img;
		c->from = xcalloc(img->nlayers, sizeof(*c->from));
	}
	c->nparts++;
}

static int load(const struct state *st, struct compose *c, const char *key, const char *ref)
{
	struct image img;

	if (image_load(st, ref, &img) < 0)
		return c->nparts ? fail_more("%s", key) : -1;
	add(c, key, ref, &img);
	return 0;
}

/* A box of one layer has nothing to compose: its info is not read. */
static int load_at(const struct state *st, struct compose *c)
{
	const struct image *img = &c->img;
	size_t root = 0;

	c->at = xcalloc(img->nlayers, sizeof(*c->at));
	for (size_t i = 0; i < img->nlayers; i++) {
		autolayer l = {0};

		if (img->nlayers > 1 && layer_load(st, img->layer[i], &l) < 0)
			return fail_more("image '%s'", c->part[c->from[i]].ref);
		c->at[i] = xstrdup(l.at ? l.at : "");
		if (!c->from[i] && !*c->at[i])
			root = i;
	}
	memcpy(c->root, img->layer[root], sizeof(c->root));
	return 0;
}

static int again(const struct image *img, size_t i)
{
	for (size_t k = i + 1; k < img->nlayers; k++)
		if (!strcmp(img->layer[k], img->layer[i]))
			return 1;
	return 0;
}

/* overlayfs refuses a directory that is there twice; the upper one hides the lower in any case. */
static void drop_doubles(struct compose *c)
{
	struct image *img = &c->img;
	size_t n = 0;

	for (size_t i = 0; i < img->nlayers; i++) {
		char *at = c->at[i];

		c->at[i] = NULL;
		if (again(img, i)) {
			free(at);
			continue;
		}
		memmove(img->layer[n], img->layer[i], sizeof(img->layer[n]));
		c->from[n] = c->from[i];
		c->at[n++] = at;
	}
	img->nlayers = n;
}

int compose_load(const struct state *st, const char *base, const char *workspace,
		 const char *const *toolkits, size_t n, struct compose *c)
{
	*c = (struct compose){.part = xcalloc(n + 2, sizeof(*c->part))};
	if (load(st, c, "image", base) < 0)
		goto out;
	if (workspace && load(st, c, "workspace", workspace) < 0)
		goto out;
	for (size_t i = 0; i < n; i++)
		if (load(st, c, "toolkit", toolkits[i]) < 0)
			goto out;
	if (load_at(st, c) < 0)
		goto out;
	drop_doubles(c);
	if (c->img.nlayers <= COMPOSE_LAYERS)
		return 0;
	failx("a box of %zu layers: overlayfs takes at most %d", c->img.nlayers, COMPOSE_LAYERS);
out:
	compose_free(c);
	return -1;
}

void compose_free(struct compose *c)
{
	for (size_t i = 0; c->at && i < c->img.nlayers; i++)
		free(c->at[i]);
	free(c->at);
	image_free(&c->img);
	free(c->from);
	free(c->part);
	*c = (struct compose){0};
}
