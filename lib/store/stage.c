#include "store/stage.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/die.h"
#include "base/fd.h"
#include "base/kv.h"
#include "base/num.h"
#include "store/digest.h"
#include "store/erofs_write.h"
#include "store/image_dir.h"

/* The lock on the directory itself tells a sweep that its maker lives. */
int stage_open(struct stage *s, const struct state *st, int (*unmount)(const char *path))
{
	autofd lock = image_lock(st);

	*s = (struct stage){.st = st, .unmount = unmount, .fd = -1};
	if (lock < 0 || image_sweep(st) < 0 || image_collect(st, unmount) < 0)
		return -1;
	if (snprintf(s->path, sizeof(s->path), "%s/img/tmp/XXXXXX", st->conf.state) >= PATH_MAX)
		return failx("the state directory's path is too long");
	if (!mkdtemp(s->path))
		return fail("cannot make a staging directory in '%s/img/tmp'", st->conf.state);
	s->fd = fd_dir(AT_FDCWD, s->path, 0);
	if (s->fd < 0)
		return -1;
	if (flock(s->fd, LOCK_EX) < 0)
		return fail("cannot lock '%s'", s->path);
	if (mkdirat(s->fd, "data", 0700) < 0 || mkdirat(s->fd, "layer", 0700) < 0)
		return fail("cannot make directories in '%s'", s->path);
	return 0;
}

int stage_close(struct stage *s, int r)
{
	struct failure first;

	if (s->fd < 0)
		return r;
	fail_save(&first);
	if (fd_rmtree(AT_FDCWD, s->path) < 0 && !r)
		r = -1;
	else if (r < 0)
		fail_again(&first);
	fd_close(&s->fd);
	return r;
}

/* What image_collect() spares as long as the stage's lock is held. */
static int hold(struct stage *s, const char *digest)
{
	autofd fd = openat(s->fd, STAGE_HOLD, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	char line[SHA_HEX + 2];
	int n = snprintf(line, sizeof(line), "%.*s\n", SHA_HEX, digest);

	return fd < 0 || fd_write_all(fd, line, (size_t)n) < 0
		       ? fail("cannot write '%s/%s'", s->path, STAGE_HOLD)
		       : 0;
}

/* Under the shared lock: no collection is between its marks and its sweep. */
int stage_keep(struct stage *s, const char *path)
{
	autofd lock = image_hold(s->st);
	autofree char *there = xasprintf("img/%s", path);

	if (lock < 0)
		return -1;
	if (faccessat(s->st->state, there, F_OK, 0) < 0)
		return 0;
	return hold(s, strchr(path, '/') + 1) < 0 ? -1 : 1;
}

int stage_keep_layers(struct stage *s, const struct image *img)
{
	for (size_t i = 0; i < img->nlayers; i++) {
		autofree char *path = xasprintf("layer/%s", img->layer[i]);
		int r = stage_keep(s, path);

		if (r <= 0)
			return r ? -1 : failx("layer '%.12s' is gone", img->layer[i]);
	}
	return 0;
}

static int create(int dir, const char *name)
{
	int fd = openat(dir, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	return fd < 0 ? fail("cannot make a staging file") : fd;
}

struct blob *stage_data(struct stage *s, struct tree *t)
{
	int fd = create(s->fd, "data/new");
	struct blob *d = fd < 0 ? NULL : blob_open(fd, t);

	if (!d)
		fd_close(&fd);
	return d;
}

int stage_data_end(struct stage *s, struct blob *d)
{
	char sha[SHA_HEX + 1], path[SHA_HEX + 16];
	int r = blob_finish(d, sha);
	autofd fd = blob_close(d);

	if (r < 0)
		return -1;
	snprintf(path, sizeof(path), "data/%s", sha);
	/* Known, or empty: no use in keeping it, or in waiting for the disk. */
	r = !lseek(fd, 0, SEEK_END) ? 1 : stage_keep(s, path);
	if (r < 0)
		return -1;
	if (r)
		return unlinkat(s->fd, "data/new", 0) < 0 ? fail("cannot remove 'data/new'") : 0;
	if (fdatasync(fd) < 0)
		return fail("cannot write the image's data to disk");
	if (renameat(s->fd, "data/new", s->fd, path) < 0)
		return fail("cannot name the image's data");
	return 0;
}

static int hash_fd(int fd, char hex[SHA_HEX + 1])
{
	EVP_MD_CTX *sha = sha_new();
	char piece[16384];
	off_t at = 0;
	ssize_t n;
	int r;

	while ((n = pread(fd, piece, sizeof(piece), at)) > 0) {
		EVP_DigestUpdate(sha, piece, (size_t)n);
		at += n;
	}
	r = n < 0 ? fail("cannot read back the metadata") : sha_end(sha, hex);
	EVP_MD_CTX_free(sha);
	return r;
}

static int write_info(int dir, const struct layer *l)
{
	autobuf b = BUF_INIT;
	autofd fd = create(dir, "info");

	if (fd < 0)
		return -1;
	layer_info(l, &b);
	if (fd_write_all(fd, b.p, b.len) < 0 || fdatasync(fd) < 0)
		return fail("cannot write the layer's info");
	return 0;
}

static void take_stats(struct layer *l, const struct erofs_stats *stats)
{
	l->dev = stats->dev;
	l->ndev = stats->ndev;
	l->meta_bytes = stats->bytes;
	l->files = stats->inodes;
	l->data_bytes = 0;
	for (size_t i = 0; i < l->ndev; i++)
		l->data_bytes += l->dev[i].blocks * TREE_BLOCK;
}

int layer_write_meta(int meta, const struct tree *t, struct layer *l)
{
	struct erofs_stats stats = {0};
	int r = erofs_write(meta, t, &stats);

	take_stats(l, &stats);
	return r < 0 ? -1 : hash_fd(meta, l->meta);
}

static int write_layer(struct stage *s, const struct tree *t, int dir, struct layer *l)
{
	autofd meta = create(dir, "meta");
	char known[IMAGE_DIGEST + 16];
	int r;

	if (meta < 0 || layer_write_meta(meta, t, l) < 0)
		return -1;
	layer_digest(l, l->digest);
	snprintf(known, sizeof(known), "layer/%s", l->digest);
	r = stage_keep(s, known);
	if (r)
		return r < 0 ? -1 : 0;
	if (fdatasync(meta) < 0)
		return fail("cannot write the layer to disk");
	return write_info(dir, l) < 0 || fsync(dir) < 0 ? -1 : 0;
}

static int name_layer(struct stage *s, const struct layer *l)
{
	char path[IMAGE_DIGEST + 16];

	snprintf(path, sizeof(path), "layer/%s", l->digest);
	if (!renameat(s->fd, "new", s->fd, path))
		return 0;
	/* The same layer twice in one image. */
	return errno == EEXIST || errno == ENOTEMPTY ? fd_rmtree(s->fd, "new")
						     : fail("cannot name the layer");
}

int stage_layer(struct stage *s, const struct tree *t, struct layer *l)
{
	autofd dir = fd_dir(s->fd, "new", 1);

	return dir < 0 || write_layer(s, t, dir, l) < 0 ? -1 : name_layer(s, l);
}

int stage_copy_layer(struct stage *s, const struct layer *l,
		     int (*copy)(void *arg, const struct layer *l, int meta), void *arg)
{
	autofd dir = fd_dir(s->fd, "new", 1), meta = dir < 0 ? -1 : create(dir, "meta");

	if (meta < 0 || copy(arg, l, meta) < 0)
		return -1;
	if (fdatasync(meta) < 0)
		return fail("cannot write the layer to disk");
	return write_info(dir, l) < 0 || fsync(dir) < 0 ? -1 : name_layer(s, l);
}

int stage_cache(struct stage *s, const struct tree *t, struct layer *l)
{
	char path[IMAGE_DIGEST + 16];
	autofd cache = fd_dir(s->fd, "cache", 1), dir = -1, meta = -1;

	snprintf(path, sizeof(path), "cache/%s", l->digest);
	dir = cache < 0 ? -1 : fd_dir(s->fd, path, 1);
	meta = dir < 0 ? -1 : create(dir, "meta");
	if (meta < 0 || layer_write_meta(meta, t, l) < 0)
		return -1;
	if (fdatasync(meta) < 0)
		return fail("cannot write the layer to disk");
	return write_info(dir, l) < 0 || fsync(dir) < 0 ? -1 : 0;
}

static void put_list(struct buf *b, const char *key, char **list)
{
	for (; list && *list; list++)
		kv_put_file(b, key, *list);
}

/* A blob that two layers refer to counts once. */
static uint64_t add_blobs(struct buf *known, const struct layer *l)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < l->ndev; i++) {
		if (strstr(buf_cstr(known), l->dev[i].sha))
			continue;
		buf_fmt(known, "%s ", l->dev[i].sha);
		bytes += l->dev[i].blocks * TREE_BLOCK;
	}
	return bytes;
}

int image_sum_sizes(const struct state *st, struct image *img)
{
	autobuf known = BUF_INIT;

	img->size_bytes = 0;
	for (size_t i = 0; i < img->nlayers; i++) {
		autolayer l = {0};

		if (layer_load(st, img->layer[i], &l) < 0)
			return -1;
		img->size_bytes += l.meta_bytes + add_blobs(&known, &l);
	}
	return 0;
}

int image_record(struct image *img, struct buf *b)
{
	for (size_t i = 0; i < img->nlayers; i++)
		kv_put_file(b, "layer", img->layer[i]);
	put_list(b, "env", img->env);
	put_list(b, "entrypoint", img->entrypoint);
	put_list(b, "cmd", img->cmd);
	if (img->workdir && *img->workdir)
		kv_put_file(b, "workdir", img->workdir);
	if (img->user && *img->user)
		kv_put_file(b, "user", img->user);
	buf_fmt(b, "size_bytes = %llu\n", (unsigned long long)img->size_bytes);
	if (sha_hex(b->p, b->len, img->digest) < 0)
		return -1;
	if (!img->created_ms)
		img->created_ms = num_now_ms();
	buf_fmt(b, "created_ms = %llu\n", (unsigned long long)img->created_ms);
	return 0;
}

static int write_record(const struct state *st, struct image *img)
{
	autobuf b = BUF_INIT;
	char path[128];

	if (image_sum_sizes(st, img) < 0 || image_record(img, &b) < 0)
		return -1;
	snprintf(path, sizeof(path), "img/image/%s", img->digest);
	if (!faccessat(st->state, path, F_OK, 0))
		return 0;
	return fd_replace(st->state, path, b.p, b.len, 1);
}

/* Moves all of the stage's KIND ("data", "layer") to img/KIND; what is there already stays. */
static int publish_kind(struct stage *s, const char *kind)
{
	autofree char *there = xasprintf("img/%s", kind);
	autofd from = fd_dir(s->fd, kind, 0), to = fd_dir(s->st->state, there, 0);
	DIR *d = from < 0 || to < 0 ? NULL : fdopendir(dup(from));
	struct dirent *e;
	int r = 0;

	if (!d)
		return fail("cannot publish what was staged in '%s'", s->path);
	while (!r && (e = readdir(d)))
		if (e->d_name[0] != '.' && faccessat(to, e->d_name, F_OK, 0) < 0 &&
		    renameat(from, e->d_name, to, e->d_name) < 0)
			r = fail("cannot publish '%s/%s'", there, e->d_name);
	closedir(d);
	return r || fsync(to) < 0 ? fail("cannot write '%s' to disk", there) : 0;
}

static int publish_locked(struct stage *s, struct image *img)
{
	autofd dir = fd_dir(s->st->state, "img/image", 0);

	if (dir < 0 || publish_kind(s, "data") < 0 || publish_kind(s, "layer") < 0 ||
	    write_record(s->st, img) < 0)
		return -1;
	return fsync(dir) < 0 ? fail("cannot write 'img/image' to disk") : 0;
}

static int set_name(struct stage *s, const struct image *img, const char *ref)
{
	char name[IMAGE_NAME + 1], tag[IMAGE_TAG + 1];

	if (!ref)
		return image_set_name(s->st, NULL, NULL, img->digest);
	return image_split(ref, name, tag) < 0 ? -1 : image_set_name(s->st, name, tag, img->digest);
}

static int publish(struct stage *s, struct image *img, const char *ref, int held)
{
	autofd lock = image_lock(s->st);
	struct failure first;

	if (lock < 0)
		return -1;
	if (!publish_locked(s, img) && !(held ? hold(s, img->digest) : set_name(s, img, ref)))
		return 0;
	/* What was published half-way has no name: out with it, and keep the first message. */
	fail_save(&first);
	image_collect(s->st, s->unmount);
	return fail_again(&first);
}

int stage_publish(struct stage *s, struct image *img, const char *ref)
{
	return publish(s, img, ref, 0);
}

int stage_publish_held(struct stage *s, struct image *img)
{
	return publish(s, img, NULL, 1);
}

/* What is there gives way: without derived metadata a layer is read as it was fetched. */
static int publish_cache(struct stage *s)
{
	autofd from = openat(s->fd, "cache", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	autofd to = from < 0 ? -1 : fd_dir(s->st->state, "img/cache", 1);
	DIR *d = to < 0 ? NULL : fdopendir(dup(from));
	struct dirent *e;
	int r = 0;

	if (!d)
		return from < 0 && errno == ENOENT ? 0 : fail("cannot publish cached layers");
	while (!r && (e = readdir(d)))
		if (e->d_name[0] != '.' &&
		    ((renameat(to, e->d_name, s->fd, "old") < 0 && errno != ENOENT) ||
		     renameat(from, e->d_name, to, e->d_name) < 0))
			r = fail("cannot publish 'img/cache/%s'", e->d_name);
		else if (e->d_name[0] != '.')
			r = fd_rmtree(s->fd, "old");
	closedir(d);
	return r || fsync(to) < 0 ? fail("cannot write 'img/cache' to disk") : 0;
}

int stage_publish_cache(struct stage *s)
{
	autofd lock = image_lock(s->st);

	return lock < 0 || publish_kind(s, "data") < 0 ? -1 : publish_cache(s);
}
