/* What a node has that nobody needs any more. */
#ifndef BOX_REAP_H
#define BOX_REAP_H
#include <stdint.h>

#include "store/state.h"

struct reap {
	const struct state *st;
	uint64_t keep_ms; /* dead boxes stay this long after their end */
	int dry_run;	  /* report only */
	/* Called for each thing removed (or that would be): its ID, slot or name, and why. */
	void (*report)(const char *what, const char *why);
	void (*failed)(
		void); /* one thing could not be removed; fail_text() says why; the rest goes on */
};

/*
 * Removes boxes that are dead, were never finished or are past their time with a keeper that does
 * not act; links to boxes that do not exist; mounts of layers no box uses. Safe beside anything else
 * that runs, another reap too: what somebody holds is left alone. -1 after fail() if it cannot look.
 */
int reap(const struct reap *r);
#endif
