/* Many boxes of one kind, a few under way at a time: what sbx-create and sbx-fork do. */
#ifndef BOX_CREATE_MANY_H
#define BOX_CREATE_MANY_H
#include "base/buf.h"
#include "box/create.h"

struct create_many {
	struct box_want *want;
	uint64_t count;
	int (*told)(const char *id); /* hands the ID on; -1 after fail(): the box is removed */
	void (*failed)(void);	     /* something failed: fail_text() says what */
};

/*
 * Puts in place what they share, then makes them in order. After a failure or a signal (INT, TERM,
 * HUP) no new one is begun; those under way are still made and handed on. Returns the exit code, 0 if
 * all were made, or -1 after fail() when none was begun. The caller holds image_hold().
 */
int create_many(const struct state *st, const struct create_many *m);

/* What is wrong with names, labels (K=V) and number as they were asked for, as a fail(); or 0. */
int create_check(const struct box_want *want, const struct opt_list *labels, uint64_t count);
#endif
