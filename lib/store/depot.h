/*
 * Depots: a directory that nodes share, laid out as a node's STATE, with no lock in it (flock is not
 * to be relied upon there). All but names is content-addressed, so whoever publishes twice
 * publishes the same; everything is made in img/tmp/NODE.XXXXXX and published by a plain rename,
 * names last. A push cut off leaves only that directory, which a push a day later clears.
 *
 *   DEPOT/img/{layer,data,image,name,tmp}   as in store/image.h and store/layer.h
 *   DEPOT/img/index/SHA                     which files lie in a blob (depot_index.h)
 *   DEPOT/img/from/LOCAL                    the digest of the layer a node's layer LOCAL became
 */
#ifndef STORE_DEPOT_H
#define STORE_DEPOT_H
#include "store/image.h"
#include "store/layer.h"

/*
 * A depot as a state: only its directory and its path are set, and what reads images and layers
 * works on it. With MAKE what is absent is made. The path becomes absolute, links resolved.
 */
int depot_open(struct state *depot, const struct conf *conf, const char *path, int make);
void depot_close(struct state *depot);

struct depot_job {
	const struct state *st, *depot;
	const char *ref;  /* the image, as it was typed */
	const char *name; /* NAME[:TAG] at the other side; NULL: as it is called */
	int plain;	  /* push: share no files with blobs that are there */
	int move;	  /* fetch: also layers that another depot still has */
	/* fetch: as probe_layer of box/probe.h, which bounds the time */
	int (*probe)(const struct state *st, const struct layer *l, struct buf *ids);
	int (*unmount)(const char *path); /* as image_gc takes it */
	char digest[IMAGE_DIGEST + 1];	  /* result: the image's digest at the other side */
	uint64_t copied, shared;	  /* result: bytes of data written, and found there */
};

/* Copies the image into the depot, verified while it is read. -1 after fail(). */
int depot_push(struct depot_job *job);
/*
 * Brings the record, the name and the metadata of its layers, verified; the data stay in the depot.
 * A layer that is here whole stays as it is, and one whose data another depot has is read from there
 * still, unless MOVE is set.
 */
int depot_fetch(struct depot_job *job);
/* Copies all data of a fetched image here, verified. DEPOT is not used. */
int depot_cache(struct depot_job *job);
#endif
