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

/* What makings under way rely on, see STAGE_HOLD: dead ones have been swept, or will be. */
static int mark_held(const struct state *st, struct marks *images, struct marks *layers,
		     struct marks *blobs)
{
	DIR *d = state_opendir(st, "img/tmp");
	struct dirent *e;
	int r = 0;

	if (!d)
		return errno == ENOENT ? 0 : -1;
	while (!r && (e = readdir(d))) {
		autofree char *path = xasprintf("%s/%s", e->d_name, STAGE_HOLD);
		autobuf b = BUF_INIT;
		char *save = NULL;

		if (e->d_name[0] == '.')
			continue;
		if (fd_read_file(dirfd(d), path, 1 << 20, &b) < 0) {
			r = errno == ENOENT || errno == ENOTDIR ? 0 : -1;
			continue;
		}
		for (char *l = b.len ? strtok_r(b.p, "\n", &save) : NULL; l;
		     l = strtok_r(NULL, "\n", &save)) {
			mark(images, l);
			mark(layers, l);
			mark(blobs, l);
		}
	}
	closedir(d);
	return r;
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

/*
 * The blobs of the layers in use, and of those that stay for now because they are busy: of all that
 * LOAD finds in DIR.
 */
static int mark_blobs(const struct state *st, const char *dir,
		      int (*load)(const struct state *st, const char *digest, struct layer *l),
		      struct marks *blobs)
{
	DIR *d = state_opendir(st, dir);
	struct dirent *e;

	while (d && (e = readdir(d))) {
		autolayer l = {0};

		if (!sha_valid(e->d_name))
			continue;
		if (load(st, e->d_name, &l) < 0) {
			closedir(d);
			return -1;
		}
		for (size_t i = 0; i < l.ndev; i++)
			mark(blobs, l.dev[i].sha);
	}
	if (d)
		closedir(d);
	return d || errno == ENOENT ? 0 : -1;
}

/* Removes every name in PATH that is not marked: with UNMOUNT, layers. */
static int sweep(const struct state *st, const char *path, const struct marks *m,
		 int (*unmount)(const char *path))
{
	DIR *d = state_opendir(st, path);
	struct dirent *e;
	int r = 0;

	if (!d)
		return errno == ENOENT ? 0 : -1;
	while (!r && (e = readdir(d))) {
		if (e->d_name[0] == '.' || marked(m, e->d_name))
			continue;
		if (unmount)
			r = sha_valid(e->d_name) ? remove_layer(st, e->d_name, unmount) : 0;
		else if (unlinkat(dirfd(d), e->d_name, 0) < 0 && errno != ENOENT)
			r = fail("cannot remove '%s/%s'", path, e->d_name);
	}
	closedir(d);
	return r;
}

/* Derived metadata go with their layer. */
static int sweep_cache(const struct state *st)
{
	DIR *d = state_opendir(st, "img/cache");
	struct dirent *e;
	int r = 0;

	if (!d)
		return errno == ENOENT ? 0 : -1;
	while (!r && (e = readdir(d))) {
		char path[IMAGE_PATH];

		snprintf(path, sizeof(path), "img/layer/%.255s", e->d_name);
		if (e->d_name[0] != '.' && faccessat(st->state, path, F_OK, 0) < 0)
			r = fd_rmtree(dirfd(d), e->d_name);
	}
	closedir(d);
	return r;
}

int image_collect(const struct state *st, int (*unmount)(const char *path))
{
	struct marks images = {0}, layers = {0}, blobs = {0};
	int r = -1;

	if (mark_names(st, &images) < 0 || mark_boxes(st, &images, &layers) < 0 ||
	    mark_held(st, &images, &layers, &blobs) < 0 || mark_layers(st, &images, &layers) < 0)
		goto out;
	sort(&images);
	sort(&layers);
	if (sweep(st, "img/image", &images, NULL) < 0 ||
	    sweep(st, "img/layer", &layers, unmount) < 0 || sweep_cache(st) < 0 ||
	    mark_blobs(st, "img/layer", layer_load, &blobs) < 0 ||
	    mark_blobs(st, "img/cache", layer_load_derived, &blobs) < 0)
		goto out;
	sort(&blobs);
	r = sweep(st, "img/data", &blobs, NULL);
out:
	free(blobs.v);
	free(images.v);
	free(layers.v);
	return r;
}

/* A name that was being given when its giver died: "TAG.new", and a directory without a tag. */
static int sweep_names(const struct state *st)
{
	DIR *d = state_opendir(st, "img/name");
	struct dirent *e;

	if (!d)
		return errno == ENOENT ? 0 : -1;
	while ((e = readdir(d))) {
		int fd = e->d_name[0] == '.' ? -1 : fd_dir(dirfd(d), e->d_name, 0);
		DIR *tags = fd < 0 ? NULL : fdopendir(fd);
		struct dirent *t;

		while (tags && (t = readdir(tags))) {
			size_t len = strlen(t->d_name);

			if (len > 4 && !strcmp(t->d_name + len - 4, ".new"))
				unlinkat(fd, t->d_name, 0);
		}
		if (tags)
			closedir(tags);
		/* One with tags stays: ENOTEMPTY. */
		if (fd >= 0)
			unlinkat(dirfd(d), e->d_name, AT_REMOVEDIR);
	}
	closedir(d);
	return 0;
}

int image_sweep(const struct state *st)
{
	DIR *d = state_opendir(st, "img/tmp");
	struct dirent *e;
	int r = 0;

	if (!d)
		return errno == ENOENT ? 0 : -1;
	while (!r && (e = readdir(d))) {
		autofd fd = -1;

		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
			continue;
		fd = openat(dirfd(d), e->d_name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
		if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0)
			continue; /* its import lives */
		r = fd_rmtree(dirfd(d), e->d_name);
	}
	closedir(d);
	return r;
}

int image_gc(const struct state *st, int (*unmount)(const char *path))
{
	autofd lock = image_lock(st);

	if (lock < 0 || image_sweep(st) < 0 || sweep_names(st) < 0)
		return -1;
	return image_collect(st, unmount);
}
