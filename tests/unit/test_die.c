#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/die.h"
#include "base/fd.h"
#include "tap.h"

/* Runs ACT in a child with stderr in a pipe; its exit status, its words in OUT. */
static int child(void (*act)(void), char *out, size_t room)
{
	int p[2], status;
	ssize_t n;
	pid_t pid;

	if (pipe2(p, O_CLOEXEC) < 0)
		return -1;
	fflush(stdout);
	pid = fork();
	if (!pid) {
		dup2(p[1], 2);
		act();
		_exit(99);
	}
	close(p[1]);
	n = fd_read_all(p[0], out, room - 1);
	out[n < 0 ? 0 : n] = 0;
	close(p[0]);
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void act_die(void)
{
	die_init("/usr/bin/tool");
	errno = ENOSPC;
	fail("cannot write '%s'", "f");
	die();
}

static void act_again(void)
{
	die_init("tool");
	fail_as(EX_AGAIN, "no room");
	fail_more("box '%s'", "b");
	die();
}

static void act_long(void)
{
	autobuf b = BUF_INIT;

	for (int i = 0; i < 5000; i++)
		buf_chr(&b, 'x');
	dief(EX_SBX, "%s", b.p);
}

static void act_full(void)
{
	FILE *f = fopen("/dev/full", "we");

	if (!f)
		_exit(98);
	fputs("x", f);
	_exit(finish(f));
}

static void act_closed(void)
{
	close(0);
	close(1);
	die_init("tool");
	_exit(open("/dev/null", O_RDONLY | O_CLOEXEC) > 2 ? 0 : 1);
}

int main(void)
{
	char out[8192];

	errno = ENOENT;
	is_num(fail("cannot open '%s'", "x"), -1, "fail");
	is_str(fail_text(), "cannot open 'x': No such file or directory", "its text");
	is_num(errno, ENOENT, "keeps errno");
	is_num(fail_code(), EX_SBX, "its code");
	failx("plain");
	is_str(fail_text(), "plain", "failx has no cause");
	fail_as(EX_GONE, "gone");
	is_num(fail_code(), EX_GONE, "fail_as");
	fail_more("box");
	is_str(fail_text(), "box: gone", "fail_more");
	is_num(fail_code(), EX_GONE, "keeps the code");
	fail("again");
	is_num(fail_code(), EX_SBX, "a later fail resets it");
	is_num(child(act_die, out, sizeof(out)), EX_SBX, "die");
	is_str(out, "tool: cannot write 'f': No space left on device\n", "one line");
	is_num(child(act_again, out, sizeof(out)), EX_AGAIN, "its own code");
	is_str(out, "tool: box 'b': no room\n", "one line");
	is_num(child(act_long, out, sizeof(out)), EX_SBX, "a very long message");
	ok(strlen(out) < 2048 && out[strlen(out) - 1] == '\n', "is cut, and ends the line");
	is_num(child(act_full, out, sizeof(out)), EX_SBX, "a full disk is an error");
	ok(strstr(out, "No space left"), "and its cause is named");
	is_num(child(act_closed, out, sizeof(out)), 0, "0-2 are never given to a file");
	return done();
}
