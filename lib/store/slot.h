/*
 * Slots: numbers 0..max_boxes-1, each a symbolic link STATE/slot/N -> ID. A box's slot gives its
 * range of host ids, and running out of slots is the node's maximum of boxes. One link(2)-like step
 * takes a slot, so no lock is needed and a crash leaves a link that names its owner.
 */
#ifndef STORE_SLOT_H
#define STORE_SLOT_H
#include <stdint.h>

#include "store/state.h"

/* Takes a free slot for ID; fail_as(EX_AGAIN) when there is none. */
int slot_take(const struct state *st, const char *id, uint32_t *slot);
void slot_free(const struct state *st, uint32_t slot, const char *id); /* if it is ID's */

/* Calls FN for every slot taken; for sbx-reap. -1 on error or when FN returns < 0. */
int slot_each(const struct state *st, int (*fn)(void *arg, uint32_t slot, const char *id),
	      void *arg);
#endif
