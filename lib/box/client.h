/* Talking to the keeper of a box, and removing a box that has none. */
#ifndef BOX_CLIENT_H
#define BOX_CLIENT_H
#include "base/buf.h"
#include "base/kv.h"
#include "base/sock.h"
#include "store/state.h"

/*
 * Connects to the keeper of a whole ID. A box that has ended, or never came to be, gives
 * fail_as(EX_GONE) with the cause. The fd is the caller's.
 */
int client_connect(const struct state *st, const char *id);

/*
 * Sends REQUEST (built with kv_put_*) and reads the answer into *ANSWER; its fds, the caller's,
 * into FDS (room SOCK_FDS). An "err" answer is a failure with its text and exit code; a connection
 * that closes is fail_as(EX_GONE).
 */
int client_call(int ctl, const struct buf *request, struct kv *answer, int *fds, int *nfds);
int client_answer(int ctl, struct kv *answer, int *fds, int *nfds); /* one more answer */

/*
 * Freezes the box: on return nothing of it runs, until the connection that is returned (the caller's)
 * closes, however that happens. -1 after fail(): EX_AGAIN if it could not be frozen in 10 s.
 */
int client_freeze(const struct state *st, const char *id);

enum box_state { BOX_CREATING, BOX_RUNNING, BOX_STOPPING, BOX_DEAD };
const char *box_state_name(enum box_state s);
/* How the box is, from its directory alone: no process of it is asked. */
enum box_state box_state(const struct state *st, const char *id);
/* The same, with its state file (pid, since_ms) in KV; empty for one that is dead or not begun. */
enum box_state box_state_load(const struct state *st, const char *id, struct kv *kv);
/* Its end file: cause, time_ms ...; a box without one that is dead was "lost". */
void box_end(const struct state *st, const char *id, struct kv *end);

/*
 * Removes all that is left of a box nobody keeps: kills what still runs in its groups, then groups,
 * slot, name, directories. Takes its lock (fails with EWOULDBLOCK if a keeper lives). Can be
 * repeated from any point at which it was cut off.
 */
int box_remove(const struct state *st, const char *id);
/* The same, but waits up to 10 s for one that holds the lock and is about to let go. */
int box_remove_wait(const struct state *st, const char *id);

/* Asks the keeper to end the box; returns the open connection, -1 if there is no keeper any more.
 */
int box_stop_begin(const struct state *st, const char *id, const char *cause);
/* Waits until the keeper is gone (at most TIMEOUT_MS, then fail(EX_AGAIN)), and closes CTL. */
int box_stop_wait(int ctl, const char *id, int timeout_ms);
/* Kills a box and its keeper, one that does not answer: stopped by a signal, say. */
void box_kill(const struct state *st, const char *id);
#endif
