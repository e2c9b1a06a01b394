/* What a box has changed as a layer on top of its layers: an image of the box at one moment. */
#ifndef BOX_SNAPSHOT_H
#define BOX_SNAPSHOT_H
#include "box/spec.h"
#include "store/clean.h"
#include "store/stage.h"

struct snapshot {
	const struct clean *clean; /* what does not go in; NULL: all does */
	struct stage stage;
	struct image img;   /* the box's layers and the new one, run as the box's image says */
	struct layer layer; /* the new one */
	uint64_t frozen_us; /* how long the box was held still; 0: it had ended */
	uint64_t sockets, xattrs; /* left out */
};

/* The rules in RULES, NULL: those of share/sbx. To free with clean_free(). */
int snapshot_rules(const struct state *st, const char *rules, struct clean **c);

/*
 * Freezes the box for as long as its changes are read, and stages them as a layer; one that has ended
 * but is still there is kept from being removed instead. On return the box is thawed, and what is in
 * S is complete and on disk, but not published: S->stage is for stage_publish(), which fills in the
 * image's digest. -1 after fail(): EX_GONE without a box, EX_AGAIN without space.
 */
int snapshot_take(const struct state *st, const struct spec *spec, struct snapshot *s);
/* Removes what was staged. R is the result so far, to be handed on: with R < 0 the message is kept. */
int snapshot_close(struct snapshot *s, int r);
#endif
