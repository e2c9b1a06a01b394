/* Waiting for the end of a box or of a command, without a gap between asking and the end. */
#ifndef BOX_AWAIT_H
#define BOX_AWAIT_H
#include <stdint.h>

#include "base/kv.h"
#include "store/state.h"

/*
 * Asks the keeper to say when command SEQ (0: the box) has ended; returns the connection, which
 * polls readable when await_read() has something. -1 after fail(): EX_GONE means that the box has
 * ended. A box that is still being made, or whose keeper is busy, is asked again until END_US (on
 * num_mono_us(); 0: for ever), then EX_TIMEOUT.
 */
int await_begin(const struct state *st, const char *id, uint64_t seq, uint64_t end_us);

/*
 * 1: the record of the end is in REC (of a command: as the log has it; none of its pairs if it was
 * over before; of a box: cause, time_ms). 0: the keeper has gone, and the box with it. -1 after
 * fail(). For a box 1 comes first and 0 follows.
 */
int await_read(int ctl, struct kv *rec);

/* Polls CTL until it is readable: 1, or 0 when END_US (0: never) has passed. */
int await_poll(int ctl, uint64_t end_us);

/*
 * How command SEQ ended, from the log or from the keeper once it has: 0 and its record in REC. -1
 * after fail(): EX_TIMEOUT at END_US, EX_GONE if the box ended and nobody could say how the command
 * did, EX_SBX if there is no such command.
 */
int await_command(const struct state *st, const char *id, uint64_t seq, uint64_t end_us,
		  struct kv *rec);

/* What sbx-exec exits with for a command that has this end record. */
int await_exit_code(const struct kv *rec);
#endif
