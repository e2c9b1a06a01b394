#include "box/profile.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/die.h"
#include "base/fd.h"
#include "base/lock.h"
#include "kern/seccomp.h"

enum { INSN = 8 /* sizeof(struct sock_filter) */, MESSAGE = 1000 };

/* What there is, for the message about what there is not. */
static int unknown(const char *dir, const char *name)
{
	autobuf all = BUF_INIT;
	DIR *d = opendir(dir);
	struct dirent *e;

	while (d && (e = readdir(d)))
		if (id_label_valid(e->d_name) && e->d_name[0] != '.')
			buf_fmt(&all, "%s%s", all.len ? " " : "", e->d_name);
	if (d)
		closedir(d);
	return failx("no seccomp profile '%.64s' in '%s' (there are: %s)", name, dir,
		     all.len ? buf_cstr(&all) : "none");
}

/* The file that NAME stands for, with its data for the cache's name. */
static int find(const struct conf *c, const char *name, char path[PATH_MAX], struct stat *st)
{
	char dir[PATH_MAX];
	int n;

	if (snprintf(dir, sizeof(dir), "%s/seccomp", c->share) >= (int)sizeof(dir))
		return failx("the name '%.64s...' is too long", c->share);
	if (name[0] != '/' && (!id_label_valid(name) || name[0] == '.'))
		return failx("seccomp profile '%.64s' is neither a word nor an absolute path",
			     name);
	n = name[0] == '/' ? snprintf(path, PATH_MAX, "%s", name)
			   : snprintf(path, PATH_MAX, "%s/%s", dir, name);
	if (n >= PATH_MAX)
		return failx("the profile name '%.64s...' is too long", name);
	if (stat(path, st) == 0)
		return S_ISREG(st->st_mode) ? 0 : failx("profile '%s' is not a file", path);
	if (errno == ENOENT && name[0] != '/')
		return unknown(dir, name);
	return fail("cannot open seccomp profile '%s'", path);
}

/* Another content, another compiler or another sbx is another name. */
static int cache_name(const struct conf *c, const char *path, const struct stat *st,
		      char out[NAME_MAX + 1])
{
	char tool[PATH_MAX];
	struct stat by;
	const char *base = strrchr(path, '/') + 1;

	snprintf(tool, sizeof(tool), "%s/sbx-seccomp", c->libexec);
	if (stat(tool, &by) < 0)
		return fail("cannot find '%s'", tool);
	snprintf(out, NAME_MAX + 1, "%.64s-%llu-%llu.%09lu-%llu-%llx-%llu.%09lu-%s.bpf", base,
		 (unsigned long long)st->st_size, (unsigned long long)st->st_mtim.tv_sec,
		 (unsigned long)st->st_mtim.tv_nsec, (unsigned long long)st->st_ino,
		 (unsigned long long)st->st_dev, (unsigned long long)by.st_mtim.tv_sec,
		 (unsigned long)by.st_mtim.tv_nsec, SBX_VERSION);
	return 0;
}

static int whole(const struct buf *bpf)
{
	return bpf->len && bpf->len <= SECCOMP_MAX && bpf->len % INSN == 0;
}

/* 1 if a whole filter was read, else 0: whatever the reason, it can be compiled again. */
static int cached(int dir, const char *name, struct buf *bpf)
{
	autofd fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	ssize_t n;

	buf_clear(bpf);
	if (fd < 0)
		return 0;
	n = fd_read_all(fd, buf_room(bpf, SECCOMP_MAX + 1), SECCOMP_MAX + 1);
	bpf->len = n > 0 ? (size_t)n : 0;
	return whole(bpf);
}

/* Starts the compiler with its output and its messages in two pipes. */
static int start(const struct conf *c, const char *path, int out, int err, pid_t *pid)
{
	char tool[PATH_MAX], *argv[] = {(char *)"sbx-seccomp", (char *)"--", (char *)path, NULL};
	char *env[] = {NULL};
	posix_spawn_file_actions_t acts;
	posix_spawnattr_t attr;
	sigset_t none;
	int e;

	snprintf(tool, sizeof(tool), "%s/sbx-seccomp", c->libexec);
	sigemptyset(&none);
	posix_spawnattr_init(&attr);
	posix_spawnattr_setsigmask(&attr, &none);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK);
	posix_spawn_file_actions_init(&acts);
	posix_spawn_file_actions_adddup2(&acts, out, STDOUT_FILENO);
	posix_spawn_file_actions_adddup2(&acts, err, STDERR_FILENO);
	e = posix_spawn(pid, tool, &acts, &attr, argv, env);
	posix_spawn_file_actions_destroy(&acts);
	posix_spawnattr_destroy(&attr);
	if (!e)
		return 0;
	errno = e;
	return fail("cannot run '%s'", tool);
}

/* The compiler's own sentence is ours, without its name before it. */
static int said(char *text)
{
	const char *s = strstr(text, ": ");

	text[strcspn(text, "\n")] = 0;
	return failx("%s", s ? s + 2 : *text ? text : "the seccomp compiler failed without a word");
}

static int compile(const struct conf *c, const char *path, struct buf *bpf)
{
	int out[2], err[2], status = 0;
	char text[MESSAGE + 1];
	ssize_t n, m;
	pid_t pid;

	if (pipe2(out, O_CLOEXEC) < 0)
		return fail("cannot make a pipe");
	autofd out_r = out[0], out_w = out[1];
	if (pipe2(err, O_CLOEXEC) < 0)
		return fail("cannot make a pipe");
	autofd err_r = err[0], err_w = err[1];
	if (start(c, path, out_w, err_w, &pid) < 0)
		return -1;
	fd_close(&out_w);
	fd_close(&err_w);
	/* In turn, for its messages fit in a pipe. */
	buf_clear(bpf);
	n = fd_read_all(out_r, buf_room(bpf, SECCOMP_MAX + 1), SECCOMP_MAX + 1);
	bpf->len = n > 0 ? (size_t)n : 0;
	fd_close(&out_r);
	m = fd_read_all(err_r, text, MESSAGE);
	text[m > 0 ? m : 0] = 0;
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return fail("cannot wait for the seccomp compiler");
	if (status || n < 0)
		return said(text);
	return whole(bpf) ? 0 : failx("the filter of '%s' is not whole", path);
}

int profile_open(const struct state *st, const char *name, struct buf *bpf)
{
	char path[PATH_MAX], file[NAME_MAX + 1];
	autofd dir = -1, lock = -1;
	struct stat data = {0};

	if (find(&st->conf, name, path, &data) < 0 || cache_name(&st->conf, path, &data, file) < 0)
		return -1;
	dir = fd_dir(st->run, "seccomp", 1);
	if (dir < 0)
		return -1;
	if (cached(dir, file, bpf))
		return 0;
	/* One compiles, the others wait for it; and two must not write one .new file. */
	lock = lock_take(dir, "lock", LOCK_EXCLUSIVE);
	if (lock < 0)
		return -1;
	if (cached(dir, file, bpf))
		return 0;
	if (compile(&st->conf, path, bpf) < 0)
		return -1;
	return fd_replace(dir, file, bpf->p, bpf->len, 0);
}
