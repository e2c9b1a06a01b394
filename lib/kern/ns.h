/* Processes and namespaces: clone3(2), setns(2), pidfds. Errors are fail()ed unless said. */
#ifndef KERN_NS_H
#define KERN_NS_H
#include <stdint.h>
#include <sys/types.h>

/*
 * fork by clone3: FLAGS are CLONE_*; *PIDFD (if not NULL) gets a new fd; CGROUP >= 0 is a cgroup v2
 * directory the child starts in. Returns like fork(2), -1 with errno and no message.
 */
pid_t ns_clone(uint64_t flags, int *pidfd, int cgroup);

/*
 * The same, but the child runs FN(ARG), whose result is its exit status, on a stack of its own in the
 * caller's memory, and the caller waits until the child has called exec or ended (vfork(2)): no page
 * tables are copied, nothing faults. What FN writes, the caller sees, errno included.
 */
pid_t ns_vclone(uint64_t flags, int *pidfd, int cgroup, int (*fn)(void *), void *arg);

/* The namespaces a box's user namespace owns; -1 where there is none. The fds are the caller's. */
struct ns_set {
	int user, net, ipc, uts;
};
#define NS_SET_INIT            \
	{                      \
		-1, -1, -1, -1 \
	}
void ns_close(struct ns_set *ns);

/*
 * Makes a user namespace that maps ids 0..COUNT-1 to BASE.., and with it IPC, UTS and, unless
 * HOST_NET, network namespaces it owns. No process is left in them: the fds keep them alive.
 */
int ns_make(uint32_t base, uint32_t count, int host_net, struct ns_set *ns);

/* Mount namespace holding one empty read-only tmpfs: cheap to copy however many mounts a node has.
 */
int ns_empty_mnt(void);

/* setns(2); WHAT names it in the message. */
int ns_enter(int fd, int flags, const char *what);

/* Brings lo up in the network namespace of the caller. */
int ns_lo_up(void);

int ns_pidfd_open(pid_t pid);
int ns_pidfd_kill(int pidfd, int sig); /* -1 with errno, no message */
#endif
