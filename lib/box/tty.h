/* The terminal of a command: a pty of the box's own devpts, and the caller's terminal in raw mode.
 */
#ifndef BOX_TTY_H
#define BOX_TTY_H
#include <termios.h>

#include "box/stream.h"

struct tty {
	int master; /* -1: none */
	int caller; /* the caller's terminal, whose size and mode we follow; -1: it is none */
	struct termios saved;
	int eof_sent;
};
#define TTY_INIT                           \
	{                                  \
		.master = -1, .caller = -1 \
	}

/* Opens a pty below PTS (the root of a devpts); returns the slave's fd, the caller's. */
int tty_open(struct tty *t, int pts, int caller);
void tty_resize(const struct tty *t); /* the caller's size becomes the pty's */
/* The caller's input ended: what a person would do then is ^D. */
void tty_eof(struct tty *t, struct stream *in);
void tty_restore(struct tty *t);
void tty_close(struct tty *t);
#endif
