/* Asking a depot whether it is there, with a time limit: what asks may hang for ever, so a child does. */
#ifndef BOX_PROBE_H
#define BOX_PROBE_H
#include "base/buf.h"
#include "store/layer.h"

/*
 * The directory PATH answers, be it that there is none. fail_as(EX_AGAIN) if it does not: errno is
 * ETIMEDOUT if nothing came within conf.depot_timeout.
 */
int probe_depot(const struct conf *conf, const char *path);

/*
 * The blobs of L that are not on this node: IDS gets one line for each, which differs when it is
 * another file, or the same on another mount; nothing if all are here. fails as probe_depot does.
 */
int probe_layer(const struct state *st, const struct layer *l, struct buf *ids);
int probe_remote(const struct state *st, const struct layer *l); /* 1 if L has such blobs */
#endif
