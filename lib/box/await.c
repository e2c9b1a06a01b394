#include "box/await.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/die.h"
#include "base/fd.h"
#include "base/num.h"
#include "box/client.h"
#include "store/log.h"

enum { AGAIN_US = 20000 };

/* A keeper unlinks its socket a little before it lets go of the lock: ended is when both are so. */
static int ended(const struct state *st, const char *id, uint64_t end_us)
{
	autofree char *text = xstrdup(fail_text());

	while (box_state(st, id) != BOX_DEAD && (!end_us || num_mono_us() < end_us))
		usleep(AGAIN_US / 4);
	return fail_as(EX_GONE, "%s", text);
}

int await_begin(const struct state *st, const char *id, uint64_t seq, uint64_t end_us)
{
	autobuf b = BUF_INIT;
	autofd ctl = -1;

	while ((ctl = client_connect(st, id)) < 0) {
		if (fail_code() != EX_AGAIN)
			return fail_code() == EX_GONE ? ended(st, id, end_us) : -1;
		if (end_us && num_mono_us() >= end_us)
			return fail_as(EX_TIMEOUT, "box '%s' has not ended yet", id);
		usleep(AGAIN_US);
	}
	kv_put_line(&b, "op", "wait");
	if (seq)
		kv_put_num(&b, "seq", seq);
	if (sock_send(ctl, b.p, b.len, NULL, 0) < 0)
		return fail_as(EX_GONE, "box '%s' has ended", id);
	return fd_take(&ctl);
}

int await_read(int ctl, struct kv *rec)
{
	int fds[SOCK_FDS], n = 0;

	if (!client_answer(ctl, rec, fds, &n)) {
		while (n--)
			close(fds[n]);
		return 1;
	}
	return fail_code() == EX_GONE ? 0 : -1;
}

int await_poll(int ctl, uint64_t end_us)
{
	struct pollfd p = {.fd = ctl, .events = POLLIN};

	for (;;) {
		uint64_t now = num_mono_us();
		uint64_t left = end_us > now ? (end_us - now) / 1000 + 1 : 0;
		int r;

		if (end_us && !left)
			return 0;
		r = poll(&p, 1, !end_us ? -1 : left > 3600000 ? 3600000 : (int)left);
		if (r > 0)
			return 1;
	}
}

struct begun {
	uint64_t seq;
};

static int match_begin(void *arg, const struct kv *rec)
{
	const struct begun *b = arg;

	return kv_u64(rec, "seq", 0) == b->seq && !strcmp(kv_str(rec, "ev", ""), "exec");
}

/* From the log, for the keeper has nothing to add any more. */
static int look_up(const struct state *st, const char *id, uint64_t seq, struct kv *rec)
{
	struct begun b = {seq};
	int r = log_find_end(st, id, seq, rec);

	if (r)
		return r < 0 ? -1 : 0;
	r = log_each(st, id, match_begin, &b);
	if (!r)
		return failx("box '%s' has no command %llu", id, (unsigned long long)seq);
	return r < 0 ? -1
		     : fail_as(EX_GONE, "box '%s' has ended under command %llu", id,
			       (unsigned long long)seq);
}

int await_command(const struct state *st, const char *id, uint64_t seq, uint64_t end_us,
		  struct kv *rec)
{
	autofd ctl = -1;
	int r = log_find_end(st, id, seq, rec);

	if (r)
		return r < 0 ? -1 : 0;
	ctl = await_begin(st, id, seq, end_us);
	if (ctl < 0)
		return fail_code() == EX_GONE ? look_up(st, id, seq, rec) : -1;
	if (!await_poll(ctl, end_us))
		return fail_as(EX_TIMEOUT, "command %llu of box '%s' has not ended yet",
			       (unsigned long long)seq, id);
	r = await_read(ctl, rec);
	if (r < 0)
		return -1;
	return r && kv_get(rec, "end") ? 0 : look_up(st, id, seq, rec);
}

int await_exit_code(const struct kv *rec)
{
	const char *end = kv_str(rec, "end", "");
	int signal = (int)kv_u64(rec, "signal", 0);

	if (!strcmp(end, "box-died"))
		return EX_GONE;
	if (!strcmp(end, "timeout"))
		return EX_TIMEOUT;
	if (!strcmp(end, "client-gone"))
		return EX_SBX;
	return signal ? 128 + signal : (int)kv_u64(rec, "code", EX_SBX);
}
