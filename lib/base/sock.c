#include "base/sock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/die.h"
#include "base/fd.h"

static void address(struct sockaddr_un *sa, int dir, const char *name)
{
	memset(sa, 0, sizeof(*sa));
	sa->sun_family = AF_UNIX;
	snprintf(sa->sun_path, sizeof(sa->sun_path), "/proc/self/fd/%d/%s", dir, name);
}

int sock_listen(int dir, const char *name)
{
	autofd fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_un sa;

	address(&sa, dir, name);
	if (fd < 0)
		return fail("cannot make a socket");
	unlinkat(dir, name, 0);
	if (bind(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0 || listen(fd, 1024) < 0)
		return fail("cannot listen on '%s'", name);
	return fd_take(&fd);
}

int sock_connect(int dir, const char *name, int timeout_ms)
{
	autofd fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	struct timeval tv = {.tv_sec = timeout_ms / 1000, .tv_usec = timeout_ms % 1000 * 1000};
	struct sockaddr_un sa;

	address(&sa, dir, name);
	if (fd < 0)
		return fail("cannot make a socket");
	/* A blocking connect waits while the queue is full; SO_SNDTIMEO bounds it (unix(7)). */
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv));
	if (connect(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0)
		return fail("cannot connect to '%s'", name);
	return fd_take(&fd);
}

int sock_send(int fd, const void *p, size_t n, const int *fds, int nfds)
{
	union {
		struct cmsghdr align;
		char space[CMSG_SPACE(sizeof(int) * SOCK_FDS)];
	} ctl;
	struct iovec iov = {.iov_base = (void *)p, .iov_len = n};
	struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};
	ssize_t r;

	if (n > SOCK_MAX || nfds > SOCK_FDS) {
		errno = EMSGSIZE;
		return -1;
	}
	if (nfds) {
		struct cmsghdr *c;

		memset(&ctl, 0, sizeof(ctl));
		m.msg_control = ctl.space;
		m.msg_controllen = CMSG_SPACE(sizeof(int) * (size_t)nfds);
		c = CMSG_FIRSTHDR(&m);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int) * (size_t)nfds);
		memcpy(CMSG_DATA(c), fds, sizeof(int) * (size_t)nfds);
	}
	do
		r = sendmsg(fd, &m, MSG_NOSIGNAL);
	while (r < 0 && errno == EINTR);
	return r == (ssize_t)n ? 0 : -1;
}

ssize_t sock_recv(int fd, void *p, size_t n, int *fds, int *nfds)
{
	union {
		struct cmsghdr align;
		char space[CMSG_SPACE(sizeof(int) * SOCK_FDS)];
	} ctl;
	struct iovec iov = {.iov_base = p, .iov_len = n};
	struct msghdr m = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = ctl.space,
		.msg_controllen = sizeof(ctl.space),
	};
	ssize_t r;

	*nfds = 0;
	do
		r = recvmsg(fd, &m, MSG_CMSG_CLOEXEC);
	while (r < 0 && errno == EINTR);
	if (r < 0)
		return -1;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		*nfds = (int)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
		memcpy(fds, CMSG_DATA(c), sizeof(int) * (size_t)*nfds);
	}
	if (m.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) {
		for (int i = 0; i < *nfds; i++)
			close(fds[i]);
		*nfds = 0;
		errno = EMSGSIZE;
		return -1;
	}
	return r;
}
