/* One box as its directories show it: nothing is asked of any process, so nothing can hang. */
#ifndef BOX_VIEW_H
#define BOX_VIEW_H
#include <stdint.h>

#include "base/kv.h"
#include "box/client.h"
#include "box/spec.h"
#include "store/state.h"

struct view {
	char id[ID_MAX + 1];
	enum box_state state;
	int known; /* spec is filled in; 0: it is not written yet, or is damaged */
	struct spec spec;
	uint64_t pid;	   /* of the box's pid 1; 0: none */
	uint64_t since_ms; /* when it came to its present state; 0: unknown */
	struct kv end;	   /* of a dead box: cause, time_ms ... (see box_end); else empty */
};

/* 1: filled in, free it; 0: there is no such box (any more); -1 after fail(): filled in all the
 * same, but the spec is damaged. */
int view_load(const struct state *st, const char *id, struct view *v);
void view_free(struct view *v);
#define autoview __attribute__((cleanup(view_free))) struct view

/* Milliseconds a living box has until its ttl ends it; -1: it has none, or is not running. */
int64_t view_ttl_left(const struct view *v, uint64_t now_ms);
const char *view_cause(const struct view *v); /* NULL unless it is dead */

/* K=V,K=V ... of its labels into B; empty if there are none. */
void view_labels(const struct view *v, struct buf *b);
/* Does it have the label K=V, or K with any value? */
int view_has_label(const struct view *v, const char *want);
/* Was it made from REF: NAME[:TAG], or 8 or more digits of the digest? */
int view_has_image(const struct view *v, const char *ref);

/* All IDs of this node's boxes in order of their making, into one block: free it. */
int view_ids(const struct state *st, char (**ids)[ID_MAX + 1], size_t *n);

/*
 * Lines "DIGEST DEPOT" of each layer whose data are not all on this node, and "DIGEST DEPOT: cause"
 * of each that is in trouble; waits at most conf.depot_timeout for a depot.
 */
void view_layers(const struct state *st, const struct spec *s, struct buf *where,
		 struct buf *errors);
#endif
