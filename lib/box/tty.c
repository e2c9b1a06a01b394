#include "box/tty.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/die.h"
#include "base/fd.h"

void tty_resize(const struct tty *t)
{
	struct winsize w;

	if (t->caller >= 0 && !ioctl(t->caller, TIOCGWINSZ, &w))
		ioctl(t->master, TIOCSWINSZ, &w);
}

int tty_open(struct tty *t, int pts, int caller)
{
	int unlock = 0, slave;
	struct termios raw;

	t->master = openat(pts, "ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (t->master < 0 || ioctl(t->master, TIOCSPTLCK, &unlock) < 0)
		return fail("cannot open a terminal in the box");
	/* By the master, not by a name that lies in the box (ioctl_tty(2), TIOCGPTPEER). */
	slave = ioctl(t->master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (slave < 0)
		return fail("cannot open a terminal in the box");
	fcntl(t->master, F_SETFL, O_NONBLOCK);
	if (caller >= 0 && !tcgetattr(caller, &t->saved)) {
		t->caller = caller;
		raw = t->saved;
		cfmakeraw(&raw);
		tcsetattr(caller, TCSADRAIN, &raw);
	}
	tty_resize(t);
	return slave;
}

void tty_eof(struct tty *t, struct stream *in)
{
	if (t->eof_sent || stream_busy(in))
		return;
	t->eof_sent = write(t->master, "\004", 1) == 1;
}

void tty_restore(struct tty *t)
{
	if (t->caller >= 0)
		tcsetattr(t->caller, TCSADRAIN, &t->saved);
	t->caller = -1;
}

void tty_close(struct tty *t)
{
	tty_restore(t);
	fd_close(&t->master);
}
