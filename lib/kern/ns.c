#include "kern/ns.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/die.h"
#include "base/fd.h"
#include "kern/mnt.h"

static struct clone_args clone_args(uint64_t flags, int *pidfd, int cgroup)
{
	struct clone_args a = {
		.flags = flags,
		.exit_signal = SIGCHLD,
	};

	if (pidfd) {
		a.flags |= CLONE_PIDFD;
		a.pidfd = (uint64_t)(uintptr_t)pidfd;
	}
	if (cgroup >= 0) {
		a.flags |= CLONE_INTO_CGROUP;
		a.cgroup = (uint64_t)cgroup;
	}
	return a;
}

pid_t ns_clone(uint64_t flags, int *pidfd, int cgroup)
{
	struct clone_args a = clone_args(flags, pidfd, cgroup);

	return (pid_t)syscall(SYS_clone3, &a, sizeof(a));
}

/* No libc has clone3: the child must call FN without returning through its parent's frames. */
static long clone3_call(struct clone_args *a, int (*fn)(void *), void *arg)
{
#if defined(__x86_64__)
	register int (*fn_reg)(void *) __asm__("r12") = fn;
	register void *arg_reg __asm__("r13") = arg;
	long ret;

	__asm__ volatile("syscall\n\t"
			 "test %%rax, %%rax\n\t"
			 "jnz 1f\n\t"
			 "xor %%ebp, %%ebp\n\t"
			 "mov %%r13, %%rdi\n\t"
			 "call *%%r12\n\t"
			 "mov %%eax, %%edi\n\t"
			 "mov %[exit], %%eax\n\t"
			 "syscall\n"
			 "1:"
			 : "=a"(ret)
			 : "0"((long)SYS_clone3), "D"(a), "S"(sizeof(*a)), "r"(fn_reg),
			   "r"(arg_reg), [exit] "i"(SYS_exit)
			 : "rcx", "r11", "memory");
	return ret;
#elif defined(__aarch64__)
	register long x8 __asm__("x8") = SYS_clone3;
	register long x0 __asm__("x0") = (long)a;
	register long x1 __asm__("x1") = sizeof(*a);
	register int (*fn_reg)(void *) __asm__("x19") = fn;
	register void *arg_reg __asm__("x20") = arg;

	__asm__ volatile("svc 0\n\t"
			 "cbnz x0, 1f\n\t"
			 "mov x29, 0\n\t"
			 "mov x0, x20\n\t"
			 "blr x19\n\t"
			 "mov x8, %[exit]\n\t"
			 "svc 0\n"
			 "1:"
			 : "+r"(x0)
			 : "r"(x8), "r"(x1), "r"(fn_reg), "r"(arg_reg), [exit] "i"(SYS_exit)
			 : "memory", "x30");
	return x0;
#else
#error "no clone3 stub for this machine"
#endif
}

pid_t ns_vclone(uint64_t flags, int *pidfd, int cgroup, int (*fn)(void *), void *arg)
{
	static _Alignas(64) char stack[64 * 1024]; /* one child at a time: the caller waits */
	struct clone_args a = clone_args(flags | CLONE_VM | CLONE_VFORK, pidfd, cgroup);
	long r;

	a.stack = (uint64_t)(uintptr_t)stack;
	a.stack_size = sizeof(stack);
	r = clone3_call(&a, fn, arg);
	if (r >= 0)
		return (pid_t)r;
	errno = (int)-r;
	return -1;
}

void ns_close(struct ns_set *ns)
{
	fd_close(&ns->user);
	fd_close(&ns->net);
	fd_close(&ns->ipc);
	fd_close(&ns->uts);
}

/*
 * Runs in the parent's memory: it must not touch it, not even errno. It has copies of all the
 * parent's descriptors, locks too, and must not outlive it: a parent that died before the first
 * call is no longer the parent when the second is made.
 */
static int hold(void *parent)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	while (getppid() == *(const pid_t *)parent)
		pause();
	return 0;
}

static int put_map(pid_t pid, const char *file, uint32_t base, uint32_t count)
{
	char path[64], map[64];

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, file);
	snprintf(map, sizeof(map), "0 %u %u\n", base, count);
	return fd_put(AT_FDCWD, path, map);
}

static int open_ns(pid_t pid, const char *name)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/ns/%s", pid, name);
	return openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
}

int ns_make(uint32_t base, uint32_t count, int host_net, struct ns_set *ns)
{
	/* A user namespace needs a process to be mapped through; one that shares our memory costs
	 * no page tables and no copy-on-write faults. */
	static _Alignas(64) char stack[4096];
	int flags = CLONE_VM | CLONE_NEWUSER | CLONE_NEWIPC | CLONE_NEWUTS | SIGCHLD;
	pid_t self = getpid();
	pid_t pid = clone(hold, stack + sizeof(stack) - 64, flags | (host_net ? 0 : CLONE_NEWNET),
			  &self);
	int r = 0;

	if (pid < 0)
		return fail("cannot make namespaces");
	if (put_map(pid, "uid_map", base, count) < 0 || put_map(pid, "gid_map", base, count) < 0)
		r = fail("cannot map ids %u-%u into a user namespace", base, base + count - 1);
	ns->user = open_ns(pid, "user");
	ns->ipc = open_ns(pid, "ipc");
	ns->uts = open_ns(pid, "uts");
	ns->net = host_net ? -1 : open_ns(pid, "net");
	if (!r && (ns->user < 0 || ns->ipc < 0 || ns->uts < 0 || (!host_net && ns->net < 0)))
		r = fail("cannot open namespaces of a new box");
	kill(pid, SIGKILL);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	if (r < 0)
		ns_close(ns);
	return r;
}

/* In a child: leave everything behind but one empty mount; the namespace's fd, or -1. */
static int become_empty(void)
{
	static const struct mnt_opt opts[] = {{"size", "4k"}, {"mode", "0555"}, {NULL, NULL}};
	int ns, root;

	if (unshare(CLONE_NEWNS) < 0 || mnt_private() < 0)
		return -1;
	ns = openat(AT_FDCWD, "/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
	root = mnt_new("tmpfs", opts, MNT_RO | MNT_NOSUID | MNT_NODEV | MNT_NOEXEC);
	if (ns < 0 || root < 0 || mnt_move(root, AT_FDCWD, "/") < 0 || mnt_pivot(root) < 0)
		return -1;
	close(root);
	return ns;
}

int ns_empty_mnt(void)
{
	int sync[2], fd = -1;
	ssize_t n = 0;
	pid_t pid;

	if (pipe2(sync, O_CLOEXEC | O_NONBLOCK) < 0)
		return fail("cannot make a pipe");
	pid = ns_clone(CLONE_FILES, NULL, -1);
	if (pid == 0) {
		/* The file table is shared: what is opened here is open in the parent too. */
		fd = become_empty();
		_exit(write(sync[1], &fd, sizeof(fd)) != sizeof(fd));
	}
	if (pid > 0) {
		waitpid(pid, NULL, 0);
		n = read(sync[0], &fd, sizeof(fd));
	}
	close(sync[0]);
	close(sync[1]);
	return n != sizeof(fd) || fd < 0 ? failx("cannot make an empty mount namespace") : fd;
}

int ns_enter(int fd, int flags, const char *what)
{
	return setns(fd, flags) < 0 ? fail("cannot enter the %s of a box", what) : 0;
}

int ns_lo_up(void)
{
	struct ifreq ifr = {.ifr_flags = IFF_UP | IFF_RUNNING};
	autofd fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	memcpy(ifr.ifr_name, "lo", 3);
	if (fd < 0 || ioctl(fd, SIOCSIFFLAGS, &ifr) < 0)
		return fail("cannot bring the loopback link up");
	return 0;
}

int ns_pidfd_open(pid_t pid)
{
	int fd = (int)syscall(SYS_pidfd_open, pid, 0);

	return fd < 0 ? fail("cannot open process %d", pid) : fd;
}

int ns_pidfd_kill(int pidfd, int sig)
{
	return (int)syscall(SYS_pidfd_send_signal, pidfd, sig, NULL, 0);
}
