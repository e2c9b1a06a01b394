/*
 * Two writers of libarchive in a row: a tar, whose bytes are hashed for the diff_id, and a raw
 * stream that compresses them, hashed for the digest.
 */
#include "store/export_tar.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "base/buf.h"
#include "base/die.h"
#include "base/fd.h"
#include "store/digest.h"
#include "store/tree_map.h"

enum { PIECE = 256 * 1024 };

struct out {
	struct image_tree *it;
	const struct tree *t;
	struct archive *tar, *raw;
	EVP_MD_CTX *diff, *digest;
	int fd;
	uint64_t size;
	struct buf path;
	struct tree_map first; /* of files with several names: the path that was written */
	char *piece;
};

static la_ssize_t to_fd(struct archive *a, void *arg, const void *p, size_t n)
{
	struct out *o = arg;

	EVP_DigestUpdate(o->digest, p, n);
	o->size += n;
	if (!fd_write_all(o->fd, p, n))
		return (la_ssize_t)n;
	archive_set_error(a, errno, "%s", strerror(errno));
	return -1;
}

static la_ssize_t to_raw(struct archive *a, void *arg, const void *p, size_t n)
{
	struct out *o = arg;

	EVP_DigestUpdate(o->diff, p, n);
	if (archive_write_data(o->raw, p, n) == (la_ssize_t)n)
		return (la_ssize_t)n;
	archive_set_error(a, archive_errno(o->raw), "%s", archive_error_string(o->raw));
	return -1;
}

static int failed(struct archive *a)
{
	errno = archive_errno(a);
	return failx("cannot write a layer: %s",
		     archive_error_string(a) ? archive_error_string(a) : strerror(errno));
}

/* A gzip header without a time, so that the same layer gives the same bytes. */
static int compressor(struct archive *a, enum export_compress c)
{
	if (c == EXPORT_NONE)
		return archive_write_add_filter_none(a);
	if (c == EXPORT_ZSTD)
		return archive_write_add_filter_zstd(a);
	return archive_write_add_filter_gzip(a) == ARCHIVE_OK
		       ? archive_write_set_filter_option(a, "gzip", "timestamp", NULL)
		       : ARCHIVE_FATAL;
}

static int open_raw(struct out *o, enum export_compress c)
{
	struct archive_entry *e = archive_entry_new();
	int r;

	archive_entry_set_filetype(e, AE_IFREG);
	r = compressor(o->raw, c) != ARCHIVE_OK ||
	    archive_write_set_format_raw(o->raw) != ARCHIVE_OK ||
	    archive_write_set_bytes_in_last_block(o->raw, 1) != ARCHIVE_OK ||
	    archive_write_open(o->raw, o, NULL, to_fd, NULL) != ARCHIVE_OK ||
	    archive_write_header(o->raw, e) != ARCHIVE_OK;
	archive_entry_free(e);
	return r ? failed(o->raw) : 0;
}

/* Names are bytes: those that are not UTF-8 get the header that says so. */
static int open_tar(struct out *o)
{
	if (archive_write_set_format_pax(o->tar) != ARCHIVE_OK ||
	    archive_write_set_format_option(o->tar, "pax", "xattrheader", "SCHILY") != ARCHIVE_OK ||
	    archive_write_set_bytes_in_last_block(o->tar, 1) != ARCHIVE_OK ||
	    archive_write_open(o->tar, o, NULL, to_raw, NULL) != ARCHIVE_OK)
		return failed(o->tar);
	return 0;
}

static int write_header(struct out *o, struct archive_entry *e)
{
	int r = archive_write_header(o->tar, e);

	archive_entry_free(e);
	/* A warning: the name was written as bytes (hdrcharset=BINARY). */
	return r == ARCHIVE_OK || r == ARCHIVE_WARN ? 0 : failed(o->tar);
}

static struct archive_entry *entry(const char *path, const struct tree_inode *ino)
{
	struct archive_entry *e = archive_entry_new();

	if (!e)
		xnomem();
	archive_entry_set_pathname(e, path);
	archive_entry_set_mode(e, ino->mode);
	archive_entry_set_uid(e, ino->uid);
	archive_entry_set_gid(e, ino->gid);
	archive_entry_set_mtime(e, ino->mtime, ino->nsec);
	archive_entry_set_size(e, S_ISREG(ino->mode) ? (la_int64_t)ino->size : 0);
	for (const struct tree_xattr *x = ino->xattr; x; x = x->next)
		archive_entry_xattr_add_entry(e, x->bytes, x->bytes + x->nlen + 1, x->vlen);
	if (S_ISLNK(ino->mode))
		archive_entry_set_symlink(e, ino->target);
	if (S_ISCHR(ino->mode) || S_ISBLK(ino->mode)) {
		archive_entry_set_rdevmajor(e, ino->rdev >> 8 & 0xfff);
		archive_entry_set_rdevminor(e, (ino->rdev & 0xff) | (ino->rdev >> 12 & 0xfff00));
	}
	return e;
}

static int content(struct out *o, const struct tree_inode *ino)
{
	for (uint64_t off = 0; off < ino->size;) {
		ssize_t n = image_tree_read(o->it, o->t, ino, off, o->piece, PIECE);

		if (n < 0)
			return -1;
		if (archive_write_data(o->tar, o->piece, (size_t)n) != n)
			return failed(o->tar);
		off += (uint64_t)n;
	}
	return 0;
}

static int whiteout(struct out *o, const char *dir, const char *name)
{
	const struct tree_inode empty = {.mode = S_IFREG};
	autofree char *path = xasprintf("%s.wh.%s", dir, name);

	return write_header(o, entry(path, &empty));
}

static int hard_link(struct out *o, const char *path, const char *target,
		     const struct tree_inode *ino)
{
	struct archive_entry *e = entry(path, ino);

	archive_entry_set_size(e, 0);
	archive_entry_set_hardlink(e, target);
	return write_header(o, e);
}

static int one(struct out *o, const struct tree_inode *ino)
{
	const char *path = o->path.p, *target;

	if (ino->names > 1 && !S_ISDIR(ino->mode)) {
		target = tree_map_get(&o->first, ino);
		if (target)
			return hard_link(o, path, target, ino);
		tree_map_set(&o->first, ino, xstrdup(path));
	}
	if (write_header(o, entry(path, ino)) < 0)
		return -1;
	return S_ISREG(ino->mode) ? content(o, ino) : 0;
}

/* Depth is bounded by TREE_DEPTH. */
static int directory(struct out *o, const struct tree_inode *dir)
{
	struct tree_dentry **child = tree_sorted(dir);
	size_t len = o->path.len;
	int r = 0;

	for (size_t i = 0; !r && i < dir->n; i++) {
		const struct tree_inode *ino = child[i]->ino;

		if (S_ISCHR(ino->mode) && !ino->rdev) {
			r = whiteout(o, buf_cstr(&o->path), child[i]->name);
			continue;
		}
		buf_add(&o->path, child[i]->name, child[i]->len);
		if (!strncmp(child[i]->name, ".wh.", 4))
			r = failx("the name '%s' would remove another in an image of this format",
				  o->path.p);
		if (S_ISDIR(ino->mode))
			buf_chr(&o->path, '/');
		if (!r)
			r = one(o, ino);
		if (!r && S_ISDIR(ino->mode))
			r = directory(o, ino);
		o->path.len = len;
		o->path.p[len] = 0;
	}
	free(child);
	return r;
}

static int write_all(struct out *o, int root, enum export_compress c)
{
	if (open_raw(o, c) < 0 || open_tar(o) < 0)
		return -1;
	if (root && write_header(o, entry("./", tree_root(o->t))) < 0)
		return -1;
	if (directory(o, tree_root(o->t)) < 0)
		return -1;
	if (archive_write_close(o->tar) != ARCHIVE_OK)
		return failed(o->tar);
	return archive_write_close(o->raw) == ARCHIVE_OK ? 0 : failed(o->raw);
}

static void free_firsts(struct tree_map *m)
{
	for (size_t i = 0; i < m->cap; i++)
		free(m->pair[i].val);
	tree_map_free(m);
}

int export_tar(struct image_tree *it, const struct tree *t, int root, enum export_compress compress,
	       int fd, struct export_blob *b)
{
	struct out o = {.it = it, .t = t, .fd = fd, .diff = sha_new(), .digest = sha_new()};
	int r;

	o.tar = archive_write_new();
	o.raw = archive_write_new();
	if (!o.tar || !o.raw)
		xnomem();
	o.piece = xmalloc(PIECE);
	r = write_all(&o, root, compress);
	if (r < 0) {
		archive_write_fail(o.tar);
		archive_write_fail(o.raw);
	} else if (sha_end(o.diff, b->diff) < 0 || sha_end(o.digest, b->digest) < 0) {
		r = -1;
	}
	archive_write_free(o.tar);
	archive_write_free(o.raw);
	EVP_MD_CTX_free(o.diff);
	EVP_MD_CTX_free(o.digest);
	free_firsts(&o.first);
	buf_free(&o.path);
	free(o.piece);
	b->size = o.size;
	return r;
}
