/* The depot's directory itself, for the modules that write it. */
#ifndef STORE_DEPOT_DIR_H
#define STORE_DEPOT_DIR_H
#include "store/depot.h"
#include "store/blob.h"

/* A directory of one's own in img/tmp. */
struct depot_tmp {
	const struct state *depot;
	int dir; /* img/tmp */
	int fd;	 /* dir/name */
	char name[80];
};

/*
 * Directories of a depot: PATH is below it, and no part of it a link or a mount. -1 after fail(),
 * which says so.
 */
int depot_dir(const struct state *depot, const char *path);
/* The directory that PATH lies in; NAME: its last part. */
int depot_parent(const struct state *depot, const char *path, const char **name);
int depot_mkdir(const struct state *depot, const char *path); /* it may be there */

/* Clears what is older than a day and makes a new one. */
int depot_tmp_open(struct depot_tmp *t, const struct state *depot);
int depot_tmp_close(struct depot_tmp *t, int r); /* R is handed on, with its message */

int depot_create(int dir, const char *name); /* a new file, read and write */
int depot_sync(int fd, const char *what);    /* on disk, as far as the file system knows that */
/* T/NAME becomes DEPOT/TO, over what is there; a directory that is there stays. */
int depot_publish(struct depot_tmp *t, const char *name, const char *to);
/* DEPOT/TO gets this content in one step. */
int depot_put(struct depot_tmp *t, const char *to, const void *p, size_t n);

/* A blob of the right length is there. */
int depot_has_blob(const struct state *depot, const struct tree_blob *b);
int depot_has_layer(const struct state *depot, const char *digest);

/*
 * Copies FROM, which must have BYTES bytes with that SHA-256, to TO (-1: only looks). -1 after fail(),
 * with WHAT and PATH in the message.
 */
int depot_copy(int from, int to, uint64_t bytes, const char *sha, const char *what,
	       const char *path);

/* The same, from PATH. */
int depot_copy_path(const char *path, int to, uint64_t bytes, const char *sha, const char *what);

/* Metadata of L at PATH, verified, as a tree. NULL after fail(). */
struct tree *depot_read_tree(const char *path, const struct layer *l);
#endif
