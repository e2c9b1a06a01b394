#include "base/run.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/die.h"
#include "base/fd.h"

extern char **environ;

static int start(const char *path, char *const *argv, int out, pid_t *pid)
{
	posix_spawn_file_actions_t fa;
	int err;

	posix_spawn_file_actions_init(&fa);
	posix_spawn_file_actions_addopen(&fa, 0, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_adddup2(&fa, out, 1);
	err = posix_spawn(pid, path, &fa, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&fa);
	errno = err;
	return err ? fail("cannot start '%s'", path) : 0;
}

int run_output(const char *path, char *const *argv, size_t max, struct buf *b)
{
	int p[2], status = 0;
	char piece[4096];
	ssize_t n;
	pid_t pid;

	if (pipe2(p, O_CLOEXEC) < 0)
		return fail("cannot make a pipe");
	if (start(path, argv, p[1], &pid) < 0) {
		close(p[0]);
		close(p[1]);
		return -1;
	}
	close(p[1]);
	while ((n = read(p[0], piece, sizeof(piece))) > 0 || (n < 0 && errno == EINTR))
		if (n > 0)
			buf_add(b, piece, (size_t)n < max - b->len ? (size_t)n : max - b->len);
	close(p[0]);
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return fail("cannot wait for '%s'", path);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
