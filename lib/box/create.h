/* Making boxes: the directories and the spec here, the box itself by its keeper. */
#ifndef BOX_CREATE_H
#define BOX_CREATE_H
#include <stdint.h>

#include "base/opt.h"
#include "store/compose.h"
#include "store/state.h"

struct box_want {
	const struct compose *from; /* the images, composed */
	const char *ways;	    /* lines of ways_find(), NULL: none */
	const char *user, *workdir; /* NULL: the images' */
	const char *name;	    /* NULL: none */
	const char *hostname;	    /* NULL: the tail of the ID */
	const char *parent;	    /* NULL: none; the ID of the box it is a fork of */
	const char *net, *seccomp;
	int no_new_privs;
	int trace; /* see spec.h */
	uint64_t mem_bytes, pids, cpu_milli, ttl_ms, idle_ms, max_output;
	struct opt_list env, labels; /* K=V */
};

/* A box on its way: the keeper says on READY when a command can run in it. */
struct box_making {
	char id[ID_MAX + 1];
	int ready; /* the keeper (KEEP_FD_READY); -1: none under way */
};

/* Room, memory and disk for one more box? fail_as(EX_AGAIN) says what is short. */
int box_admit(const struct state *st);
/* What all boxes of this image share is put in place, and the caller moves to the keepers' group. The caller holds image_hold(). */
int box_prepare_node(const struct state *st, const struct image *img);

/*
 * Starts to make one box. 0: its keeper runs and M is filled in. -1 after fail(): nothing is left.
 * To be called with image_hold() held; the spec is written when it returns.
 */
int box_make(const struct state *st, const struct box_want *want, struct box_making *m);
/* Waits for the keeper. 0: the box runs; -1 after fail(): nothing is left of it. */
int box_made(const struct state *st, struct box_making *m);
/* Its ID has been handed on: from now on the box does not end with us. */
void box_told(struct box_making *m);
/* Its ID cannot be handed on: nothing is left of the box. */
void box_untold(const struct state *st, struct box_making *m);

/* Ends a box and removes all of it, whatever state it is in; best effort, sbx-reap does the rest.
 */
void box_undo(const struct state *st, const char *id);
#endif
