/* The same command in many boxes, some at a time: sbx-exec with IDs on stdin. */
#ifndef BOX_EXEC_MANY_H
#define BOX_EXEC_MANY_H
#include "base/rec.h"
#include "box/runner.h"

struct exec_many {
	uint64_t jobs;
	int prefix; /* output goes to stdout and stderr line by line, the ID in front; no records */
	int no_stdin;
	struct rec_opts rec;
};

/*
 * Reads IDs (or what state_resolve takes), one a line, from stdin until its end. Prints one record
 * a box as its command ends: id, end, code, signal, exit, wall_ms, ... Returns the tool's exit
 * code: 0 if every command exited with 0, EX_NO if one did not.
 */
int exec_many(const struct exec_many *m, const struct state *st, const struct command *cmd);
#endif
