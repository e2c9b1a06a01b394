/* Looked up below the root directory, so each case has a root of its own in a child. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/die.h"
#include "base/fd.h"
#include "box/user.h"
#include "tap.h"

static char dir[] = "/tmp/test_user.XXXXXX";

static void find(const char *word, char out[512])
{
	struct user u;
	int p[2];
	ssize_t n;

	if (pipe2(p, O_CLOEXEC) < 0)
		_exit(1);
	if (!fork()) {
		int k = chroot(dir) < 0 || chdir("/") < 0 ? -2 : user_find(word, &u);

		if (k < 0)
			dprintf(p[1], "%s", k == -2 ? "chroot" : fail_text());
		else
			dprintf(p[1], "%u:%u %s %s", u.uid, u.gid, u.home, u.name);
		for (int i = 0; !k && i < u.ngroups; i++)
			dprintf(p[1], " %u", u.groups[i]);
		_exit(0);
	}
	close(p[1]);
	n = fd_read_all(p[0], out, 511);
	out[n > 0 ? n : 0] = 0;
	close(p[0]);
	wait(NULL);
}

static void is(const char *word, const char *want)
{
	char got[512];

	find(word, got);
	is_str(got, want, *word ? word : "the empty word");
}

static void put(const char *name, const char *text)
{
	char path[64];

	snprintf(path, sizeof(path), "%s/etc/%s", dir, name);
	unlink(path);
	is_num(fd_replace(AT_FDCWD, path, text, strlen(text), 0), 0, name);
}

static void odd(void)
{
	char path[64], *big = malloc(3 << 20);

	put("passwd",
	    "short\nx:y\n:::::::\nneg:x:-1:-1::/:\nbig:x:99999999999:0::/:\nok:x:9:9::/ok:\n");
	is("ok", "9:9 /ok ok");
	is("neg", "no user 'neg' in the box");
	is("big", "no user 'big' in the box");
	is("99999999999", "no user '99999999999' in the box");
	is("4294967295", "no user '4294967295' in the box");
	memset(big, 'x', 3 << 20);
	big[(3 << 20) - 1] = 0;
	put("passwd", big);
	is("0", "0:0 /root ");
	free(big);
	snprintf(path, sizeof(path), "%s/etc/passwd", dir);
	unlink(path);
	is_num(mkfifo(path, 0666), 0, "a FIFO in its place");
	is("root", "0:0 /root ");
	unlink(path);
	is_num(symlink("passwd", path), 0, "a link to itself");
	is("7:8", "7:8 / ");
}

int main(void)
{
	char etc[64];

	if (geteuid() != 0) {
		skip("user", "needs root");
		return done();
	}
	ok(mkdtemp(dir), "a directory");
	snprintf(etc, sizeof(etc), "%s/etc", dir);
	mkdir(etc, 0755);
	is("", "0:0 /root ");
	is("user", "no user 'user' in the box");
	put("passwd", "root:x:0:0:root:/root:/bin/sh\nuser:x:1000:100::/home/user:/bin/"
		      "sh\nnohome:x:5:5:::\n");
	put("group", "root:x:0:\nwheel:x:10:user,other\nusers:x:100:\naudio:x:29:other,user\nuserx:"
		     "x:30:userx\n");
	is("", "0:0 /root root");
	is("user", "1000:100 /home/user user 10 29");
	is("1000", "1000:100 /home/user user 10 29");
	is("user:wheel", "1000:10 /home/user user");
	is("user:7", "1000:7 /home/user user");
	is("12:34", "12:34 / ");
	is("nohome", "5:5 / nohome");
	is("user:nope", "no group 'nope' in the box");
	is("us", "no user 'us' in the box");
	odd();
	fd_rmtree(AT_FDCWD, dir);
	return done();
}
