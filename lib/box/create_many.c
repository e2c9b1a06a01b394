#include "box/create_many.h"

#include <signal.h>
#include <unistd.h>

#include "base/die.h"

/* Keepers that start side by side: enough to keep the CPUs of a node busy, few enough to stay fair.
 */
enum { AT_ONCE_MAX = 16 };

static volatile sig_atomic_t interrupted;

static void on_signal(int sig)
{
	interrupted = sig;
}

static void begin(const struct state *st, const struct create_many *m, struct box_making *b,
		  int *code)
{
	if (!box_admit(st) && !box_make(st, m->want, b))
		return;
	m->failed();
	*code = fail_code();
	b->id[0] = 0;
}

/* A box whose ID nobody can read shall not live. 1 if there is one more. */
static int end(const struct state *st, const struct create_many *m, struct box_making *b, int *code)
{
	if (!*b->id)
		return 0;
	if (box_made(st, b) < 0) {
		m->failed();
		*code = fail_code();
		return 0;
	}
	if (!m->told(b->id)) {
		box_told(b);
		return 1;
	}
	m->failed();
	*code = EX_SBX;
	box_untold(st, b);
	return 0;
}

static uint64_t window(void)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);

	return cpus < 1 ? 2 : cpus > AT_ONCE_MAX / 2 ? AT_ONCE_MAX : (uint64_t)cpus * 2;
}

int create_many(const struct state *st, const struct create_many *m)
{
	struct sigaction sa = {.sa_handler = on_signal};
	struct box_making b[AT_ONCE_MAX] = {0};
	uint64_t begun = 0, done = 0, made = 0, most = window();
	int code = 0;

	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGTERM, &sa, NULL);
	sigaction(SIGHUP, &sa, NULL);
	while (done < begun || (begun < m->count && !code && !interrupted)) {
		if (begun < m->count && begun - done < most && !code && !interrupted)
			begin(st, m, &b[begun++ % AT_ONCE_MAX], &code);
		else
			made += (uint64_t)end(st, m, &b[done++ % AT_ONCE_MAX], &code);
	}
	if (m->count > 1 && made < m->count) {
		failx("made %llu of %llu boxes", (unsigned long long)made,
		      (unsigned long long)m->count);
		m->failed();
	}
	return code ? code : interrupted ? 128 + interrupted : 0;
}
