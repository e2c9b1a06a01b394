/* Removal of what nobody uses: marks from names and boxes, then sweeps. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/die.h"
#include "base/fd.h"
#include "base/kv.h"
#include "store/image_dir.h"
#include "store/layer.h"

/* Digests in use, sorted before they are looked up. */
struct marks {
	char (*v)[IMAGE_DIGEST + 1];
	size_t n;
};

static void mark(struct marks *m, const char *digest)
{
	if (!sha_valid(digest))
		return;
	if (!(m->n & (m->n - 1)))
		m->v = xrealloc(m->v, (m->n ? m->n * 2 : 1) * sizeof(*m->v));
	memcpy(m->v[m->n++], digest, IMAGE_DIGEST + 1);
}

static int compare(const void *a, const void *b)
{
	return memcmp(a, b, IMAGE_DIGEST);
}

static int marked(const struct marks *m, const char *digest)
{
	return m->n && sha_valid(digest) && bsearch(digest, m->v, m->n, sizeof(*m->v), compare);
}

static void sort(struct marks *m)
{
	if (m->n)
		qsort(m->v, m->n, sizeof(*m->v), compare);
}

static int mark_names(const struct state *st, struct marks *images)
{
	struct image_name *v;
	size_t n;

	if (image_names(st, &v, &n) < 0)
		return -1;
	for (size_t i = 0; i < n; i++)
		mark(images, v[i].digest);
	free(v);
	return 0;
}

/* A box without a spec uses nothing yet: creations write it under the shared lock. */
static int mark_box(const struct state *st, const char *id, struct marks *images,
		    struct marks *layers)
{
	char path[ID_MAX + 8];
	autokv kv = {0};

	snprintf(path, sizeof(path), "%s/spec", id);
	if (kv_load(&kv, st->box, path) < 0)
		return errno == ENOENT ? 0 : -1;
	for (size_t i = 0; i < kv.n; i++)
		if (!strcmp(kv.pair[i].key, "layer"))
			mark(layers, kv.pair[i].val);
		else if (!strcmp(kv.pair[i].key, "image_digest") ||
			 !strcmp(kv.pair[i].key, "workspace_digest") ||
			 !strcmp(kv.pair[i].key, "toolkit_digest"))
			mark(images, kv.pair[i].val);
	return 0;
}

static int mark_boxes(const struct state *st, struct marks *images, struct marks *layers)
{
	struct state_iter *it = state_boxes(st);
	const char *id;
	int r;

	if (!it)
		return -1;
	while ((r = state_next(it, &id)) > 0)
		if (mark_box(st, id, images, layers) < 0) {
			r = -1;
			break;
		}
	state_end(it);
	return r;
}

/* Everything that is gone over. */
struct collection {
	const struct state *st;
	struct marks images, layers, blobs;
	int (*unmount)(const char *path);
};

/* What makings under way rely on, see STAGE_HOLD: dead ones have been swept, or will be. */
static int mark_held(void *arg, int dir, const char *name)
{
	autofree char *path = xasprintf("%s/%s", name, STAGE_HOLD);
	struct collection *c = arg;
	autobuf b = BUF_INIT;
	char *save = NULL;

	if (fd_read_file(dir, path, 1 << 20, &b) < 0)
		return errno == ENOENT || errno == ENOTDIR ? 0 : -1;
	for (char *l = b.len ? strtok_r(b.p, "\n", &save) : NULL; l;
	     l = strtok_r(NULL, "\n", &save)) {
		mark(&c->images, l);
		mark(&c->layers, l);
		mark(&c->blobs, l);
	}
	return 0;
}

static int mark_layers(const struct state *st, const struct marks *images, struct marks *layers)
{
	for (size_t i = 0; i < images->n; i++) {
		struct image img;

		/* A box may outlive its record; its own layer lines keep the layers. */
		if (image_load_digest(st, images->v[i], &img) < 0) {
			if (errno == ENOENT)
				continue;
			return -1;
		}
		for (size_t k = 0; k < img.nlayers; k++)
			mark(layers, img.layer[k]);
		image_free(&img);
	}
	return 0;
}

static int remove_layer(const struct state *st, const char *digest,
			int (*unmount)(const char *path))
{
	char path[PATH_MAX], name[32];
	int r;

	snprintf(path, sizeof(path), "%s/layer/%s", st->conf.run, digest);
	if (unmount(path) < 0 && errno != EINVAL && errno != ENOENT)
		return errno == EBUSY ? 0 : fail("cannot unmount '%s'", path);
	rmdir(path);
	snprintf(path, sizeof(path), "depot/%s", digest);
	unlinkat(st->run, path, 0);
	/* Away from its name first: a crash must not leave a layer that looks whole. */
	snprintf(path, sizeof(path), "img/layer/%s", digest);
	snprintf(name, sizeof(name), "img/tmp/gone.%d", getpid());
	r = renameat(st->state, path, st->state, name);
	if (r < 0)
		return errno == ENOENT ? 0 : fail("cannot remove '%s'", path);
	return fd_rmtree(st->state, name);
}

/* The blobs of the layers in use, and of those that stay for now because they are busy. */
static int mark_blobs(struct collection *c, const char *name,
		      int (*load)(const struct state *st, const char *digest, struct layer *l))
{
	autolayer l = {0};

	if (!sha_valid(name))
		return 0;
	if (load(c->st, name, &l) < 0)
		return -1;
	for (size_t i = 0; i < l.ndev; i++)
		mark(&c->blobs, l.dev[i].sha);
	return 0;
}

static int mark_layer_blobs(void *arg, int dir, const char *name)
{
	(void)dir;
	return mark_blobs(arg, name, layer_load);
}

static int mark_derived_blobs(void *arg, int dir, const char *name)
{
	(void)dir;
	return mark_blobs(arg, name, layer_load_derived);
}

static int remove_unmarked(const struct marks *m, int dir, const char *kind, const char *name)
{
	if (marked(m, name) || !unlinkat(dir, name, 0) || errno == ENOENT)
		return 0;
	return fail("cannot remove 'img/%s/%s'", kind, name);
}

static int sweep_image(void *arg, int dir, const char *name)
{
	const struct collection *c = arg;

	return remove_unmarked(&c->images, dir, "image", name);
}

static int sweep_blob(void *arg, int dir, const char *name)
{
	const struct collection *c = arg;

	return remove_unmarked(&c->blobs, dir, "data", name);
}

static int sweep_layer(void *arg, int dir, const char *name)
{
	const struct collection *c = arg;

	(void)dir;
	return marked(&c->layers, name) || !sha_valid(name) ? 0
							    : remove_layer(c->st, name, c->unmount);
}

/* Derived metadata go with their layer. */
static int sweep_derived(void *arg, int dir, const char *name)
{
	const struct collection *c = arg;
	char path[IMAGE_PATH];

	snprintf(path, sizeof(path), "img/layer/%.255s", name);
	return faccessat(c->st->state, path, F_OK, 0) < 0 ? fd_rmtree(dir, name) : 0;
}

static int collect(struct collection *c)
{
	if (mark_names(c->st, &c->images) < 0 || mark_boxes(c->st, &c->images, &c->layers) < 0 ||
	    state_each(c->st, "img/tmp", mark_held, c) < 0 ||
	    mark_layers(c->st, &c->images, &c->layers) < 0)
		return -1;
	sort(&c->images);
	sort(&c->layers);
	if (state_each(c->st, "img/image", sweep_image, c) < 0 ||
	    state_each(c->st, "img/layer", sweep_layer, c) < 0 ||
	    state_each(c->st, "img/cache", sweep_derived, c) < 0 ||
	    state_each(c->st, "img/layer", mark_layer_blobs, c) < 0 ||
	    state_each(c->st, "img/cache", mark_derived_blobs, c) < 0)
		return -1;
	sort(&c->blobs);
	return state_each(c->st, "img/data", sweep_blob, c);
}

int image_collect(const struct state *st, int (*unmount)(const char *path))
{
	struct collection c = {.st = st, .unmount = unmount};
	int r = collect(&c);

	free(c.blobs.v);
	free(c.images.v);
	free(c.layers.v);
	return r;
}

/* A name that was being given when its giver died: "TAG.new", and a directory without a tag. */
static int sweep_name(void *arg, int dir, const char *name)
{
	int fd = fd_dir(dir, name, 0);
	DIR *tags = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *t;

	(void)arg;
	while (tags && (t = readdir(tags))) {
		size_t len = strlen(t->d_name);

		if (len > 4 && !strcmp(t->d_name + len - 4, ".new"))
			unlinkat(fd, t->d_name, 0);
	}
	if (tags)
		closedir(tags);
	/* One with tags stays: ENOTEMPTY. */
	if (fd >= 0)
		unlinkat(dir, name, AT_REMOVEDIR);
	return 0;
}

static int sweep_stage(void *arg, int dir, const char *name)
{
	autofd fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);

	(void)arg;
	if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0)
		return 0; /* its import lives */
	return fd_rmtree(dir, name);
}

int image_sweep(const struct state *st)
{
	return state_each(st, "img/tmp", sweep_stage, NULL);
}

int image_gc(const struct state *st, int (*unmount)(const char *path))
{
	autofd lock = image_lock(st);

	if (lock < 0 || image_sweep(st) < 0 || state_each(st, "img/name", sweep_name, NULL) < 0)
		return -1;
	return image_collect(st, unmount);
}
