/*
 * make-image [-n LAYERS] NAME WORD...: an image that no source of sbx-img import makes. With LAYERS
 * that many, each with a directory /NAME-N; else one. Words:
 * hide=PATH (a whiteout), opaque=PATH (a directory that hides what is below it), dir=PATH,
 * over=IMAGE (its layers lie below), env=K=V, user=U, workdir=DIR.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/die.h"
#include "kern/mnt.h"
#include "store/stage.h"

static struct state st;

/* What follows KEY in WORD, NULL if it has another key. */
static const char *after(const char *word, const char *key)
{
	size_t n = strlen(key);

	return strncmp(word, key, n) ? NULL : word + n;
}

static void over(struct image *img, const char *ref)
{
	struct image below;

	if (image_load(&st, ref, &below) < 0)
		die();
	memcpy(img->layer, below.layer, below.nlayers * sizeof(*below.layer));
	img->nlayers = below.nlayers;
	image_free(&below);
}

static void take(struct image *img, struct tree *t, const char *word)
{
	struct tree_inode *ino = NULL;
	const char *v;
	size_t n = 0;

	if ((v = after(word, "hide="))) {
		if (!tree_add(t, v, S_IFCHR))
			die();
	} else if ((v = after(word, "opaque=")) || (v = after(word, "dir="))) {
		ino = tree_add(t, v, S_IFDIR | 0755);
		if (!ino ||
		    (*word == 'o' && tree_set_xattr(ino, "trusted.overlay.opaque", "y", 1) < 0))
			die();
	} else if ((v = after(word, "env="))) {
		while (img->env[n])
			n++;
		img->env[n] = xstrdup(v);
	} else if ((v = after(word, "user="))) {
		img->user = xstrdup(v);
	} else if ((v = after(word, "workdir="))) {
		img->workdir = xstrdup(v);
	} else if ((v = after(word, "over="))) {
		over(img, v);
	} else {
		dief(EX_SBX, "what is '%s'?", word);
	}
}

/* One more layer on top of what IMG has. */
static int layer(struct stage *s, struct image *img, const struct tree *t)
{
	autolayer l = {.kind = xstrdup("test"), .source = xstrdup("")};

	if (stage_layer(s, t, &l) < 0)
		return -1;
	memcpy(img->layer[img->nlayers++], l.digest, sizeof(l.digest));
	return 0;
}

static int layers(struct stage *s, struct image *img, const char *name, int n)
{
	int r = 0;

	for (int i = 1; i <= n && !r; i++) {
		struct tree *t = tree_new();
		char path[64];

		snprintf(path, sizeof(path), "/%s-%d", name, i);
		r = tree_add(t, path, S_IFDIR | 0755) ? layer(s, img, t) : -1;
		tree_free(t);
	}
	return r;
}

int main(int argc, char **argv)
{
	struct image img = {.layer = xcalloc(IMAGE_LAYERS, sizeof(*img.layer))};
	struct tree *t = tree_new();
	struct stage s;
	int many = argc > 3 && !strcmp(argv[1], "-n") ? atoi(argv[2]) : 0, r;
	char **word = argv + (many ? 3 : 1);

	die_init(argv[0]);
	if (argc < 2 || many < 0 || many > IMAGE_LAYERS)
		dief(EX_SBX, "usage: make-image [-n LAYERS] NAME WORD...");
	if (state_open(&st, 1) < 0)
		die();
	img.env = xcalloc((size_t)argc, sizeof(*img.env));
	for (int i = 1; word[i]; i++)
		take(&img, t, word[i]);
	r = stage_open(&s, &st, mnt_unmount);
	if (!r)
		r = many ? layers(&s, &img, *word, many) : layer(&s, &img, t);
	if (!r)
		r = stage_publish(&s, &img, *word);
	if (stage_close(&s, r) < 0)
		die();
	return 0;
}
