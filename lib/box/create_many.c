#include "box/create_many.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/die.h"
#include "base/id.h"
#include "box/profile.h"
#include "box/ways.h"

/* Keepers that start side by side: enough to keep the CPUs of a node busy, few enough to stay fair.
 */
enum { AT_ONCE_MAX = 16 };

int create_check(const struct box_want *want, const struct opt_list *labels, uint64_t count)
{
	if (!count)
		return failx("-n must be at least 1");
	if (want->name && (!id_label_valid(want->name) || id_valid(want->name)))
		return failx("--name '%s' is not a name (1-63 of A-Z a-z 0-9 . _ -)", want->name);
	if (want->name && count > 1)
		return failx("--name goes with one box only");
	if (want->hostname && !id_label_valid(want->hostname))
		return failx("--hostname '%s' is not a host name", want->hostname);
	for (size_t i = 0; i < labels->n; i++)
		if (!strchr(labels->v[i], '=') || labels->v[i][0] == '=')
			return failx("--label '%s' is not K=V", labels->v[i]);
	return 0;
}

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

/* Once, not by every box: a profile that was never compiled is, too. */
static int prepare(const struct state *st, struct box_want *want, struct buf *ways)
{
	autobuf bpf = BUF_INIT;

	if (box_prepare_node(st, &want->from->img) < 0 || ways_find(st, want->from, ways) < 0)
		return -1;
	want->ways = ways->p;
	return profile_open(st, want->seccomp, &bpf);
}

int create_many(const struct state *st, const struct create_many *m)
{
	struct sigaction sa = {.sa_handler = on_signal};
	struct box_making b[AT_ONCE_MAX] = {0};
	uint64_t begun = 0, done = 0, made = 0, most = window();
	autobuf ways = BUF_INIT;
	int code = 0;

	if (prepare(st, m->want, &ways) < 0)
		return -1;
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
