#include "box/follow.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/die.h"
#include "base/fd.h"
#include "box/await.h"

int follow_begin(const struct state *st, const char *id, uint64_t seq, struct follow *f)
{
	autofree char *dir = xasprintf("%s/box/%s/log", st->conf.state, id);

	f->watch = -1;
	/* First, for it waits for a box that is still being made: its log is there after it. */
	f->ctl = await_begin(st, id, seq, 0);
	if (f->ctl < 0)
		return fail_code() == EX_GONE ? 0 : -1;
	f->watch = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	if (f->watch >= 0 && inotify_add_watch(f->watch, dir, IN_MODIFY | IN_CREATE) >= 0)
		return 0;
	if (errno == ENOENT)
		return 0;
	fail("cannot watch '%s'", dir);
	follow_end(f);
	return -1;
}

static void hear(struct follow *f)
{
	autokv rec = {0};

	/* A command's end is one message; a box's is followed by the keeper's own. */
	if (await_read(f->ctl, &rec) <= 0 || !kv_get(&rec, "cause"))
		fd_close(&f->ctl);
}

int follow_wait(struct follow *f)
{
	struct pollfd p[2] = {{.fd = f->ctl, .events = POLLIN}, {.fd = f->watch, .events = POLLIN}};
	char events[4096];

	if (f->ctl < 0)
		return 0;
	if (poll(p, 2, -1) < 0)
		return errno == EINTR ? 1 : fail("cannot wait for the box's log");
	if (p[0].revents)
		hear(f);
	while (f->watch >= 0 && read(f->watch, events, sizeof(events)) > 0)
		;
	return f->ctl >= 0;
}

void follow_end(struct follow *f)
{
	fd_close(&f->ctl);
	fd_close(&f->watch);
}
