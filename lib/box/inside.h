/* The last steps of a process on its way into a container box, and its user there. */
#ifndef BOX_INSIDE_H
#define BOX_INSIDE_H
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "kern/cgroup.h"

struct inside {
	int pid1;	    /* pidfd of the box's pid 1 */
	struct cgroup slot; /* it was cloned into slot.v2 */
	const char *user;   /* NAME|UID[:GROUP|GID], "" is root */
	const char *cwd;    /* "" is the user's home if it can be entered, else / */
	char *const *argv;
	int (*call)(void *); /* instead of a program: its result is the exit status */
	void *arg;
	const char *const *env; /* K=V, ends with NULL; HOME and PATH are added if absent */
	struct buf bpf;
	int no_new_privs;
	int fd[3];  /* become 0, 1 and 2 */
	int tty;    /* fd[0] is a terminal: make it the controlling one */
	int report; /* pipe, O_CLOEXEC: gets "CODE text" if the command cannot be run */
};

/*
 * Runs in the cloned child, in the box's pid namespace, as the node's root. Does not return. The
 * process must not be dumpable: until the exec it is in reach of root inside.
 */
_Noreturn void inside_run(struct inside *in);
#endif
