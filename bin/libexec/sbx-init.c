/*
 * pid 1 of a container box. Reads nothing, writes nothing, holds no fd: reaps orphans until it is
 * killed. Freestanding, so that thousands of idle boxes cost two pages each; it must never return.
 */
#include <linux/signal.h>
#include <asm/unistd.h>

#if defined(__x86_64__)
static long call4(long nr, long a, long b, long c, long d)
{
	long ret;
	register long r10 __asm__("r10") = d;

	__asm__ volatile("syscall"
			 : "=a"(ret)
			 : "0"(nr), "D"(a), "S"(b), "d"(c), "r"(r10)
			 : "rcx", "r11", "memory");
	return ret;
}
#elif defined(__aarch64__)
static long call4(long nr, long a, long b, long c, long d)
{
	register long x8 __asm__("x8") = nr;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c;
	register long x3 __asm__("x3") = d;

	__asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3) : "memory");
	return x0;
}
#else
#error "sbx-init: no system call stub for this machine"
#endif

_Noreturn void _start(void);

/*
 * Every signal is blocked: as pid 1 it would not get unhandled ones anyway, and a stop signal from
 * inside must not be able to stop the reaping. SIGKILL from outside still ends it
 * (pid_namespaces(7)).
 */
_Noreturn void _start(void)
{
	unsigned long all = ~0ul;
	const unsigned long chld = 1ul << (SIGCHLD - 1);

	/* Root inside has our uid and our (no) capabilities: it could trace us, who have no seccomp
	 * filter. The program's file cannot be read by it either, which already forbids that. */
	call4(__NR_prctl, 4 /* PR_SET_DUMPABLE */, 0, 0, 0);
	call4(__NR_rt_sigprocmask, SIG_SETMASK, (long)&all, 0, sizeof(all));
	for (;;) {
		/* WNOHANG = 1: reap all there are, then sleep until SIGCHLD is pending. */
		while (call4(__NR_wait4, -1, 0, 1, 0) > 0)
			;
		call4(__NR_rt_sigtimedwait, (long)&chld, 0, 0, sizeof(chld));
	}
}
