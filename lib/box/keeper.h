/* The inside of sbx-keep: one box, one event loop. */
#ifndef BOX_KEEPER_H
#define BOX_KEEPER_H
#include <stdint.h>

#include "base/kv.h"
#include "box/backend.h"
#include "box/proto.h"
#include "box/spec.h"
#include "store/state.h"

struct slot {
	struct cgroup cg;
	char name[16];
	int used; /* a command is begun in it; free again when it has ended and the group is empty */
	int killed; /* never to be used again: see take_slot */
};

enum conn_kind { CONN_NEW, CONN_EXEC, CONN_WAIT, CONN_STOP, CONN_FREEZE };

struct conn {
	int fd; /* -1: free */
	enum conn_kind kind;
	int peer;     /* pidfd of the client, to end one that holds a dead command; -1 unknown */
	uint64_t seq; /* EXEC: the command; WAIT: what is waited for, 0: the box */
	struct slot *slot; /* EXEC: where it runs */
	struct kv ended; /* EXEC: an end that may turn out to be the box's (see keeper_request.c) */
	uint64_t settle_us; /* when it is taken for what it says; 0: no such end */
	uint64_t freeze_us; /* FREEZE: when that was asked for; 0: answered */
};

struct keeper {
	struct spec spec;
	const struct backend *backend;
	struct box_run run;
	struct cgroup_tree tree;
	int boxdir, rundir, logfd, ctl;
	int maker; /* KEEP_FD_READY until the ID is known to somebody, then -1 */
	struct conn *conn;
	int nconn;
	struct slot **slot;
	int nslot, slots_made;
	int drain[64]; /* pipes that background processes still hold: read and dropped */
	int ndrain;
	uint64_t seq; /* of the last record */
	uint64_t born_us, idle_since_us;
	uint64_t kill_at_us; /* stopping: when clients that hang on are killed */
	int running;	     /* commands under way */
	int frozen;	     /* or told to freeze */
	int stopping;
	const char *cause; /* why it is stopping */
};

/* keeper_request.c: one message of a connection. */
void keeper_request(struct keeper *k, struct conn *c);
/* A connection is over: of a command under way, the command too. */
void keeper_drop(struct keeper *k, struct conn *c);
/* An end that waited to see whether the box dies: it does (DIED), or time has shown it does not. */
void keeper_settle(struct keeper *k, struct conn *c, int died);
/*
 * The box is frozen as long as a connection holds it so: answers those whose wish has come true, or
 * has not in time, and thaws what nobody holds. 1 if it has to be called again soon.
 */
int keeper_freeze(struct keeper *k);

/* keeper.c */
void keeper_stop(struct keeper *k, const char *cause); /* begins the end of the box */
/* Runs the box until it is over; the result is sbx-keep's exit code. */
int keeper_main(const struct state *st, const char *id);
#endif
