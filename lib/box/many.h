/* The same command in many boxes, some at a time. */
#ifndef BOX_MANY_H
#define BOX_MANY_H
#include "box/runner.h"

struct many {
	const struct state *st;
	const struct command *cmd; /* nothing goes in; tty and detach are not for many */
	unsigned jobs;		   /* boxes at a time */
	int prefix; /* pass output on, line by line, "ID TAB" in front; else only the log has it */
	/* The next box: 1 and its ID, or 0 when there are no more. */
	int (*next)(void *arg, char id[ID_MAX + 1]);
	/* One command is over. O is NULL if it could not be run: fail_text() says why. */
	void (*done)(void *arg, const char *id, const struct outcome *o);
	void *arg;
};

/* Runs until next() has no more and all are done. */
void many_run(const struct many *m);
#endif
