/* The profile compiler, and the default profile loaded into a process. Runs in the source tree. */
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/die.h"
#include "base/fd.h"
#include "kern/seccomp.h"
#include "kern/seccomp_parse.h"

static int count, bad;

static void ok(int good, const char *what)
{
	bad += !good;
	printf("%sok %d - %s\n", good ? "" : "not ", ++count, what);
}

static int compile(const char *text, struct buf *bpf)
{
	autofd fd = memfd_create("filter", MFD_CLOEXEC);
	ssize_t n;

	if (seccomp_compile("p", text, fd) < 0 || lseek(fd, 0, SEEK_SET) < 0)
		return -1;
	n = fd_read_all(fd, buf_room(bpf, SECCOMP_MAX), SECCOMP_MAX);
	bpf->len = n > 0 ? (size_t)n : 0;
	return bpf->len ? 0 : -1;
}

/* The errno of a call under BPF, 0 if it succeeds, 255 if the filter cannot be loaded. */
static int try(const struct buf *bpf, long nr, long a, long b, long c)
{
	int status;
	pid_t pid = fork();

	if (!pid) {
		if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || seccomp_load_bpf(bpf->p, bpf->len))
			_exit(255);
		_exit(syscall(nr, a, b, c, 0, 0, 0) < 0 ? errno : 0);
	}
	return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : 255;
}

static const struct {
	const char *what;
	long nr, a, b, c;
	int want;
} calls[] = {
	{"getpid works", SYS_getpid, 0, 0, 0, 0},
	{"dup works", SYS_dup, 1, 0, 0, 0},
	{"mount is refused", SYS_mount, 0, 0, 0, EPERM},
	{"move_mount is refused", SYS_move_mount, -1, 0, -1, EPERM},
	{"setns is refused", SYS_setns, -1, 0, 0, EPERM},
	{"unshare of a user namespace is refused", SYS_unshare, CLONE_NEWUSER, 0, 0, EPERM},
	{"unshare of a time namespace is refused", SYS_unshare, 0x80, 0, 0, EPERM},
	{"unshare of files works", SYS_unshare, CLONE_FILES, 0, 0, 0},
	{"clone into a network namespace is refused", SYS_clone, CLONE_NEWNET, 0, 0, EPERM},
	{"clone3 is absent", SYS_clone3, 0, 0, 0, ENOSYS},
	{"keyctl is refused", SYS_keyctl, 0, 0, 0, EPERM},
	{"bpf is refused", SYS_bpf, 0, 0, 0, EPERM},
	{"io_uring is absent", SYS_io_uring_setup, 1, 0, 0, ENOSYS},
	{"TIOCSTI is refused", SYS_ioctl, -1, 0x5412, 0, EPERM},
	{"TIOCSTI with a high half is refused", SYS_ioctl, -1, 0x100005412, 0, EPERM},
	{"another ioctl reaches the kernel", SYS_ioctl, -1, 0x5401, 0, EBADF},
	{"a unix socket works", SYS_socket, AF_UNIX, SOCK_STREAM, 0, 0},
	{"a vsock socket is absent", SYS_socket, AF_VSOCK, SOCK_STREAM, 0, EAFNOSUPPORT},
	{"an AF_ALG socket is absent", SYS_socket, 38, SOCK_SEQPACKET, 0, EAFNOSUPPORT},
	{"netlink audit is absent", SYS_socket, AF_NETLINK, SOCK_RAW, 9, EPROTONOSUPPORT},
	{"the personality can be asked", SYS_personality, 0xffffffff, 0, 0, 0},
	{"READ_IMPLIES_EXEC is refused", SYS_personality, 0x400000, 0, 0, EPERM},
	{"a number nobody knows is absent", 1000, 0, 0, 0, ENOSYS},
#ifdef __x86_64__
	{"x32 is absent", 0x40000000 + SYS_getpid, 0, 0, 0, ENOSYS},
#endif
};

/*
 * What the kernel would make of BPF for a call of another architecture, which this machine may not be
 * able to make: the few instructions the compiler uses, as the kernel's filter.rst describes them.
 */
static uint32_t evaluate(const struct buf *bpf, const struct seccomp_data *d)
{
	const struct sock_filter *f = (const void *)bpf->p;
	size_t n = bpf->len / sizeof(*f);
	uint32_t acc = 0;

	for (size_t pc = 0; pc < n; pc++) {
		const struct sock_filter *i = &f[pc];

		switch (i->code) {
		case BPF_LD | BPF_W | BPF_ABS:
			memcpy(&acc, (const char *)d + i->k, sizeof(acc));
			break;
		case BPF_ALU | BPF_AND | BPF_K:
			acc &= i->k;
			break;
		case BPF_JMP | BPF_JA:
			pc += i->k;
			break;
		case BPF_JMP | BPF_JEQ | BPF_K:
			pc += acc == i->k ? i->jt : i->jf;
			break;
		case BPF_JMP | BPF_JGE | BPF_K:
			pc += acc >= i->k ? i->jt : i->jf;
			break;
		case BPF_RET | BPF_K:
			return i->k;
		default:
			return 0;
		}
	}
	return 0;
}

static void other_arch(const struct buf *bpf, uint32_t arch, int nr, uint64_t arg, uint32_t want,
		       const char *what)
{
	struct seccomp_data d = {.nr = nr, .arch = arch, .args = {arg}};

	ok(evaluate(bpf, &d) == want, what);
}

static void other_archs(const struct buf *bpf)
{
#ifdef __x86_64__
	other_arch(bpf, AUDIT_ARCH_X86_64, SYS_getpid, 0, SECCOMP_RET_ALLOW,
		   "evaluated: getpid works");
	other_arch(bpf, AUDIT_ARCH_X86_64, SYS_mount, 0, SECCOMP_RET_ERRNO | EPERM,
		   "evaluated: mount is refused");
	other_arch(bpf, AUDIT_ARCH_I386, 199, 0, SECCOMP_RET_ALLOW, "i386: getuid works");
	other_arch(bpf, AUDIT_ARCH_I386, 21, 0, SECCOMP_RET_ERRNO | EPERM,
		   "i386: mount is refused");
	other_arch(bpf, AUDIT_ARCH_I386, 359, AF_VSOCK, SECCOMP_RET_ERRNO | EAFNOSUPPORT,
		   "i386: a vsock socket is absent");
	other_arch(bpf, AUDIT_ARCH_I386, 102, 1, SECCOMP_RET_ERRNO | EAFNOSUPPORT,
		   "i386: socketcall makes no socket");
#endif
	ok(evaluate(bpf, &(struct seccomp_data){.nr = 0, .arch = AUDIT_ARCH_S390X}) !=
		   SECCOMP_RET_ALLOW,
	   "an architecture that is not in the profile is not let in");
}

static const struct {
	const char *text, *want;
} mistakes[] = {
	{"allow read\n", "p: no 'default = ACTION' line"},
	{"default = allow\nallow reed\n", "p:2: no system call 'reed'"},
	{"default = allow\n\nallow\n", "p:3: no system call is named"},
	{"default = errno EWHAT\n", "p:1: expected the name of an error"},
	{"default = allow\npermit read\n", "p:2: expected default, allow"},
	{"default = allow\nallow read if arg6 == 1\n", "p:2: expected arg0 to arg5"},
	{"default = allow\nallow read if arg0 < 1\n", "p:2: expected == or !="},
	{"default = allow\nallow read if arg0 & 1 == 2\n", "p:2: the value has bits"},
	{"default = allow\nallow read\nkill read\n", "p:3: 'read' is already decided on line 2"},
	{"default = allow\ndefault = kill\n", "p:2: a second default"},
	{"default = allow\nallow x=5\n", "p:2: expected a number from 424"},
};

static void too_long(void)
{
	autobuf text = BUF_INIT, bpf = BUF_INIT;

	buf_str(&text, "default = allow\n");
	for (int i = 0; i < 3000; i++)
		buf_fmt(&text, "kill read if arg0 == %d\n", i);
	ok(compile(buf_cstr(&text), &bpf) < 0 && strstr(fail_text(), "the kernel takes 4096"),
	   "a filter that is too long is an error");
}

int main(void)
{
	autobuf text = BUF_INIT, bpf = BUF_INIT, none = BUF_INIT;

	if (fd_read_file(AT_FDCWD, "share/sbx/seccomp/default", SECCOMP_TEXT, &text) < 0)
		die();
	ok(compile(buf_cstr(&text), &bpf) == 0 && bpf.len < SECCOMP_MAX, "the default compiles");
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		ok(try(&bpf, calls[i].nr, calls[i].a, calls[i].b, calls[i].c) == calls[i].want,
		   calls[i].what);
	other_archs(&bpf);
	for (size_t i = 0; i < sizeof(mistakes) / sizeof(mistakes[0]); i++)
		ok(compile(mistakes[i].text, &none) < 0 &&
			   !strncmp(fail_text(), mistakes[i].want, strlen(mistakes[i].want)),
		   mistakes[i].want);
	too_long();
	printf("1..%d\n", count);
	return bad != 0;
}
