/*
 * An import from end to end. Everything is made in img/tmp/XXXXXX under a lock; a crash leaves only
 * that directory, which the next import or removal clears. What is published is complete and on
 * disk.
 */
#include "store/import.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
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
#include "store/import_src.h"

void import_count(struct import *im, uint64_t bytes)
{
	im->read += bytes;
	if (im->progress)
		im->progress(im, im->arg);
}

/*
 * Attributes that steer overlayfs would let an image hide or redirect what lies below it, so they
 * are no part of an image (Documentation/filesystems/overlayfs.rst).
 */
int import_xattr(struct import *im, struct tree_inode *ino, const char *name, const void *val,
		 size_t len)
{
	static const char *const kept[] = {"user.", "trusted.", "security.",
					   "system.posix_acl_access", "system.posix_acl_default"};

	if (strncmp(name, "trusted.overlay.", 16) != 0)
		for (size_t i = 0; i < sizeof(kept) / sizeof(*kept); i++)
			if (!strncmp(name, kept[i], strlen(kept[i])))
				return tree_set_xattr(ino, name, val, len);
	im->xattrs++;
	return 0;
}

void import_config_free(struct import_config *c)
{
	image_free(&c->img);
}

/* A tar that begins like this is an image, not a root file system. */
static int looks_like_image(const char *name)
{
	static const char *const words[] = {"oci-layout", "index.json", "manifest.json",
					    "repositories", "blobs"};
	size_t hex;

	while (!strncmp(name, "./", 2))
		name += 2;
	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++) {
		size_t n = strlen(words[i]);

		if (!strncmp(name, words[i], n) && (!name[n] || name[n] == '/'))
			return 1;
	}
	hex = strspn(name, "0123456789abcdef");
	return hex == 64 &&
	       (name[64] == '/' || !strcmp(name + 64, ".tar") || !strcmp(name + 64, ".json"));
}

static int from_layout(struct import *im, struct source *s, struct import_config *c)
{
	int r;

	if (source_has(s, "index.json") && source_has(s, "oci-layout"))
		r = import_oci(im, s, c);
	else if (source_has(s, "manifest.json"))
		r = import_docker(im, s, c);
	else
		r = failx("it looks like an image archive and has neither index.json nor "
			  "manifest.json");
	source_free(s);
	return r;
}

static int next_entry(struct archive *a, struct archive_entry **e)
{
	int r = archive_read_next_header(a, e);

	if (r == ARCHIVE_OK || r == ARCHIVE_WARN || r == ARCHIVE_EOF)
		return r == ARCHIVE_EOF ? 0 : 1;
	return failx("cannot read the archive: %s",
		     archive_error_string(a) ? archive_error_string(a) : "it is damaged");
}

/* A tar of any kind; the first entry that is not "./" tells an image from a root file system. */
static int from_tar(struct import *im, struct archive *a, const char *path, struct import_config *c)
{
	struct archive_entry *e;
	struct source *s;
	const char *name;
	int r = next_entry(a, &e);

	if (!r)
		return failx("the archive is empty");
	name = r > 0 ? archive_entry_pathname(e) : NULL;
	if (name && (!strcmp(name, "./") || !strcmp(name, "."))) {
		/* The root itself: harmless to take even if an image follows. */
		if (import_tar_entry(im, a, e, 0) < 0)
			return -1;
		r = next_entry(a, &e);
		name = r > 0 ? archive_entry_pathname(e) : NULL;
	}
	if (r < 0)
		return -1;
	if (name && looks_like_image(name)) {
		tree_free(im->tree);
		im->tree = tree_new();
		/* Only an uncompressed file can be read again from the middle. */
		s = source_archive(im, a, e, archive_filter_count(a) == 1 ? path : NULL);
		return s ? from_layout(im, s, c) : -1;
	}
	c->kind = "tar";
	if (r && import_tar_entry(im, a, e, 0) < 0)
		return -1;
	return r ? import_tar(im, a, 0) : 0;
}

static int from_file(struct import *im, int fd, const char *path, struct import_config *c)
{
	struct stream *s = stream_fd(im, fd, 0);
	struct archive *a = stream_reader(s, STREAM_TAR);
	struct stat st;
	int r = -1;

	if (a && !fstat(fd, &st) && S_ISREG(st.st_mode))
		im->total = (uint64_t)st.st_size;
	else
		path = NULL;
	if (a)
		r = from_tar(im, a, path, c);
	archive_read_free(a);
	stream_close(s);
	return r;
}

static int from_path(struct import *im, const char *path, struct import_config *c)
{
	autofd fd = -1;
	struct stat st;

	if (!strcmp(path, "-"))
		return from_file(im, STDIN_FILENO, NULL, c);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	if (fd < 0 || fstat(fd, &st) < 0)
		return fail("cannot open '%s'", path);
	if (!S_ISDIR(st.st_mode))
		return from_file(im, fd, path, c);
	if (!faccessat(fd, "oci-layout", F_OK, 0) && !faccessat(fd, "index.json", F_OK, 0))
		return from_layout(im, source_dir(im, fd), c);
	c->kind = "directory";
	return import_dir(im, fd);
}

struct layer {
	char digest[IMAGE_DIGEST + 1];
	char meta[SHA_HEX + 1], data[SHA_HEX + 1];
	uint64_t meta_bytes, data_bytes, files;
};

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

static int create(int dir, const char *name)
{
	int fd = openat(dir, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	return fd < 0 ? fail("cannot make a staging file") : fd;
}

static int write_info(int dir, const struct layer *l, const char *path, const char *kind)
{
	autobuf b = BUF_INIT;
	autofd fd = create(dir, "info");

	kv_put_file(&b, "meta_sha256", l->meta);
	kv_put_file(&b, "data_sha256", l->data);
	buf_fmt(&b, "meta_bytes = %llu\ndata_bytes = %llu\nfiles = %llu\n",
		(unsigned long long)l->meta_bytes, (unsigned long long)l->data_bytes,
		(unsigned long long)l->files);
	kv_put_file(&b, "kind", kind);
	kv_put_file(&b, "source", path);
	if (fd < 0)
		return -1;
	if (fd_write_all(fd, b.p, b.len) < 0 || fdatasync(fd) < 0)
		return fail("cannot write the layer's info");
	return 0;
}

/* Everything of a layer, in the staging directory's "layer", on disk. */
static int build(const struct state *st, struct import *im, const char *path,
		 struct import_config *c, struct layer *l)
{
	autofd dir = fd_dir(im->stage, "layer", 1), data = -1, meta = -1;
	struct erofs_stats stats;
	char both[2 * SHA_HEX + 3], known[128];
	uint64_t blocks;

	if (dir < 0 || (data = create(dir, "data")) < 0 || (meta = create(dir, "meta")) < 0)
		return -1;
	im->data = import_data_open(data);
	if (from_path(im, path, c) < 0 ||
	    import_data_finish(im->data, im->tree, &blocks, l->data) < 0 ||
	    erofs_write(meta, im->tree, blocks, l->data, &stats) < 0 || hash_fd(meta, l->meta) < 0)
		return -1;
	snprintf(both, sizeof(both), "%s\n%s\n", l->meta, l->data);
	if (sha_hex(both, strlen(both), l->digest) < 0)
		return -1;
	l->meta_bytes = stats.bytes;
	l->files = stats.inodes;
	l->data_bytes = blocks * TREE_BLOCK;
	snprintf(known, sizeof(known), "img/layer/%s", l->digest);
	if (!faccessat(st->state, known, F_OK, 0))
		return 0; /* it is there already: no use in waiting for the disk */
	if (fdatasync(data) < 0 || fdatasync(meta) < 0)
		return fail("cannot write the layer to disk");
	return write_info(dir, l, path, c->kind) < 0 || fsync(dir) < 0 ? -1 : 0;
}

static void put_list(struct buf *b, const char *key, char **list)
{
	for (; list && *list; list++)
		kv_put_file(b, key, *list);
}

static int write_record(const struct state *st, const struct layer *l, const struct image *img,
			char digest[IMAGE_DIGEST + 1])
{
	autobuf b = BUF_INIT;
	char path[128];

	kv_put_file(&b, "layer", l->digest);
	put_list(&b, "env", img->env);
	put_list(&b, "entrypoint", img->entrypoint);
	put_list(&b, "cmd", img->cmd);
	if (img->workdir && *img->workdir)
		kv_put_file(&b, "workdir", img->workdir);
	if (img->user && *img->user)
		kv_put_file(&b, "user", img->user);
	buf_fmt(&b, "size_bytes = %llu\n", (unsigned long long)l->meta_bytes + l->data_bytes);
	if (sha_hex(b.p, b.len, digest) < 0)
		return -1;
	buf_fmt(&b, "created_ms = %llu\n",
		(unsigned long long)(img->created_ms ? img->created_ms : num_now_ms()));
	snprintf(path, sizeof(path), "img/image/%s", digest);
	if (!faccessat(st->state, path, F_OK, 0))
		return 0;
	return fd_replace(st->state, path, b.p, b.len, 1);
}

static int sync_dir(const struct state *st, const char *path)
{
	autofd fd = fd_dir(st->state, path, 0);

	return fd < 0 || fsync(fd) < 0 ? fail("cannot write '%s' to disk", path) : 0;
}

static int publish_locked(const struct state *st, struct import *im, const struct layer *l,
			  const struct image *img, const char *ref, char digest[IMAGE_DIGEST + 1])
{
	char path[128], name[IMAGE_NAME + 1], tag[IMAGE_TAG + 1];

	snprintf(path, sizeof(path), "img/layer/%s", l->digest);
	if (renameat(im->stage, "layer", st->state, path) < 0 && errno != EEXIST &&
	    errno != ENOTEMPTY)
		return fail("cannot publish the layer");
	if (sync_dir(st, "img/layer") < 0 || write_record(st, l, img, digest) < 0 ||
	    sync_dir(st, "img/image") < 0)
		return -1;
	if (ref)
		return image_split(ref, name, tag) < 0 ? -1 : image_set_name(st, name, tag, digest);
	return image_set_name(st, NULL, NULL, digest);
}

static int publish(const struct state *st, struct import *im, const struct layer *l,
		   const struct image *img, const char *ref, char digest[IMAGE_DIGEST + 1])
{
	autofd lock = image_lock(st);

	if (lock < 0)
		return -1;
	if (!publish_locked(st, im, l, img, ref, digest))
		return 0;
	/* What was published half-way has no name: out with it, and keep the first message. */
	autofree char *text = xstrdup(fail_text());

	image_collect(st, im->unmount);
	return failx("%s", text);
}

/* The lock on the directory itself tells a sweep that its import lives. */
static int open_stage(const struct state *st, struct import *im, char path[PATH_MAX])
{
	autofd lock = image_lock(st);

	if (lock < 0 || image_sweep(st) < 0 || image_collect(st, im->unmount) < 0)
		return -1;
	if (snprintf(path, PATH_MAX, "%s/img/tmp/XXXXXX", st->conf.state) >= PATH_MAX)
		return failx("the state directory's path is too long");
	if (!mkdtemp(path))
		return fail("cannot make a staging directory in '%s/img/tmp'", st->conf.state);
	im->stage = fd_dir(AT_FDCWD, path, 0);
	if (im->stage < 0)
		return -1;
	return flock(im->stage, LOCK_EX) < 0 ? fail("cannot lock '%s'", path) : 0;
}

int import_run(const struct state *st, struct import *im, const char *path, const char *ref,
	       char digest[IMAGE_DIGEST + 1])
{
	char stage[PATH_MAX], name[IMAGE_NAME + 1], tag[IMAGE_TAG + 1];
	struct import_config c = {.kind = "tar"};
	struct layer l = {0};
	int r;

	if ((ref && image_split(ref, name, tag) < 0) || open_stage(st, im, stage) < 0)
		return -1;
	im->tree = tree_new();
	r = build(st, im, path, &c, &l);
	if (r < 0)
		fail_more("cannot import '%s'", path);
	else
		r = publish(st, im, &l, &c.img, ref, digest);
	import_data_close(im->data);
	tree_free(im->tree);
	import_config_free(&c);
	if (r < 0) {
		autofree char *text = xstrdup(fail_text());

		fd_rmtree(AT_FDCWD, stage);
		failx("%s", text);
	} else {
		r = fd_rmtree(AT_FDCWD, stage);
	}
	fd_close(&im->stage);
	return r;
}
