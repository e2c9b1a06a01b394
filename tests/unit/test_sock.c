#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/sock.h"
#include "tap.h"

static int open_fds(void)
{
	int n = 0;

	for (int fd = 0; fd < 256; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

static void messages(int a, int b)
{
	char *big = calloc(1, SOCK_MAX + 1), small[4];
	int fds[SOCK_FDS], n = -1, before, null = open("/dev/null", O_RDONLY | O_CLOEXEC);

	is_num(sock_send(a, "hello", 5, NULL, 0), 0, "send");
	is_num(sock_recv(b, big, SOCK_MAX, fds, &n), 5, "receive");
	ok(!memcmp(big, "hello", 5) && n == 0, "the bytes, no fd");
	is_num(sock_send(a, "x", 1, &null, 1), 0, "send an fd");
	is_num(sock_recv(b, big, SOCK_MAX, fds, &n), 1, "receive it");
	ok(n == 1 && fcntl(fds[0], F_GETFD) & FD_CLOEXEC, "close on exec");
	close(fds[0]);

	for (int i = 0; i < SOCK_FDS; i++)
		fds[i] = null;
	is_num(sock_send(a, "x", 1, fds, SOCK_FDS), 0, "the most fds");
	is_num(sock_recv(b, big, SOCK_MAX, fds, &n), 1, "received");
	is_num(n, SOCK_FDS, "all of them");
	for (int i = 0; i < n; i++)
		close(fds[i]);
	is_num(sock_send(a, "x", 1, fds, SOCK_FDS + 1), -1, "one too many");

	before = open_fds();
	is_num(sock_send(a, "too long", 8, &null, 1), 0, "a long message");
	is_num(sock_recv(b, small, sizeof(small), fds, &n), -1, "does not fit");
	is_num(errno, EMSGSIZE, "and says so");
	is_num(open_fds(), before, "its fd is closed");

	is_num(sock_send(a, big, SOCK_MAX, NULL, 0), 0, "the longest message");
	is_num(sock_recv(b, big, SOCK_MAX, fds, &n), SOCK_MAX, "received");
	is_num(sock_send(a, big, SOCK_MAX + 1, NULL, 0), -1, "a longer one is refused");
	is_num(errno, EMSGSIZE, "and says so");
	close(null);
	free(big);
}

/* A sender that is not ours may pass more fds than SOCK_FDS. */
static void hostile(int a, int b)
{
	enum { MANY = 40 };
	union {
		struct cmsghdr align;
		char space[CMSG_SPACE(sizeof(int) * MANY)];
	} ctl = {{0}};
	char byte = 0;
	struct iovec iov = {.iov_base = &byte, .iov_len = 1};
	struct msghdr m = {.msg_iov = &iov,
			   .msg_iovlen = 1,
			   .msg_control = ctl.space,
			   .msg_controllen = sizeof(ctl.space)};
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);
	int fds[SOCK_FDS], many[MANY], n, before = open_fds();

	for (int i = 0; i < MANY; i++)
		many[i] = 0;
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(many));
	memcpy(CMSG_DATA(c), many, sizeof(many));
	is_num(sendmsg(a, &m, 0), 1, "40 fds in one message");
	is_num(sock_recv(b, &byte, 1, fds, &n), -1, "are refused");
	is_num(errno, EMSGSIZE, "with a reason");
	is_num(open_fds(), before, "and none stays open");
}

int main(void)
{
	char top[] = "/tmp/test_sock.XXXXXX", deep[200], byte;
	int fds[SOCK_FDS], n;
	autofd dir = -1, l = -1, a = -1, b = -1;

	if (!mkdtemp(top))
		return 1;
	snprintf(deep, sizeof(deep), "%s/%0120d", top, 0);
	mkdir(deep, 0700);
	dir = fd_dir(AT_FDCWD, deep, 0);
	is_num(sock_connect(dir, "ctl", 1000), -1, "nobody there");
	is_num(errno, ENOENT, "no socket");
	l = sock_listen(dir, "ctl");
	ok(l >= 0, "a path longer than sun_path");
	fd_close(&l);
	is_num(sock_connect(dir, "ctl", 1000), -1, "a dead socket");
	is_num(errno, ECONNREFUSED, "is refused");
	l = sock_listen(dir, "ctl");
	ok(l >= 0, "is replaced");
	a = sock_connect(dir, "ctl", 1000);
	b = accept4(l, NULL, NULL, SOCK_CLOEXEC);
	ok(a >= 0 && b >= 0, "connected");
	messages(a, b);
	hostile(a, b);
	fd_close(&a);
	is_num(sock_recv(b, &byte, 1, fds, &n), 0, "the end of the stream");
	is_num(sock_send(b, "x", 1, NULL, 0), -1, "nobody reads: an error, not a signal");
	fd_rmtree(AT_FDCWD, top);
	return done();
}
