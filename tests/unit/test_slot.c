#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/die.h"
#include "base/fd.h"
#include "store/slot.h"
#include "store/state.h"
#include "tap.h"

enum { MAX = 64, CHILDREN = 16 };

static int count(void *n, uint32_t slot, const char *id)
{
	(void)slot;
	(void)id;
	++*(int *)n;
	return 0;
}

static int first(void *got, uint32_t slot, const char *id)
{
	(void)id;
	*(uint32_t *)got = slot;
	return -7;
}

/* Each child takes and frees in turn, and checks that what it holds says its own ID. */
static int child(const struct state *st, int me)
{
	char id[32], path[32], owner[32];

	snprintf(id, sizeof(id), "n.000000000%02d", me);
	for (int i = 0; i < 200; i++) {
		uint32_t slot;
		ssize_t n;

		if (slot_take(st, id, &slot) < 0)
			return 1;
		snprintf(path, sizeof(path), "slot/%u", slot);
		n = readlinkat(st->state, path, owner, sizeof(owner));
		if (n != (ssize_t)strlen(id) || memcmp(owner, id, (size_t)n) != 0)
			return 2;
		slot_free(st, (slot + 1) % MAX, id); /* not its own: nothing must happen */
		slot_free(st, slot, id);
	}
	return 0;
}

static void in_parallel(const struct state *st)
{
	int status, bad = 0;

	for (int i = 0; i < CHILDREN; i++)
		if (!fork())
			_exit(child(st, i));
	while (wait(&status) > 0)
		bad += status != 0;
	is_num(bad, 0, "side by side nobody meets another's slot");
}

int main(void)
{
	char dir[] = "/tmp/test_slot.XXXXXX";
	struct state st = {.conf = {.max_boxes = 3, .state = dir}};
	uint32_t a, b, c, d = 99;
	int n = 0;

	ok(mkdtemp(dir), "a directory");
	st.state = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	is_num(slot_each(&st, count, &n), 0, "no directory of slots");
	is_num(n, 0, "has none");
	is_num(slot_take(&st, "n.a", &a), 0, "a first slot");
	is_num(slot_take(&st, "n.b", &b), 0, "a second");
	is_num(slot_take(&st, "n.c", &c), 0, "the last");
	ok(a < 3 && b < 3 && c < 3 && a != b && b != c && a != c,
	   "all different, all below the maximum");
	is_num(slot_take(&st, "n.d", &d), -1, "no more");
	is_num(fail_code(), EX_AGAIN, "is for later");
	ok(strstr(fail_text(), "max_boxes"), "and names what limits it");
	is_num(slot_each(&st, count, &n), 0, "a walk");
	is_num(n, 3, "sees all");
	is_num(slot_each(&st, first, &d), -7, "a walk stops with the value it was given");
	slot_free(&st, b, "n.a");
	is_num(slot_take(&st, "n.d", &d), -1, "another's slot is not freed");
	slot_free(&st, b, "n.b");
	is_num(slot_take(&st, "n.d", &d), 0, "one's own is");
	is_num(d, b, "and is taken again");
	is_num(symlinkat("n.e", st.state, "slot/notanumber"), 0, "a link");
	n = 0;
	is_num(slot_each(&st, count, &n), 0, "what is no slot is passed over");
	is_num(n, 3, "and not counted");
	fd_rmtree(st.state, "slot");
	st.conf.max_boxes = MAX;
	in_parallel(&st);
	fd_rmtree(AT_FDCWD, dir);
	return done();
}
