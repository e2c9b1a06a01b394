/* Real groups, below a prefix of our own. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
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
