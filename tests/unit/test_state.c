#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/die.h"
#include "base/fd.h"
#include "store/state.h"
#include "tap.h"

static char dir[] = "/tmp/test_state.XXXXXX";
static char state[64], run[64];

static void box(const struct state *st, const char *id)
{
	mkdirat(st->box, id, 0700);
}

static void resolve(const struct state *st)
{
	char id[ID_MAX + 1];
	struct state_iter *it;
	const char *one;
	int n = 0;

	box(st, "n1.1k3v9x2q8ab");
	box(st, "n1.1k3v9x2q8cd");
	box(st, "n1.2zzzzzzzzzz");
	mkdirat(st->box, "not a box", 0700);
	mkdirat(st->state, "name", 0700);
	is_num(symlinkat("n1.2zzzzzzzzzz", st->state, "name/worker"), 0, "a link");
	is_num(symlinkat("n1.30000000000", st->state, "name/stale"), 0, "a link");
	is_num(symlinkat("../../../../etc/passwd", st->state, "name/odd"), 0, "a link");
	is_num(state_resolve(st, "n1.1k3v9x2q8ab", id), 0, "a whole ID");
	is_str(id, "n1.1k3v9x2q8ab", "is itself");
	is_num(state_resolve(st, "2z", id), 0, "a start that fits one box");
	is_str(id, "n1.2zzzzzzzzzz", "is that box");
	is_num(state_resolve(st, "1k3v", id), -1, "a start that fits two");
	ok(strstr(fail_text(), "type more"), "says so");
	is_num(state_resolve(st, "worker", id), 0, "a name");
	is_str(id, "n1.2zzzzzzzzzz", "is its box");
	is_num(state_resolve(st, "stale", id), -1, "a name whose box is gone");
	is_num(fail_code(), EX_GONE, "is gone");
	is_num(state_resolve(st, "odd", id), -1, "a link that is no ID");
	is_num(state_resolve(st, "n1.30000000000", id), -1, "an ID without a box");
	is_num(fail_code(), EX_GONE, "is gone too");
	is_num(state_resolve(st, "../n1", id), -1, "what is neither");
	it = state_boxes(st);
	while (it && state_next(it, &one) > 0)
		n++;
	state_end(it);
	is_num(n, 3, "a walk sees the boxes, and only them");
}

static int try_open(int make)
{
	struct state st;

	return state_open(&st, make);
}

static void together(void)
{
	int status, bad = 0;

	for (int i = 0; i < 20; i++)
		if (!fork())
			_exit(try_open(1) != 0);
	while (wait(&status) > 0)
		bad += status != 0;
	is_num(bad, 0, "20 that make it at once");
}

static void links(const struct state *st)
{
	char owner[32];

	mkdirat(st->state, "name", 0700);
	is_num(symlinkat("n1.2zzzzzzzzzz", st->state, "name/x"), 0, "a link");
	state_unlink_own(st, "name", "x", "n1.2zzzzzzzzz");
	state_unlink_own(st, "name", "x", "n1.2zzzzzzzzzzz");
	ok(readlinkat(st->state, "name/x", owner, sizeof(owner)) > 0, "another's link stays");
	state_unlink_own(st, "name", "x", "n1.2zzzzzzzzzz");
	is_num(readlinkat(st->state, "name/x", owner, sizeof(owner)), -1, "one's own goes");
	state_unlink_own(st, "nowhere", "x", "n1.2zzzzzzzzzz");
}

int main(void)
{
	struct state st;

	if (geteuid() != 0) {
		skip("state", "needs root");
		return done();
	}
	ok(mkdtemp(dir), "a directory");
	snprintf(state, sizeof(state), "%s/a/b/state", dir);
	snprintf(run, sizeof(run), "%s/run", dir);
	setenv("SBX_STATE", state, 1);
	setenv("SBX_RUN", run, 1);
	setenv("SBX_CONFIG", "", 1);
	is_num(try_open(0), -1, "absent");
	ok(strstr(fail_text(), "nothing was made"), "is told");
	is_num(access(state, F_OK), -1, "and not made");
	together();
	is_num(state_open(&st, 0), 0, "then it is there");
	links(&st);
	resolve(&st);
	chmod(state, 0777);
	is_num(try_open(1), -1, "one that all may write is refused");
	ok(strstr(fail_text(), "chmod 700"), "with the cure");
	chmod(state, 0700);
	if (chown(run, 65534, 65534) == 0)
		is_num(try_open(1), -1, "one of somebody else too");
	fd_rmtree(AT_FDCWD, dir);
	return done();
}
