#include "base/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>

#include "base/die.h"
#include "base/fd.h"

static int flock_retry(int fd, int op)
{
	int r;

	do
		r = flock(fd, op);
	while (r < 0 && errno == EINTR);
	return r;
}

int lock_take(int at, const char *path, enum lock_how how)
{
	static const int ops[] = {LOCK_SH, LOCK_EX, LOCK_EX | LOCK_NB};
	autofd fd = openat(at, path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

	if (fd < 0)
		return fail("cannot open lock '%s'", path);
	if (flock_retry(fd, ops[how]) < 0)
		return fail("cannot lock '%s'", path);
	return fd_take(&fd);
}

int lock_held(int at, const char *path)
{
	autofd fd = openat(at, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

	if (fd < 0)
		return -1;
	if (!flock_retry(fd, LOCK_SH | LOCK_NB))
		return 0;
	return errno == EWOULDBLOCK ? 1 : -1;
}
