#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/lock.h"
#include "tap.h"

int main(void)
{
	char dir[] = "/tmp/test_lock.XXXXXX";
	struct stat st;
	autofd d = -1;
	int a, b, ready[2];
	char c;
	pid_t pid;

	ok(mkdtemp(dir), "a directory");
	d = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	is_num(lock_held(d, "l"), -1, "no file");
	is_num(errno, ENOENT, "says ENOENT");
	a = lock_take(d, "l", LOCK_TRY);
	ok(a >= 0, "a free lock is taken");
	ok(!fstatat(d, "l", &st, 0) && (st.st_mode & 0777) == 0600, "its mode");
	ok(fcntl(a, F_GETFD) & FD_CLOEXEC, "close on exec");
	is_num(lock_held(d, "l"), 1, "is held");
	b = lock_take(d, "l", LOCK_TRY);
	is_num(b, -1, "is not taken twice");
	is_num(errno, EWOULDBLOCK, "and says so");
	close(a);
	is_num(lock_held(d, "l"), 0, "is free when closed");
	a = lock_take(d, "l", LOCK_SHARED);
	b = lock_take(d, "l", LOCK_SHARED);
	ok(a >= 0 && b >= 0, "two share it");
	is_num(lock_held(d, "l"), 0, "shared is not held");
	is_num(lock_take(d, "l", LOCK_TRY), -1, "but not free to own");
	close(a);
	close(b);

	/* A holder that is killed leaves nothing behind. */
	if (pipe2(ready, O_CLOEXEC) < 0)
		return 1;
	pid = fork();
	if (!pid) {
		a = lock_take(d, "l", LOCK_EXCLUSIVE);
		if (write(ready[1], "x", 1) != 1)
			_exit(1);
		pause();
		_exit(a);
	}
	ok(read(ready[0], &c, 1) == 1, "another process takes it");
	is_num(lock_held(d, "l"), 1, "it is held");
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	is_num(lock_held(d, "l"), 0, "free when its holder is killed");

	is_num(symlinkat("elsewhere", d, "s"), 0, "a symbolic link");
	is_num(lock_take(d, "s", LOCK_TRY), -1, "is not followed");
	fd_rmtree(AT_FDCWD, dir);
	return done();
}
