#include "box/inside.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/die.h"
#include "base/fd.h"
#include "box/backend.h"
#include "box/user.h"
#include "kern/caps.h"
#include "kern/ns.h"
#include "kern/seccomp.h"

#define DEFAULT_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

static const char *env_get(const char *const *env, const char *key)
{
	size_t n = strlen(key);

	for (; *env; env++)
		if (!strncmp(*env, key, n) && (*env)[n] == '=')
			return *env + n + 1;
	return NULL;
}

/* A later K=V replaces an earlier one, as -e does to the image's. */
static char **make_env(const struct inside *in, const struct user *u)
{
	size_t n = 0, out = 0;
	char **env;

	while (in->env[n])
		n++;
	env = xcalloc(n + 3, sizeof(*env));
	for (size_t i = 0; i < n; i++) {
		size_t key = strcspn(in->env[i], "=") + 1, j = 0;

		while (j < out && strncmp(env[j], in->env[i], key) != 0)
			j++;
		env[j] = (char *)in->env[i];
		out += j == out;
	}
	if (!env_get(in->env, "HOME"))
		env[out++] = xasprintf("HOME=%s", u->home);
	if (!env_get(in->env, "PATH"))
		env[out++] = xasprintf("PATH=%s", DEFAULT_PATH);
	return env;
}

static void set_signals(void)
{
	sigset_t none;

	for (int sig = 1; sig < 65; sig++)
		signal(sig, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

static int set_stdio(const struct inside *in)
{
	for (int i = 0; i < 3; i++)
		if (in->fd[i] != i && dup2(in->fd[i], i) < 0)
			return fail("cannot connect the command's streams");
	/* CVE-2024-21626: not one descriptor of the node goes in. */
	if (syscall(SYS_close_range, 3, ~0u, 4 /* CLOSE_RANGE_CLOEXEC */) < 0)
		return fail("cannot close descriptors");
	if (setsid() < 0)
		return fail("cannot start a session");
	if (in->tty && ioctl(0, TIOCSCTTY, 0) < 0)
		return fail("cannot take the terminal");
	return 0;
}

static void set_limits(void)
{
	static const struct {
		int what;
		rlim_t soft, hard;
	} limits[] = {
		{RLIMIT_CORE, 0, RLIM_INFINITY},
		{RLIMIT_NOFILE, 1024, 1048576},
		{RLIMIT_STACK, 8 << 20, RLIM_INFINITY},
	};

	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		struct rlimit now, to = {limits[i].soft, limits[i].hard};

		/* Not above what this node's root may have itself. */
		if (getrlimit(limits[i].what, &now) < 0)
			continue;
		if (to.rlim_max > now.rlim_max)
			to.rlim_max = now.rlim_max;
		if (to.rlim_cur > to.rlim_max)
			to.rlim_cur = to.rlim_max;
		setrlimit(limits[i].what, &to);
	}
}

static int set_user(const struct user *u)
{
	if (setgroups((size_t)u->ngroups, u->groups) < 0 || setresgid(u->gid, u->gid, u->gid) < 0 ||
	    setresuid(u->uid, u->uid, u->uid) < 0)
		return fail("cannot become user %u", u->uid);
	return 0;
}

static int set_cwd(const struct inside *in, const struct user *u)
{
	if (*in->cwd)
		return chdir(in->cwd) < 0 ? fail("cannot enter the directory '%s'", in->cwd) : 0;
	if (chdir(u->home) < 0 && chdir("/") < 0)
		return fail("cannot enter the directory '/'");
	return 0;
}

static int enter(struct inside *in, struct user *u)
{
	if (fd_put(AT_FDCWD, "/proc/self/oom_score_adj", BOX_OOM_ADJ) < 0)
		return fail("cannot set the oom score");
	if (cgroup_enter(&in->slot, 0, 1) < 0 ||
	    ns_enter(in->pid1, CLONE_NEWUSER, "user namespace") < 0)
		return -1;
	if (user_find(in->user, u) < 0 || set_stdio(in) < 0)
		return -1;
	set_limits();
	umask(022);
	if (caps_bound(CAPS_DEFAULT) < 0 || set_user(u) < 0)
		return -1;
	if (in->no_new_privs && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return fail("cannot set no_new_privs");
	/* Joining the namespace gave us its full capabilities, whoever we have become: the filter
	 * needs CAP_SYS_ADMIN there, nothing after it does. */
	if (seccomp_load_bpf(in->bpf.p, in->bpf.len) < 0)
		return -1;
	/* The directory last: only a place that the user could go to itself. */
	return caps_set(u->uid ? 0 : CAPS_DEFAULT) < 0 ? -1 : set_cwd(in, u);
}

static int exec_one(const char *path, char *const *argv, char **env)
{
	execve(path, argv, env);
	return errno;
}

/* Looks NAME up in the command's own PATH; the errno of the failure that tells most. */
static int exec_path(const char *name, char *const *argv, char **env)
{
	const char *path = env_get((const char *const *)env, "PATH"),
		   *p = path ? path : DEFAULT_PATH;
	int err = ENOENT;

	if (strchr(name, '/'))
		return exec_one(name, argv, env);
	for (;;) {
		size_t n = strcspn(p, ":");
		autofree char *full = xasprintf("%.*s%s%s", (int)n, p, n ? "/" : "./", name);
		int e = exec_one(full, argv, env);

		if (e != ENOENT && e != ENOTDIR && e != EACCES)
			return e;
		if (e == EACCES)
			err = e;
		if (!p[n])
			return err;
		p += n + 1;
	}
}

static _Noreturn void give_up(int report, int code, const char *text)
{
	dprintf(report, "%d %s", code, text);
	_exit(code);
}

/*
 * A function of ours in the place of a program. No exec closes what is open nor gives new memory, and
 * the change of user has made this process traceable again (prctl(2)).
 */
static int run_call(const struct inside *in)
{
	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		return fail("cannot hide the process's memory");
	if (syscall(SYS_close_range, 3, ~0u, 0) < 0)
		return fail("cannot close descriptors");
	_exit(in->call(in->arg));
}

_Noreturn void inside_run(struct inside *in)
{
	int report = in->report;
	struct user u;
	char **env;
	int err;

	set_signals();
	if (enter(in, &u) < 0)
		give_up(report, EX_SBX, fail_text());
	if (in->call && run_call(in) < 0)
		give_up(report, EX_SBX, fail_text());
	env = make_env(in, &u);
	err = *in->argv[0] ? exec_path(in->argv[0], in->argv, env) : ENOENT;
	errno = err;
	if (err == E2BIG)
		failx("cannot run '%.200s': its arguments and environment are too long "
		      "(limits: 128 KiB for one, a quarter of the stack limit, 2 MiB, for all)",
		      in->argv[0]);
	else
		fail("cannot run '%.200s'", in->argv[0]);
	give_up(report, err == ENOENT || err == ENOTDIR ? EX_NOENT : EX_NOEXEC, fail_text());
}
