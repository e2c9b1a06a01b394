#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "tap.h"

static char top[] = "/dev/shm/test_fd.XXXXXX";
static int at;

static void touch(int dir, const char *name)
{
	autofd fd = openat(dir, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	if (fd < 0)
		perror(name);
}

static void slink(const char *target, int dir, const char *name)
{
	if (symlinkat(target, dir, name) < 0)
		perror(name);
}

static int absent(const char *name)
{
	return faccessat(at, name, F_OK, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT;
}

static void deep(void)
{
	int fd = openat(at, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), depth = 0;

	for (; depth < 5000; depth++) {
		int sub;

		if (mkdirat(fd, "d", 0700) < 0)
			break;
		touch(fd, "f");
		sub = openat(fd, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		close(fd);
		fd = sub;
	}
	close(fd);
	is_num(depth, 5000, "a tree 5000 deep");
	is_num(fd_rmtree(at, "d"), 0, "is removed");
	ok(absent("d"), "is gone");
	unlinkat(at, "f", 0);
}

static void wide(void)
{
	autofd fd = fd_dir(at, "w", 1);

	for (int i = 0; i < 3000; i++) {
		char name[24];

		snprintf(name, sizeof(name), "%c%d", i % 3 ? 'f' : 'd', i);
		if (i % 3) {
			touch(fd, name);
			continue;
		}
		mkdirat(fd, name, 0700);
		if (i % 2) {
			autofd sub = fd_dir(fd, name, 0);

			touch(sub, "x");
		}
	}
	is_num(fd_rmtree(at, "w"), 0, "a wide tree is removed");
	ok(absent("w"), "is gone");
}

/* Directories in directories, removed by four processes at a time: none may stumble on another. */
static void together(void)
{
	int bad = 0;

	for (int round = 0; round < 20; round++) {
		autofd fd = fd_dir(at, "t", 1);
		int status;

		for (int i = 0; i < 300; i++) {
			char name[24];
			autofd sub = -1, low = -1;

			snprintf(name, sizeof(name), "%d", i);
			sub = fd_dir(fd, name, 1);
			low = fd_dir(sub, "low", 1);
			touch(low, "x");
		}
		for (int i = 0; i < 4; i++)
			if (!fork())
				_exit(fd_rmtree(at, "t") < 0);
		while (wait(&status) > 0)
			bad += status != 0;
	}
	is_num(bad, 0, "four at once remove one tree, and none fails");
	ok(absent("t"), "is gone");
}

static void links(void)
{
	autofd out = fd_dir(at, "out", 1), in = fd_dir(at, "in", 1), sub = -1;

	touch(out, "keep");
	slink("../out", in, "dirlink");
	slink("/", in, "root");
	slink("nowhere", in, "dangling");
	slink("in", in, "..."); /* an odd name */
	if (linkat(out, "keep", in, "hard", 0) < 0)
		perror("hard");
	mknodat(in, "fifo", S_IFIFO | 0600, 0);
	mkdirat(in, "\n-rf *", 0700);
	mkdirat(in, "closed", 0700);
	sub = openat(in, "closed", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	touch(sub, "x");
	fchmod(sub, 0);
	is_num(fd_rmtree(at, "in"), 0, "links, specials, a closed directory");
	ok(absent("in"), "are gone");
	ok(!faccessat(out, "keep", F_OK, 0), "what links pointed to stays");
	slink("out", at, "l");
	is_num(fd_rmtree(at, "l"), 0, "a link as the top");
	ok(absent("l") && !absent("out"), "the link alone goes");
	touch(at, "plain");
	is_num(fd_rmtree(at, "plain"), 0, "a file as the top");
	is_num(fd_rmtree(at, "never"), 0, "absent is success");
	is_num(fd_rmtree(at, "out"), 0, "the rest");
}

/* Names so long that no path to the bottom fits PATH_MAX. */
static void long_names(void)
{
	char name[256];
	int fd = openat(at, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	memset(name, 'n', 255);
	name[255] = 0;
	for (int i = 0; i < 40; i++) {
		int sub = fd_dir(fd, name, 1);

		close(fd);
		fd = sub;
	}
	close(fd);
	is_num(fd_rmtree(at, name), 0, "paths longer than PATH_MAX");
	ok(absent(name), "are gone");
}

static void replace(void)
{
	autobuf b = BUF_INIT;
	struct stat st;

	is_num(fd_replace(at, "r", "one", 3, 0), 0, "a new file");
	is_num(fd_replace(at, "r", "two!", 4, 1), 0, "replaced, with sync");
	is_num(fd_read_file(at, "r", 100, &b), 0, "read");
	is_str(b.p, "two!", "its content");
	ok(absent("r.new"), "nothing is left beside it");
	ok(!fstatat(at, "r", &st, 0) && (st.st_mode & 0777) == 0600, "its mode");
	touch(at, "victim");
	slink("victim", at, "v.new");
	is_num(fd_replace(at, "v", "x", 1, 0), -1, "a link under the new name is not followed");
	fstatat(at, "victim", &st, 0);
	is_num(st.st_size, 0, "its target is untouched");
	is_num(fd_replace(at, "none/r", "x", 1, 0), -1, "no directory");
	mkdirat(at, "dir", 0700);
	is_num(fd_replace(at, "dir", "x", 1, 0), -1, "a directory is not replaced");
	ok(absent("dir.new"), "and nothing is left");
	is_num(fd_read_file(at, "r", 3, &b), -1, "more than the limit");
	is_num(errno, EFBIG, "says so");
	is_num(fd_read_file(at, "r", 4, &b), 0, "exactly the limit");
	is_num(fd_replace(at, "empty", "", 0, 0), 0, "an empty file");
	is_num(fd_read_file(at, "empty", 0, &b), 0, "is read");
	is_str(b.p, "", "as nothing");
}

static void pipes(void)
{
	enum { MANY = 1 << 20 };
	char *p = calloc(1, MANY);
	int fd[2], status = -1;
	pid_t pid;

	if (!p || pipe2(fd, O_CLOEXEC) < 0) {
		free(p);
		return;
	}
	pid = fork();
	if (!pid)
		_exit(fd_write_all(fd[1], p, MANY) < 0);
	close(fd[1]);
	is_num(fd_read_all(fd[0], p, MANY), MANY, "a megabyte through a pipe");
	waitpid(pid, &status, 0);
	is_num(status, 0, "all written");
	is_num(fd_read_all(fd[0], p, 10), 0, "then the end");
	close(fd[0]);
	free(p);
}

static void numbers(void)
{
	autofd a = open("/dev/null", O_RDONLY | O_CLOEXEC);
	int b = fd_take(&a);

	is_num(a, -1, "taken");
	errno = ERANGE;
	fd_close(&b);
	ok(b == -1 && errno == ERANGE, "closed, errno kept");
	fd_close(&b);
	ok(b == -1, "twice is harmless");
}

static void paths(void)
{
	char deeper[200];
	autofd fd = -1;

	snprintf(deeper, sizeof(deeper), "%s/a/b//c/", top);
	is_num(fd_mkdirs(deeper, 0755), 0, "mkdir -p");
	is_num(fd_mkdirs(deeper, 0755), 0, "again");
	snprintf(deeper, sizeof(deeper), "%s/r/x", top);
	is_num(fd_mkdirs(deeper, 0755), -1, "below a file");
	slink("/", at, "rootlink");
	fd = fd_openat2(at, "rootlink/etc", O_RDONLY, 0, RESOLVE_BENEATH);
	ok(fd == -1 && errno == EXDEV, "openat2 stays beneath");
	fd = fd_openat2(at, "a/b", O_RDONLY | O_DIRECTORY, 0, RESOLVE_BENEATH);
	ok(fd >= 0 && fcntl(fd, F_GETFD) & FD_CLOEXEC, "openat2, close on exec");
	is_num(fd_put(at, "r", "zz"), 0, "one write to an existing file");
	is_num(fd_put(at, "nothere", "zz"), -1, "it is not made");
}

int main(void)
{
	if (!mkdtemp(top))
		return 1;
	at = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	deep();
	wide();
	together();
	links();
	long_names();
	replace();
	pipes();
	numbers();
	paths();
	is_num(fd_rmtree(AT_FDCWD, top), 0, "everything");
	ok(access(top, F_OK) < 0, "is gone");
	return done();
}
