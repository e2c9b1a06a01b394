/* Real groups, below a prefix of our own. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/die.h"
#include "base/fd.h"
#include "kern/cgroup.h"
#include "tap.h"

static pid_t sleeper(const struct cgroup *cg)
{
	int p[2];
	char c = 0;
	pid_t pid;

	if (pipe2(p, O_CLOEXEC) < 0)
		return -1;
	pid = fork();
	if (!pid) {
		c = cgroup_enter(cg, 0, 0) < 0 ? 'x' : 'o';
		if (write(p[1], &c, 1) == 1)
			sleep(60);
		_exit(1);
	}
	close(p[1]);
	ok(read(p[0], &c, 1) == 1 && c == 'o', "a process enters");
	close(p[0]);
	return pid;
}

static void nested(const struct cgroup *cg)
{
	mkdirat(cg->v2, "a", 0755);
	mkdirat(cg->v2, "a/b", 0755);
	if (cg->mem >= 0) {
		mkdirat(cg->mem, "a", 0755);
		mkdirat(cg->mem, "a/b", 0755);
	}
}

/* A process that counts in shared memory as fast as it can, in CG. */
static pid_t counter(const struct cgroup *cg, volatile unsigned *n)
{
	pid_t pid = fork();

	if (!pid) {
		if (cgroup_enter(cg, 0, 0) < 0)
			_exit(1);
		for (;;)
			++*n;
	}
	for (int i = 0; i < 5000 && !*n; i++)
		usleep(1000);
	ok(*n, "a process runs");
	return pid;
}

static int stands_still(const volatile unsigned *n)
{
	unsigned at = *n;

	usleep(50000);
	return *n == at;
}

static int goes_on(const volatile unsigned *n)
{
	unsigned at = *n;

	for (int i = 0; i < 5000 && *n == at; i++)
		usleep(1000);
	return *n != at;
}

/* One process in the group, as pid 1 of a box on a hybrid node, and one in a slot. */
static void frozen(const struct cgroup *cg, const struct cgroup *slot)
{
	volatile unsigned *n =
		mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct cgroup home, late;
	pid_t pid[2];
	int status;

	is_num(cgroup_home(cg, &home), 0, "a home");
	pid[0] = counter(&home, &n[0]);
	pid[1] = counter(slot, &n[1]);
	is_num(cgroup_frozen(cg), 0, "not frozen");
	is_num(cgroup_freeze(cg, 1, 10000), 1, "is frozen");
	is_num(cgroup_frozen(cg), 1, "says so");
	ok(stands_still(&n[0]) && stands_still(&n[1]), "nothing runs");
	is_num(cgroup_slot(cg, "late", &late), 0, "a new slot");
	is_num(cgroup_frozen(cg), 1, "changes nothing");
	cgroup_slot_remove(cg, "late", &late);
	is_num(cgroup_freeze(cg, 0, 10000), 1, "is thawed");
	ok(goes_on(&n[0]) && goes_on(&n[1]), "all runs again");
	is_num(cgroup_freeze(cg, 1, 10000), 1, "frozen once more");
	is_num(cgroup_kill(cg), 0, "and killed");
	for (int i = 0; i < 2; i++) {
		waitpid(pid[i], &status, 0);
		ok(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "it is dead");
	}
	is_num(cgroup_freeze(cg, 0, 0) < 0, 0, "thawed");
	cgroup_close(&home);
	munmap((void *)n, 4096);
}

static void life(struct cgroup_tree *t, const char *name)
{
	static const struct cgroup_limits limits = {64 << 20, 16, 500};
	struct cgroup cg, slot, again;
	struct cgroup_usage u;
	int status;
	pid_t pid;

	is_num(cgroup_open(t, name, &cg), -1, "a group that is not there");
	is_num(cgroup_make(t, name, &limits, &cg), 0, "is made");
	is_num(cgroup_open(t, name, &again), 0, "and opened");
	cgroup_close(&again);
	is_num(cgroup_populated(&cg), 0, "nothing lives in it");
	is_num(cgroup_slot(&cg, "0", &slot), 0, "a slot in it");
	frozen(&cg, &slot);
	cgroup_slot_remove(&cg, "0", &slot);
	is_num(cgroup_slot(&cg, "0", &slot), 0, "a slot that was never killed");
	pid = sleeper(&slot);
	is_num(cgroup_populated(&cg), 1, "its processes count above it");
	is_num(cgroup_wait_empty(&cg, 50), 0, "waiting has an end");
	is_num(cgroup_usage(&cg, &u), 0, "usage");
	is_num(u.tasks, 1, "one task");
	is_num(cgroup_kill(&slot), 0, "kill");
	waitpid(pid, &status, 0);
	ok(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "it is dead");
	is_num(cgroup_wait_empty(&cg, 5000), 1, "and the group empty");
	is_num(cgroup_oom_kills(&cg), 0, "nobody died for memory");
	nested(&cg);
	cgroup_close(&slot);
	cgroup_close(&cg);
	is_num(cgroup_remove(t, name), 0, "removed with all below it");
	is_num(cgroup_open(t, name, &cg), -1, "gone");
	is_num(cgroup_remove(t, name), 0, "removing what is gone is no error");
}

int main(void)
{
	struct cgroup_tree tree;
	char name[32];

	if (geteuid() != 0) {
		skip("cgroup", "needs root");
		return done();
	}
	snprintf(name, sizeof(name), "unit-%d", getpid());
	if (cgroup_tree_open(&tree, "sbx") < 0) {
		skip("cgroup", fail_text());
		return done();
	}
	life(&tree, name);
	return done();
}
