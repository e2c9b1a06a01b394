/*
 * The floor: what the kernel alone takes to make and end one box, in one process, with no state, no
 * keeper, no checks. Mounts the layer once, then makes and ends boxes one after another and prints
 *
 *	boxes	make_us	end_us	total_us	(medians per box)
 *
 * -x leaves parts out, to see what each costs. An interrupt waits for the box in hand. Leaves
 *nothing behind unless it fails or is killed: then its groups "bench-bare.PID" and the directory
 *DIR/box.
 */
#include "base/die.h"
#include "base/num.h"
#include "bare.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_BOXES = 100000, STACK = 64 * 1024, FIRST_ID = 1 << 28, IDS = 1 << 16, RETRIES = 1000 };
enum { PART_USER = 1, PART_NET = 2, PART_CGROUP = 4, PART_SECCOMP = 8, PART_DEV = 16 };

static const char *const part_names[] = {"user", "net", "cgroup", "seccomp", "dev", NULL};

static struct {
	int layer, init, dir; /* the layer's mount, the init program, the directory for uppers */
	int go[2];	      /* the parent's word that maps, groups and the overlay are ready */
	unsigned parts;
	struct groups groups;
} node;

struct box {
	unsigned first_id;
	int pidfd, overlay;
	pid_t pid;
	pid_t tid; /* cleared by the kernel when the child has left our memory: it runs init */
	const char *failed;
};

_Noreturn static void die_at(const char *what)
{
	dief(EX_SBX, "cannot %s: %s", what, strerror(errno));
}

/* Runs in the child, on our memory: it may only leave word and go. */
static int child_fail(struct box *box, const char *what)
{
	box->failed = what;
	_exit(1);
}

static int child(void *arg)
{
	static char name[] = "init";
	char *argv[] = {name, NULL}, *env[] = {NULL};
	struct box *box = arg;
	char go;

	if (read(node.go[0], &go, 1) != 1 || go != 'g')
		_exit(1);
	if (node.parts & PART_USER &&
	    (syscall(SYS_setgroups, 0, NULL) || syscall(SYS_setresgid, 0, 0, 0) ||
	     syscall(SYS_setresuid, 0, 0, 0)))
		child_fail(box, "become the box's root");
	if (node.parts & PART_CGROUP && syscall(SYS_unshare, CLONE_NEWCGROUP))
		child_fail(box, "make a cgroup namespace");
	/* After the change of ids, which would clear it: prctl(2). */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL))
		child_fail(box, "tie the box to us");
	if (bare_root(box->overlay, node.parts & PART_DEV))
		child_fail(box, "make the root");
	if (node.parts & PART_NET && bare_lo_up())
		child_fail(box, "bring lo up");
	if (node.parts & PART_SECCOMP && bare_filter())
		child_fail(box, "load the filter");
	syscall(SYS_execveat, node.init, "", argv, env, AT_EMPTY_PATH);
	return child_fail(box, "run init");
}

/* musl's clone() keeps the stack's handling out of this file, but has no CLONE_INTO_CGROUP. */
static void spawn(struct box *box)
{
	static char stack[STACK] __attribute__((aligned(16)));
	int flags = CLONE_VM | CLONE_FILES | CLONE_PIDFD | CLONE_CHILD_CLEARTID | SIGCHLD |
		    CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS;

	flags |= node.parts & PART_USER ? CLONE_NEWUSER : 0;
	flags |= node.parts & PART_NET ? CLONE_NEWNET : 0;
	box->tid = 1;
	box->pid = clone(child, stack + STACK, flags, box, &box->pidfd, NULL, &box->tid);
	if (box->pid < 0)
		die_at("clone");
}

static void write_map(pid_t pid, const char *file, unsigned first)
{
	char path[64], map[64];
	int fd, len = snprintf(map, sizeof(map), "0 %u %d\n", first, IDS);

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, file);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0 || write(fd, map, (size_t)len) != len)
		die_at("map ids");
	close(fd);
}

/* A mount of the layer whose files belong to the box's ids. */
static int lower(const struct box *box)
{
	struct mount_attr attr = {.attr_set = MOUNT_ATTR_IDMAP};
	int fd = (int)syscall(SYS_open_tree, node.layer, "",
			      OPEN_TREE_CLONE | O_CLOEXEC | AT_EMPTY_PATH);
	int user = -1;

	if (fd < 0)
		die_at("clone the layer's mount");
	if (!(node.parts & PART_USER))
		return fd;
	user = bare_userns(box->pidfd, box->pid);
	attr.userns_fd = (unsigned)user;
	if (user < 0 || syscall(SYS_mount_setattr, fd, "", AT_EMPTY_PATH, &attr, sizeof(attr)))
		die_at("map the layer's ids");
	close(user);
	return fd;
}

static int make_dir(const char *name, unsigned owner)
{
	int fd;

	if (mkdirat(node.dir, name, 0755))
		die_at("make a directory");
	fd = openat(node.dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || (owner && fchown(fd, owner, owner)))
		die_at("prepare a directory");
	return fd;
}

/* Detached, made in our namespace: overlay refuses directories opened in another one. */
static int overlay(const struct box *box)
{
	int low = lower(box), upper, work, fd;

	if (mkdirat(node.dir, "box", 0700))
		die_at("make the box's directory");
	upper = make_dir("box/upper", node.parts & PART_USER ? box->first_id : 0);
	work = make_dir("box/work", 0);
	fd = bare_overlay(low, upper, work);
	if (fd < 0)
		die_at("mount the overlay");
	close(low);
	close(upper);
	close(work);
	return fd;
}

/* CLONE_CHILD_CLEARTID wakes us when the child has executed init, or has died. */
static void wait_exec(struct box *box)
{
	pid_t now;

	while ((now = __atomic_load_n(&box->tid, __ATOMIC_ACQUIRE)))
		syscall(SYS_futex, &box->tid, 0 /* FUTEX_WAIT */, now, NULL, NULL, 0);
	if (box->failed)
		die_at(box->failed);
}

static void make(struct box *box)
{
	if (node.parts & PART_CGROUP && groups_make(&node.groups))
		die_at("make the groups");
	spawn(box);
	if (node.parts & PART_USER) {
		write_map(box->pid, "uid_map", box->first_id);
		write_map(box->pid, "gid_map", box->first_id);
	}
	if (node.parts & PART_CGROUP && groups_enter(&node.groups, box->pid))
		die_at("enter the groups");
	box->overlay = overlay(box);
	if (write(node.go[1], "g", 1) != 1)
		die_at("start the box");
	wait_exec(box);
	close(box->overlay);
}

static void remove_dirs(void)
{
	static const char *const names[] = {"box/work/work/incompat/volatile",
					    "box/work/work/incompat",
					    "box/work/work",
					    "box/work",
					    "box/upper",
					    "box"};

	if (unlinkat(node.dir, "box/work/work/incompat/volatile/dirty", 0))
		die_at("remove the overlay's mark");
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (unlinkat(node.dir, names[i], AT_REMOVEDIR) && errno != ENOENT)
			die_at("remove the box's directories");
}

static void end(struct box *box)
{
	siginfo_t info;

	if (syscall(SYS_pidfd_send_signal, box->pidfd, SIGKILL, NULL, 0))
		die_at("kill the box");
	if (waitid(P_PID, (id_t)box->pid, &info, WEXITED))
		die_at("wait for the box");
	close(box->pidfd);
	remove_dirs();
	if (node.parts & PART_CGROUP && groups_remove(&node.groups))
		die_at("remove the groups");
}

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static uint64_t median(uint64_t *us, uint64_t n)
{
	qsort(us, n, sizeof(*us), by_value);
	return us[n / 2];
}

/* SIGINT and SIGTERM are blocked: a box is never left half-made. */
static int interrupted(void)
{
	sigset_t pending;

	return !sigpending(&pending) &&
	       (sigismember(&pending, SIGINT) || sigismember(&pending, SIGTERM));
}

static void block_interrupts(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigprocmask(SIG_BLOCK, &set, NULL);
}

/* 0 or, if interrupted, 130. */
static int measure(uint64_t n)
{
	uint64_t *us = calloc(3 * n, sizeof(*us));

	if (!us)
		die_at("allocate the times");
	for (uint64_t i = 0; i < n; i++) {
		struct box box = {.first_id = FIRST_ID + (unsigned)(i % 1024) * IDS};
		uint64_t begin = num_mono_us(), made;

		if (interrupted()) {
			free(us);
			return 128 + SIGINT;
		}
		make(&box);
		made = num_mono_us();
		end(&box);
		us[i] = made - begin;
		us[n + i] = num_mono_us() - made;
		us[2 * n + i] = us[i] + us[n + i];
	}
	printf("%ju\t%ju\t%ju\t%ju\n", (uintmax_t)n, (uintmax_t)median(us, n),
	       (uintmax_t)median(us + n, n), (uintmax_t)median(us + 2 * n, n));
	free(us);
	return 0;
}

static unsigned without(unsigned parts, char *list)
{
	for (char *word = strtok(list, ","); word; word = strtok(NULL, ",")) {
		unsigned i = 0;

		while (part_names[i] && strcmp(part_names[i], word) != 0)
			i++;
		if (!part_names[i])
			dief(EX_SBX, "cannot leave out '%s': user, net, cgroup, seccomp, dev",
			     word);
		parts &= ~(1u << i);
	}
	return parts;
}

static void open_node(char **argv)
{
	node.layer = bare_layer(argv[0], argv[1]);
	if (node.layer < 0)
		die_at("mount the layer");
	node.init = open(argv[2], O_PATH | O_CLOEXEC);
	if (node.init < 0)
		die_at("open the init program");
	node.dir = open(argv[3], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (node.dir < 0 || pipe2(node.go, O_CLOEXEC))
		die_at("open the directory for boxes");
	if (node.parts & PART_CGROUP && groups_open(&node.groups))
		die_at("open the groups");
}

int main(int argc, char **argv)
{
	uint64_t n = 100;
	int opt, ret;

	die_init(argv[0]);
	node.parts = PART_USER | PART_NET | PART_CGROUP | PART_SECCOMP | PART_DEV;
	while ((opt = getopt(argc, argv, "n:x:")) != -1)
		if (opt == '?' || (opt == 'n' && num_u64("count", optarg, MAX_BOXES, &n)))
			dief(EX_SBX, "usage: bare [-n COUNT] [-x PARTS] META DATA INIT DIR");
		else if (opt == 'x')
			node.parts = without(node.parts, optarg);
	if (argc - optind != 4 || !n)
		dief(EX_SBX, "usage: bare [-n COUNT] [-x PARTS] META DATA INIT DIR");
	block_interrupts();
	open_node(argv + optind);
	ret = measure(n);
	if (node.parts & PART_CGROUP)
		groups_close(&node.groups);
	return ret ? ret : finish(stdout);
}
