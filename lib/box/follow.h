/* Following a box's log while it grows. */
#ifndef BOX_FOLLOW_H
#define BOX_FOLLOW_H
#include <stdint.h>

#include "store/state.h"

struct follow {
	int ctl;   /* says when it is over; -1: it is */
	int watch; /* inotify on the log's directory */
};

/*
 * Begins to follow the box, or its command SEQ if that is not 0: read the log after it, then after
 * each follow_wait(). 0, also when there is nothing more to come; -1 after fail().
 */
int follow_begin(const struct state *st, const char *id, uint64_t seq, struct follow *f);
/* 1: the log may have grown; 0: it is over, all that will ever be there was there before the call
 * returned; -1 after fail(). */
int follow_wait(struct follow *f);
void follow_end(struct follow *f);
#endif
