/* What all boxes of a node share: one mount per layer, one /dev, one empty mount namespace. */
#ifndef BOX_NODE_H
#define BOX_NODE_H
#include "store/state.h"

/*
 * Mounts the layer on RUN/layer/DIGEST unless it is, its metadata verified. Many at once are safe; it
 * stays until reaped. A layer with data in a depot is asked for there each time (at most for
 * conf.depot_timeout, then fail_as(EX_AGAIN)): one whose depot has come back on another mount, or
 * whose data were cached since, is mounted anew, and boxes that have it keep what they have.
 */
int node_mount_layer(const struct state *st, const char *digest);
/* The same, but only for a layer that is mounted. */
int node_renew_layer(const struct state *st, const char *digest);
int node_new_layer(const struct state *st, const char *digest);	 /* a detached mount of its own */
int node_open_layer(const struct state *st, const char *digest); /* fd of its root; the caller's */

/* Mounts RUN/dev, the device nodes every box may use, unless it is; returns an fd of its root. */
int node_mount_dev(const struct state *st);

/*
 * RUN/empty pins a mount namespace with one empty directory in it. Keepers live there, and each
 * box's namespace starts as a copy of it: one mount, however many a node has. Returns its fd.
 */
int node_open_empty(const struct state *st);

/* Unmounts RUN/dev, RUN/empty (unless KEEP_DEV) and the layers for which KEEP says 0. Those in use
 * stay without an error. */
int node_unmount_unused(const struct state *st, int (*keep)(void *arg, const char *digest),
			void *arg, int keep_dev);
#endif
