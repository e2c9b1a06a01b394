/* The parts of a box tried out, in a child with a mount namespace of its own. */
#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/die.h"
#include "base/fd.h"
#include "box/doctor.h"
#include "box/spec.h"
#include "kern/cgroup.h"
#include "kern/erofs.h"
#include "kern/mnt.h"
#include "kern/ns.h"
#include "kern/overlay.h"

const char *need_status_name(enum need_status s)
{
	static const char *const names[] = {"ok", "missing", "warn", "info"};

	return names[s];
}

void need_say(const struct doctor *d, enum need_status status, const char *name, const char *cure,
	      const char *fmt, ...)
{
	struct need n = {.status = status, .name = name};
	char detail[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(detail, sizeof(detail), fmt, ap);
	va_end(ap);
	n.detail = detail;
	n.cure = status == NEED_OK || status == NEED_INFO ? NULL : cure;
	d->say(d->arg, &n);
}

/* What the stages of the mount trial work on. */
struct trial {
	const struct conf *conf;
	char dir[512]; /* a scratch directory beside the boxes' files */
	int lower, mapped;
	int loop; /* the image could not be mounted but through loop devices */
};

static void put32(unsigned char *p, uint32_t v)
{
	for (int i = 0; i < 4; i++)
		p[i] = (unsigned char)(v >> 8 * i);
}

/*
 * The smallest image with its data apart: one block with a superblock, an empty root directory and
 * one device slot (erofs_fs.h).
 */
static int write_image(const struct trial *t, char meta[600], char data[600])
{
	enum { SB = 1024, INODE = 2048, SLOT = 3072 };
	unsigned char b[4096] = {0}, zero[4096] = {0};
	autofd m = -1, d = -1;

	put32(b + SB, 0xE0F5E1E2);
	b[SB + 12] = 12;	 /* log2 of the block size */
	b[SB + 14] = INODE / 32; /* root inode, in units of 32 bytes */
	b[SB + 16] = 1;		 /* inodes */
	b[SB + 36] = 1;		 /* blocks */
	b[SB + 80] = 8;		 /* incompatible feature: a device table */
	b[SB + 86] = 1;		 /* extra devices */
	b[SB + 88] = SLOT / 128;
	b[SLOT + 64] = 1; /* its blocks */
	b[SLOT + 68] = 1; /* mapped from block 1 on */
	b[INODE + 4] = (040755) & 0xff;
	b[INODE + 5] = (040755) >> 8;
	b[INODE + 6] = 2; /* links */
	snprintf(meta, 600, "%s/meta", t->dir);
	snprintf(data, 600, "%s/data", t->dir);
	m = open(meta, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	d = open(data, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (m < 0 || d < 0 || fd_write_all(m, b, sizeof(b)) < 0 ||
	    fd_write_all(d, zero, sizeof(zero)) < 0)
		return fail("cannot write in '%s'", t->dir);
	return 0;
}

static int try_erofs(struct trial *t)
{
	char meta[600], data[600], at[600];
	const char *const dev[] = {data};
	autofd mnt = -1;

	snprintf(at, sizeof(at), "%s/mnt", t->dir);
	if (write_image(t, meta, data) < 0)
		return -1;
	mnt = erofs_mount_files(meta, dev, 1);
	t->loop = mnt < 0 && errno == ENOTBLK;
	if (t->loop)
		mnt = erofs_mount_loop(meta, dev, 1);
	if (mnt < 0)
		return -1;
	if (mkdir(at, 0700) < 0)
		return fail("cannot make directory '%s'", at);
	if (mnt_move(mnt, AT_FDCWD, at) < 0)
		return -1;
	t->lower = open(at, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return t->lower < 0 ? fail("cannot open '%s'", at) : 0;
}

static int try_idmap(struct trial *t)
{
	struct ns_set ns = NS_SET_INIT;

	if (ns_make((uint32_t)t->conf->id_base, SPEC_IDS, 0, &ns) < 0)
		return -1;
	t->mapped = mnt_clone_mapped(t->lower, "", ns.user);
	ns_close(&ns);
	return t->mapped < 0 ? -1 : 0;
}

static int try_overlay(struct trial *t)
{
	autofd dir = fd_dir(AT_FDCWD, t->dir, 0);
	autofd upper = dir < 0 ? -1 : fd_dir(dir, "upper", 1);
	autofd work = upper < 0 ? -1 : fd_dir(dir, "work", 1);
	autofd mnt = -1, file = -1;

	if (work < 0)
		return -1;
	mnt = overlay_mount(&t->mapped, 1, upper, work);
	if (mnt < 0)
		return -1;
	file = openat(mnt, "file", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	return file < 0 ? fail("cannot write in an overlay over '%s'", t->dir) : 0;
}

static const struct stage {
	const char *name, *good, *cure;
	int (*run)(struct trial *t);
} stages[] = {
	{"erofs", "images mount straight from their files",
	 "use a kernel of 6.15 or later with CONFIG_EROFS_FS_BACKED_BY_FILE, and a state "
	 "directory on ext4, xfs or btrfs (state = DIR in sbx.conf)",
	 try_erofs},
	{"idmap", "a box's ids can be mapped over a layer",
	 "sysctl -w user.max_user_namespaces=65536 user.max_net_namespaces=65536", try_idmap},
	{"overlay", "overlayfs takes the state directory's file system as upper",
	 "use a kernel of 6.15 or later, and a state directory on ext4, xfs or btrfs (state = DIR "
	 "in sbx.conf)",
	 try_overlay},
};
enum { STAGES = sizeof(stages) / sizeof(stages[0]) };

/* What the child tells, before the text of the failure: how many stages went well, and t->loop. */
enum { TOLD_DONE, TOLD_LOOP, TOLD };

/* Goes through the stages until one fails. */
static _Noreturn void run_stages(struct trial *t, int out)
{
	char told[TOLD] = {0}, *done = &told[TOLD_DONE];

	if (unshare(CLONE_NEWNS) < 0) {
		fail("cannot make a mount namespace");
	} else if (!mnt_private()) {
		while (*done < STAGES && !stages[(int)*done].run(t))
			++*done;
	}
	told[TOLD_LOOP] = (char)t->loop;
	fd_write_all(out, told, TOLD);
	if (*done < STAGES)
		fd_write_all(out, fail_text(), strlen(fail_text()));
	_exit(0);
}

/* Beside the state directory, or where it will be: nothing is made in its place. */
static int make_scratch(struct trial *t)
{
	autofree char *up = xstrdup(t->conf->state);
	struct stat st;

	while (stat(up, &st) < 0 && strrchr(up, '/') > up)
		*strrchr(up, '/') = 0;
	if (snprintf(t->dir, sizeof(t->dir), "%s/.sbx-doctor.XXXXXX", up) >= (int)sizeof(t->dir) ||
	    !mkdtemp(t->dir))
		return fail("cannot make a directory in '%s'", up);
	return 0;
}

static void say_stages(const struct doctor *d, int done, int loop, const char *text)
{
	for (int i = 0; i < STAGES; i++) {
		const struct stage *s = &stages[i];

		if (i < done && loop && s->run == try_erofs)
			need_say(d, NEED_WARN, s->name, s->cure,
				 "images mount through loop devices, two or more a layer, which "
				 "takes longer: this kernel does not mount files, or not from the "
				 "file system of '%s'",
				 d->conf->state);
		else if (i < done)
			need_say(d, NEED_OK, s->name, NULL, "%s", s->good);
		else if (i == done)
			need_say(d, NEED_MISSING, s->name, s->cure, "%s", text);
		else
			need_say(d, NEED_MISSING, s->name, NULL, "not tried: '%s' comes first",
				 stages[done].name);
	}
}

static void mounts(const struct doctor *d)
{
	struct trial t = {.conf = d->conf, .lower = -1, .mapped = -1};
	char told[TOLD + 1200] = "", *text = told + TOLD;
	int p[2];
	ssize_t n;
	pid_t pid;

	if (make_scratch(&t) < 0) {
		say_stages(d, 0, 0, fail_text());
		return;
	}
	if (pipe2(p, O_CLOEXEC) < 0 || (pid = fork()) < 0) {
		say_stages(d, 0, 0, "cannot start a process");
	} else {
		if (pid == 0)
			run_stages(&t, p[1]);
		close(p[1]);
		n = fd_read_all(p[0], told, sizeof(told) - 1);
		close(p[0]);
		waitpid(pid, NULL, 0);
		say_stages(d, told[TOLD_DONE], told[TOLD_LOOP], n < TOLD ? "the trial died" : text);
	}
	fd_rmtree(AT_FDCWD, t.dir);
}

static int try_cgroup(int *hybrid, const char **lacks)
{
	struct cgroup_limits limits = {64 << 20, 16, 500};
	struct cgroup_tree tree;
	struct cgroup cg;
	char name[32];
	int r;

	snprintf(name, sizeof(name), "doctor.%d", (int)getpid());
	if (cgroup_tree_open(&tree, "sbx") < 0)
		return -1;
	*hybrid = tree.mem >= 0;
	r = cgroup_make(&tree, name, &limits, &cg);
	if (!r) {
		if (faccessat(cg.v2, "cgroup.kill", W_OK, 0) < 0)
			*lacks = "cgroup.kill";
		else if (faccessat(cg.v2, "cgroup.freeze", W_OK, 0) < 0)
			*lacks = "cgroup.freeze";
		cgroup_close(&cg);
		cgroup_remove(&tree, name);
	}
	cgroup_tree_close(&tree);
	return r;
}

static void cgroups(const struct doctor *d)
{
	const char *lacks = NULL;
	int hybrid = 0;

	if (try_cgroup(&hybrid, &lacks) < 0)
		need_say(d, NEED_MISSING, "cgroup",
			 "mount -t cgroup2 cgroup2 /sys/fs/cgroup, or boot with "
			 "systemd.unified_cgroup_hierarchy=1",
			 "%s", fail_text());
	else if (lacks)
		need_say(d, NEED_MISSING, "cgroup", "install a kernel of 6.15 or later",
			 "the v2 tree has no %s", lacks);
	else
		need_say(d, NEED_OK, "cgroup", NULL, "%s",
			 hybrid ? "hybrid: memory, cpu and pids on v1; kill and freeze on v2"
				: "v2 with memory, cpu and pids, kill and freeze");
}

static void namespaces(const struct doctor *d)
{
	static const char *const kinds[] = {"user", "mnt", "pid", "net", "ipc", "uts", "cgroup"};
	autobuf none = BUF_INIT;

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		char path[40];

		snprintf(path, sizeof(path), "/proc/self/ns/%s", kinds[i]);
		if (faccessat(AT_FDCWD, path, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
			buf_fmt(&none, " %s", kinds[i]);
	}
	if (none.len)
		need_say(d, NEED_MISSING, "namespaces", "install a kernel with CONFIG_NAMESPACES",
			 "the kernel has none of:%s", none.p);
	else
		need_say(d, NEED_OK, "namespaces", NULL, "user mnt pid net ipc uts cgroup");
}

static void seccomp(const struct doctor *d)
{
	uint32_t action = SECCOMP_RET_ERRNO;

	if (syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) < 0)
		need_say(d, NEED_MISSING, "seccomp", "install a kernel with CONFIG_SECCOMP_FILTER",
			 "no seccomp filters: %s", strerror(errno));
	else
		need_say(d, NEED_OK, "seccomp", NULL, "system calls can be filtered");
}

void doctor_kernel(const struct doctor *d)
{
	struct utsname u;

	if (geteuid() != 0) {
		need_say(d, NEED_MISSING, "root", "sudo sbx-doctor",
			 "not root: nothing further can be tried");
		return;
	}
	uname(&u);
	need_say(d, NEED_OK, "root", NULL, "runs as root");
	need_say(d, NEED_INFO, "kernel", NULL, "%s %s on %s", u.sysname, u.release, u.machine);
	mounts(d);
	cgroups(d);
	namespaces(d);
	seccomp(d);
}
