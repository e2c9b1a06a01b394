#include "box/lint_inside.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/die.h"
#include "base/fd.h"
#include "base/kv.h"
#include "base/num.h"
#include "kern/caps.h"
#include "kern/ns.h"
#include "kern/seccomp.h"

#if defined(__x86_64__)
#define ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCH AUDIT_ARCH_AARCH64
#else
#error "sbx-lint: no filter for this machine"
#endif

/* DAC_OVERRIDE: of what the box's root has, the part that reading needs. */
#define CAPS_READ (1ull << 1)

#define LOAD(field)	   BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define IF(op, k, yes, no) BPF_JUMP(BPF_JMP | (op) | BPF_K, k, yes, no)
#define RETURN(k)	   BPF_STMT(BPF_RET | BPF_K, k)

/*
 * On top of the box's own filter: no program and no library of the box can run in this process,
 * whatever a library of ours may think of loading late (CVE-2019-14271).
 */
static int forbid_code(void)
{
	static const struct sock_filter f[] = {
		LOAD(arch),
		IF(BPF_JEQ, ARCH, 0, 12),
		LOAD(nr),
		IF(BPF_JGE, 0x40000000 /* x32 */, 10, 0),
		IF(BPF_JEQ, SYS_execve, 7, 0),
		IF(BPF_JEQ, SYS_execveat, 6, 0),
		IF(BPF_JEQ, SYS_mmap, 3, 0),
		IF(BPF_JEQ, SYS_mprotect, 2, 0),
		IF(BPF_JEQ, SYS_pkey_mprotect, 1, 0),
		RETURN(SECCOMP_RET_ALLOW),
		LOAD(args[2]),
		IF(BPF_JSET, PROT_EXEC, 0, 1),
		RETURN(SECCOMP_RET_ERRNO | EPERM),
		RETURN(SECCOMP_RET_ALLOW),
		RETURN(SECCOMP_RET_KILL_PROCESS),
	};

	return seccomp_load_bpf(f, sizeof(f));
}

static int restrict_self(void)
{
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return fail("cannot set no_new_privs");
	return forbid_code() < 0 || caps_set(CAPS_READ) < 0 ? -1 : 0;
}

void lint_say(const char *kind, const char *path, uint64_t count, const char *detail)
{
	autobuf b = BUF_INIT;

	kv_put_line(&b, "kind", kind);
	kv_put_bytes(&b, "path", path, strnlen(path, LINT_PATH));
	kv_put_num(&b, "count", count);
	kv_put_bytes(&b, "detail", detail, strnlen(detail, LINT_DETAIL));
	buf_chr(&b, '\n');
	if (fd_write_all(STDOUT_FILENO, b.p, b.len) < 0)
		_exit(EX_NO); /* nobody listens any more */
}

int lint_late(const struct lint *l)
{
	return num_mono_us() >= l->end_us;
}

/*
 * A repository that cannot be done with must not take the time of those after it: one may use half
 * of what is left, the last nearly all.
 */
static int share_ms(const struct lint *l, int last)
{
	uint64_t now = num_mono_us(), left = now < l->end_us ? l->end_us - now : 0;

	left = (last ? left - left / 10 : left / 2) / 1000;
	return left > 1000000000 ? 1000000000 : (int)left;
}

static void say_killed(const struct lint_repo *repo, int sig)
{
	autofree char *text = xasprintf("reading it ended the reader by signal %d", sig);

	lint_say("unchecked", repo->shown, 1, text);
}

/* Each in a process of its own, which a repository made to do so may crash or stop. */
static void in_child(const struct lint *l, const struct lint_repo *repo, int last)
{
	struct pollfd p = {.fd = -1, .events = POLLIN};
	int status = 0, late = 0;
	pid_t pid = fork();

	if (pid == 0) {
		if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
			_exit(EX_NO);
		lint_git(l, repo);
		_exit(0);
	}
	p.fd = pid > 0 ? ns_pidfd_open(pid) : -1;
	if (p.fd < 0 || poll(&p, 1, share_ms(l, last)) <= 0) {
		late = 1;
		if (pid > 0)
			kill(pid, SIGKILL);
	}
	fd_close(&p.fd);
	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (pid < 0)
		lint_say("unchecked", repo->shown, 1, "no process could be started");
	else if (late)
		lint_say("unchecked", repo->shown, 1, "it took too long");
	else if (WIFSIGNALED(status))
		say_killed(repo, WTERMSIG(status));
}

static void one_repo(const struct lint *l, size_t i)
{
	const struct lint_repo *repo = &l->repo[i];

	if (repo->special)
		lint_say("unchecked", repo->shown, 1, "it has a special file in it");
	else if (lint_late(l))
		lint_say("unchecked", repo->shown, 1, "the time was over");
	else
		in_child(l, repo, i + 1 == l->nrepo);
}

int lint_inside(void *arg)
{
	struct lint l = {.end_us = num_mono_us() + *(const uint64_t *)arg * 1000};

	if (restrict_self() < 0) {
		autobuf b = BUF_INIT;

		kv_put_line(&b, "failed", fail_text());
		buf_chr(&b, '\n');
		fd_write_all(STDOUT_FILENO, b.p, b.len);
		return EX_SBX;
	}
	lint_walk(&l);
	for (size_t i = 0; i < l.nrepo; i++)
		one_repo(&l, i);
	return 0;
}
