/* Many boxes of one kind, a few under way at a time: what sbx-create and sbx-fork do. */
#ifndef BOX_CREATE_MANY_H
#define BOX_CREATE_MANY_H
#include "box/create.h"

struct create_many {
	const struct box_want *want;
	uint64_t count;
	int (*told)(const char *id); /* hands the ID on; -1 after fail(): the box is removed */
	void (*failed)(void);	     /* something failed: fail_text() says what */
};

/*
 * Makes them in order. After a failure or a signal (INT, TERM, HUP) no new one is begun; those under
 * way are still made and handed on. Returns the exit code, 0 if all were made. The caller holds
 * image_hold() and has called box_prepare_node().
 */
int create_many(const struct state *st, const struct create_many *m);
#endif
