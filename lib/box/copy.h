/*
 * Copying between the node and a box. Two processes: the host half has the caller's rights on the
 * node, the box half the rights of the box's root and only the box's files; a tar stream flows
 * through a pipe from one to the other.
 */
#ifndef BOX_COPY_H
#define BOX_COPY_H
#include <stddef.h>
#include <stdint.h>

#include "store/state.h"

struct copy {
	const char *id;
	int into; /* the node's files into the box; else out of it */
	const char *const *src;
	size_t nsrc;
	const char *dst;   /* "-" as SRC or DST (alone) is a tar stream on stdin or stdout */
	const char *owner; /* NAME|UID[:GROUP|GID] of what is copied in; NULL: the box's user */
	uint64_t max_size; /* bytes of content at most */
	int follow;	   /* a SRC that is a link: copy what it leads to */
	int verbose, quiet;
	void (*say)(void); /* prints fail_text(), in either half */
};

/* Returns the exit code: 0, EX_NO if something was left out, or worse; everything was said. */
int copy_run(const struct state *st, const struct copy *c);
#endif
