/*
 * Runs one command in a box. The caller's process is the command's parent and passes its streams:
 * no process stands between, and the keeper watches the connection for its life.
 */
#ifndef BOX_RUNNER_H
#define BOX_RUNNER_H
#include <stdint.h>

#include "base/buf.h"
#include "box/spec.h"
#include "store/state.h"

struct command {
	char *const *argv;
	int (*call)(void *); /* runs in the box instead of a program; argv is for the log */
	void *arg;
	const char *user, *cwd; /* NULL: as the box has it */
	const char *const *env; /* K=V on top of the box's; ends with NULL; may be NULL */
	uint64_t timeout_ms;	/* 0: none */
	uint64_t max_output;	/* bytes kept of each stream in the log */
	int tty;		/* a terminal of the box instead of pipes */
	int detach;		/* for the record only */
	int in, out, err;	/* the caller's fds; -1: nothing in, output to the log only */
	const char *prefix;	/* goes before each line of output; NULL: byte for byte */
};

enum end { END_EXIT, END_SIGNAL, END_TIMEOUT, END_OOM, END_BOX_DIED };

struct outcome {
	enum end end;
	int code, signal;
	uint64_t seq, wall_ms, cpu_ms, mem_peak, stdout_bytes, stderr_bytes;
	int truncated;
	int lost; /* errno: output could not be passed on, as to a full disk; 0: no such fault */
};

struct running; /* a command that has its number and place, before it starts */

/*
 * Begins: asks the keeper for a number and a place. NULL after fail() (EX_GONE: the box has ended).
 * The caller must stay the process that goes on to run_command().
 */
struct running *run_begin(const struct state *st, const char *id, const struct command *cmd);
uint64_t run_seq(const struct running *r);
/*
 * Runs it to its end, streams included, reports to the keeper and frees R. 0 with *O filled in,
 * also when the command was not found (end=exit, code=127, a message on cmd->err); -1 after fail(), *O
 * then says how it was recorded.
 * SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2 go to the command while it runs.
 */
int run_command(struct running *r, struct outcome *o);

int outcome_exit_code(const struct outcome *o);
const char *outcome_end_name(enum end e);
/* key=value lines as --status has them. */
void outcome_status(const struct outcome *o, struct buf *b);
#endif
