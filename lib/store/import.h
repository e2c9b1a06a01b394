/* What is being imported: the sources fill a tree and a data file, and say what they left out. */
#ifndef STORE_IMPORT_H
#define STORE_IMPORT_H
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "store/image.h"
#include "store/blob.h"
#include "store/stage.h"
#include "store/tree.h"

#define IMPORT_COLLAPSE (3ull << 30) /* bytes: what the tools take if nothing is said */

struct import;
struct stat;

/*
 * For a source that is more than plain files: what import_dir() asks about each of them, and about the
 * root. PATH is relative to it; ST says how it is on disk.
 */
struct import_filter {
	int (*skip)(void *arg, const char *path, const struct stat *st); /* 1: leave it out */
	void (*owner)(void *arg, struct tree_inode *ino); /* INO has the ids on disk */
	/* Instead of import_xattr(). -1 after fail(). */
	int (*xattr)(void *arg, struct import *im, struct tree_inode *ino, const char *name,
		     void *val, size_t len);
	void *arg;
};

struct import {
	struct tree *tree; /* all that was read so far */
	struct blob *data; /* of the group being read */
	struct stage *stage;
	uint64_t collapse;   /* bytes: see import_next() */
	struct tree *before; /* as the layers written so far make it; NULL: there is none */
	unsigned groups;     /* written */
	int begun;	     /* one layer at least is in the group */
	const char *source;  /* for people; NULL: the path that is imported */
	uint64_t read;	     /* bytes of the source so far */
	uint64_t total;	     /* bytes of the source, 0 if not known */
	uint64_t sockets;    /* left out: they cannot be used from an image */
	uint64_t xattrs;     /* left out: of overlayfs, or of a kind EROFS does not know */
	void (*progress)(const struct import *im, void *arg);
	void *arg;
	int (*unmount)(const char *path);   /* as image_gc takes it */
	const struct import_filter *filter; /* NULL: none */
	const char *at; /* NULL, or where the source's root lies in the layer: see import_at() */
};

/* What a source says about running it: becomes the image record. Free with import_config_free. */
struct import_config {
	struct image img; /* env, entrypoint, cmd, workdir, user, created_ms */
	const char *kind; /* "directory", "tar", "oci", "docker" */
};
void import_config_free(struct import_config *c);

void import_count(struct import *im, uint64_t bytes); /* so many more bytes were read */

/* An attribute of the source: kept, or counted in im->xattrs. */
int import_xattr(struct import *im, struct tree_inode *ino, const char *name, const void *val,
		 size_t len);

/*
 * One of our layers is a group of the source's. import_next comes before each of the source's layers,
 * of PACKED bytes as it lies there: it joins the group if the group's data and PACKED are below
 * im->collapse, or if an image cannot have one layer more; else the group is written. Sources without
 * layers never call it. import_end writes the last group. Digests go to c->img. -1 after fail().
 */
int import_begin(struct import *im);
int import_next(struct import *im, struct import_config *c, uint64_t packed);
int import_end(struct import *im, struct import_config *c);
void import_free(struct import *im);

/* Each reads the whole of its source. -1 after fail(). */
int import_dir(struct import *im, int fd);
struct archive;
struct archive_entry;
int import_tar(struct import *im, struct archive *a, int layer); /* layer: obey whiteouts */
int import_tar_entry(struct import *im, struct archive *a, struct archive_entry *e, int layer);
struct source;
int import_oci(struct import *im, struct source *s, struct import_config *c);
int import_docker(struct import *im, struct source *s, struct import_config *c);

/*
 * A path for im->at out of what was typed: absolute, not "/", without "..", empty parts and ".". To
 * free; NULL after fail().
 */
char *import_at(const char *typed);

/*
 * Any source: a directory, a file, or "-" for stdin; what it holds is found out. Staged, made
 * durable and published under its digest; the record is added and, if NAME is not NULL, named.
 * DIGEST gets the image's. -1 after fail().
 */
int import_run(const struct state *st, struct import *im, const char *path, const char *name,
	       char digest[IMAGE_DIGEST + 1]);
/* Puts into NOTE what could not be taken, for people; 0 if that is nothing. */
int import_left_out(const struct import *im, struct buf *note);
#endif
