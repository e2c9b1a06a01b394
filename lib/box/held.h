/* Dead processes that a tracer keeps from their parent. */
#ifndef BOX_HELD_H
#define BOX_HELD_H
#include <signal.h>
#include <sys/types.h>

enum { HELD_US = 1000000 }; /* how long a tracer may take before it is killed */

/*
 * waitid(2) for our child PID, which has died. A traced process that has died belongs to its tracer
 * until that has waited for it (ptrace(2)); a tracer in the box that does not is killed, which sets
 * free what it held. One outside is of the node's owner and may take its time.
 *
 * PROC is the node's /proc. The caller is in the box's cgroup namespace, whose root is UP levels below
 * the box's own group. With GIVE_UP it waits for a few seconds at most; *SI then says SIGKILL.
 */
void held_wait(int proc, pid_t pid, int up, int give_up, siginfo_t *si);
#endif
