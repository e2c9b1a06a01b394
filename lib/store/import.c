/* An import from end to end: what the source is, its tree and data, its layer, its image. */
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

int import_left_out(const struct import *im, struct buf *note)
{
	if (im->sockets)
		buf_fmt(note, "left out %llu socket%s", (unsigned long long)im->sockets,
			im->sockets > 1 ? "s" : "");
	if (im->xattrs)
		buf_fmt(note, "%s%llu extended attribute%s that an image cannot have",
			im->sockets ? ", " : "left out ", (unsigned long long)im->xattrs,
			im->xattrs > 1 ? "s" : "");
	return im->sockets || im->xattrs;
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

/* Takes back what an archive's "./" has said of the root: it is not an image's. */
static void forget_root(struct tree_inode *root)
{
	tree_clear_xattrs(root);
	root->mode = S_IFDIR | 0755;
	root->uid = root->gid = root->nsec = 0;
	root->mtime = 0;
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
		forget_root(tree_root(im->tree));
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
		return strstr(path, "://")
			       ? failx("'%s' is no file: sbx-img pull takes images from registries",
				       path)
			       : fail("cannot open '%s'", path);
	if (!S_ISDIR(st.st_mode))
		return from_file(im, fd, path, c);
	if (!faccessat(fd, "oci-layout", F_OK, 0) && !faccessat(fd, "index.json", F_OK, 0))
		return from_layout(im, source_dir(im, fd), c);
	c->kind = "directory";
	return import_dir(im, fd);
}

char *import_at(const char *typed)
{
	autobuf b = BUF_INIT;

	for (const char *p = typed; *typed == '/' && *p;) {
		size_t n = strcspn(p, "/");

		if (n && !(n == 1 && *p == '.'))
			buf_fmt(&b, "/%.*s", (int)n, p);
		p += n + (p[n] == '/');
	}
	if (b.len && layer_at_valid(b.p))
		return xstrdup(b.p);
	failx("'%.200s' is no place for a subtree: an absolute path other than /, without '..'",
	      typed);
	return NULL;
}

static int run(struct import *im, const char *path, const char *ref, struct import_config *c)
{
	if (!im->source)
		im->source = path;
	if (import_begin(im) < 0 || from_path(im, path, c) < 0 || import_end(im, c) < 0)
		return fail_more("cannot import '%s'", im->source);
	return stage_publish(im->stage, &c->img, ref);
}

int import_run(const struct state *st, struct import *im, const char *path, const char *ref,
	       char digest[IMAGE_DIGEST + 1])
{
	char name[IMAGE_NAME + 1], tag[IMAGE_TAG + 1];
	struct import_config c = {.kind = "tar"};
	autofree struct stage *stage = xcalloc(1, sizeof(*stage));
	int r;

	if (ref && image_split(ref, name, tag) < 0)
		return -1;
	im->stage = stage;
	r = stage_open(stage, st, im->unmount) < 0 ? -1 : run(im, path, ref, &c);
	if (!r)
		memcpy(digest, c.img.digest, sizeof(c.img.digest));
	import_free(im);
	import_config_free(&c);
	im->stage = NULL;
	return stage_close(stage, r);
}
