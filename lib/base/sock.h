/* Unix SOCK_SEQPACKET messages that carry file descriptors. */
#ifndef BASE_SOCK_H
#define BASE_SOCK_H
#include <stddef.h>
#include <sys/types.h>

enum { SOCK_MAX = 64 * 1024, SOCK_FDS = 16 };

/*
 * The socket lies at DIR/NAME; DIR is an fd, so the path may be longer than sun_path allows.
 * listen replaces a dead socket of that name. Both return a new fd; connect keeps errno
 * (ECONNREFUSED, ENOENT: nobody is there) and gives up after TIMEOUT_MS.
 */
int sock_listen(int dir, const char *name);
int sock_connect(int dir, const char *name, int timeout_ms);

/* One message of at most SOCK_MAX bytes; the fds stay the caller's. -1 with errno. */
int sock_send(int fd, const void *p, size_t n, const int *fds, int nfds);

/*
 * One message: bytes into P (room N), received fds into FDS (room SOCK_FDS, all O_CLOEXEC, the
 * caller's), their number into *NFDS. 0 at the end of the stream. A message that does not fit, or
 * with too many fds, is EMSGSIZE and its fds are closed.
 */
ssize_t sock_recv(int fd, void *p, size_t n, int *fds, int *nfds);
#endif
