/*
 * The container backend. The keeper makes every mount that needs only files as a detached mount;
 * the box's pid 1 is cloned into its own pid and mount namespaces while still the node's root,
 * attaches them, and only then joins the user namespace. So the mount namespace belongs to the
 * node: root inside cannot mount or unmount anything, whatever capabilities it finds.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/openat2.h>
#include <linux/sched.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/die.h"
#include "base/fd.h"
#include "box/backend.h"
#include "box/node.h"
#include "box/ways.h"
#include "kern/caps.h"
#include "kern/mnt.h"
#include "kern/ns.h"
#include "kern/overlay.h"
#include "store/compose.h"

/* Everything prepared before the clone, as fds; closed with the keeper's copy after it. */
struct parts {
	struct ns_set ns;
	struct cgroup home;
	int empty; /* mount namespace */
	int dev;   /* this box's mount of the shared device directory */
	int hosts, resolv;
	int shm;
	int init;
	int alive[2]; /* pipe: no reader means the keeper has died */
};

static void parts_close(struct parts *p)
{
	ns_close(&p->ns);
	cgroup_close(&p->home);
	fd_close(&p->empty);
	fd_close(&p->dev);
	fd_close(&p->hosts);
	fd_close(&p->resolv);
	fd_close(&p->shm);
	fd_close(&p->init);
	fd_close(&p->alive[0]);
	fd_close(&p->alive[1]);
}

/* The upper's root stands for the image's "/": same mode, same owner within the box's ids. */
static int prepare_upper(int boxdir, int lower, const struct spec *s)
{
	autofd upper = fd_dir(boxdir, "upper", 1);
	struct stat sb;

	if (upper < 0)
		return -1;
	if (fstat(lower, &sb) < 0 || sb.st_uid >= s->id_count || sb.st_gid >= s->id_count)
		return failx("the image's root directory has an owner outside 0-%u",
			     s->id_count - 1);
	if (fchown(upper, s->id_base + sb.st_uid, s->id_base + sb.st_gid) < 0 ||
	    fchmod(upper, sb.st_mode & 07777) < 0)
		return fail("cannot prepare the box's upper directory");
	return ways_make(s, upper) < 0 ? -1 : fd_take(&upper);
}

static int make_root(const struct state *st, const struct spec *s, int userns)
{
	autofd boxdir = fd_dir(st->box, s->id, 0);
	autofd upper = -1, work = -1;
	int lower[COMPOSE_LAYERS], root = -1;
	const char *digest;
	size_t n = 0, i = 0;

	if (boxdir < 0)
		return -1;
	work = fd_dir(boxdir, "work", 1);
	while (work >= 0 && n < COMPOSE_LAYERS && (digest = spec_next(s, "layer", &i))) {
		autofd layer = node_open_layer(st, digest);

		if (layer >= 0 && upper < 0)
			upper = prepare_upper(boxdir, layer, s);
		lower[n] = layer < 0 ? -1 : mnt_clone_mapped(layer, "", userns);
		if (lower[n] < 0 || upper < 0)
			goto out;
		n++;
	}
	if (n && upper >= 0 && work >= 0)
		root = overlay_mount(lower, n, upper, work);
	else if (!n)
		failx("box '%s' has no layers", s->id);
out:
	while (n--)
		close(lower[n]);
	return root;
}

static int make_pts(const struct spec *s)
{
	char uid[16], gid[16];
	struct mnt_opt opts[] = {{"newinstance", NULL}, {"ptmxmode", "0666"}, {"mode", "0620"},
				 {"uid", uid},		{"gid", gid},	      {"max", "1024"},
				 {NULL, NULL}};

	snprintf(uid, sizeof(uid), "%u", s->id_base);
	snprintf(gid, sizeof(gid), "%u", s->id_base + 5); /* tty, in every distribution */
	return mnt_new("devpts", opts, MNT_NOSUID | MNT_NOEXEC);
}

/* Half of the box's memory, as a tmpfs has half of the node's where nothing is said. */
static int make_shm(const struct spec *s)
{
	char size[24], uid[16], gid[16];
	struct mnt_opt opts[] = {
		{"mode", "1777"}, {"uid", uid}, {"gid", gid}, {"size", size}, {NULL, NULL}};

	snprintf(size, sizeof(size), "%llu", (unsigned long long)(s->mem_bytes / 2));
	snprintf(uid, sizeof(uid), "%u", s->id_base);
	snprintf(gid, sizeof(gid), "%u", s->id_base);
	if (!s->mem_bytes)
		opts[3].key = NULL;
	return mnt_new("tmpfs", opts, MNT_NOSUID | MNT_NODEV);
}

/*
 * A file that only a mount names: made in the box's own tmpfs, cloned, and unlinked once it is
 * mounted (the kernel refuses to mount what is unlinked). The image's file below it stays as it is,
 * so a snapshot of the box does not carry this node's names.
 */
static int make_file(int shm, const struct spec *s, const char *name, const char *text, size_t n)
{
	autofd fd = openat(shm, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);

	if (fd < 0 || fd_write_all(fd, text, n) < 0 || fchown(fd, s->id_base, s->id_base) < 0 ||
	    fchmod(fd, 0644) < 0)
		return fail("cannot write '/etc/%s' for the box", name);
	return mnt_clone(shm, name);
}

static int make_etc(const struct spec *s, struct parts *p)
{
	autobuf b = BUF_INIT;

	buf_fmt(&b,
		"127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n127.0.1.1\t%s\n",
		s->hostname);
	p->hosts = make_file(p->shm, s, "hosts", b.p, b.len);
	if (p->hosts < 0)
		return -1;
	if (strcmp(s->net, "host") != 0 ||
	    fd_read_file(AT_FDCWD, "/etc/resolv.conf", 65536, &b) < 0)
		return 0;
	p->resolv = make_file(p->shm, s, "resolv.conf", buf_cstr(&b), b.len);
	return p->resolv < 0 ? -1 : 0;
}

static int clone_dev(const struct state *st)
{
	autofd shared = node_mount_dev(st);
	autofd dev = shared < 0 ? -1 : mnt_clone(shared, "");

	if (dev < 0 || mnt_set(dev, MNT_RO | MNT_NOSUID | MNT_NOEXEC) < 0)
		return -1;
	return fd_take(&dev);
}

static int prepare(const struct state *st, const struct spec *s, struct parts *p,
		   struct box_run *run)
{
	autofree char *init = xasprintf("%s/sbx-init", st->conf.libexec);
	int host_net = !strcmp(s->net, "host");

	if (ns_make(s->id_base, s->id_count, host_net, &p->ns) < 0)
		return -1;
	run->root = make_root(st, s, p->ns.user);
	if (run->root < 0)
		return -1;
	p->dev = clone_dev(st);
	run->pts = p->dev < 0 ? -1 : make_pts(s);
	p->shm = run->pts < 0 ? -1 : make_shm(s);
	if (p->shm < 0 || make_etc(s, p) < 0)
		return -1;
	p->init = openat(AT_FDCWD, init, O_PATH | O_CLOEXEC);
	if (p->init < 0)
		return fail("cannot open '%s'", init);
	if (pipe2(p->alive, O_CLOEXEC) < 0)
		return fail("cannot make a pipe");
	p->empty = node_open_empty(st);
	return p->empty < 0 ? -1 : cgroup_home(&run->cgroup, &p->home);
}

/* Attaches MNT on /NAME of the new root; an image without that directory gets it. */
static int attach_dir(int mnt, const char *name)
{
	struct stat sb;

	if (fstatat(AT_FDCWD, name, &sb, AT_SYMLINK_NOFOLLOW) < 0 && mkdir(name, 0755) < 0)
		return fail("cannot make '%s' in the box", name);
	if (!fstatat(AT_FDCWD, name, &sb, AT_SYMLINK_NOFOLLOW) && !S_ISDIR(sb.st_mode))
		return failx("the image's '%s' is not a directory", name);
	return mnt_move(mnt, AT_FDCWD, name);
}

enum { IN_ROOT = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV };

/* Images from a registry have no such file: an empty one in the upper is what the mount lies on. */
static void make_target(const struct spec *s, const char *path)
{
	autofd fd = fd_openat2(AT_FDCWD, path, O_WRONLY | O_CREAT | O_EXCL, 0644, IN_ROOT);

	if (fd >= 0 && fchown(fd, s->id_base, s->id_base) < 0)
		unlink(path);
}

/* On /etc/NAME, over a plain file only: what the image has there may be a link that leads elsewhere. */
static int attach_file(const struct spec *s, int mnt, const char *name)
{
	autofree char *path = xasprintf("etc/%s", name), *source = xasprintf("dev/shm/%s", name);
	autofd at = -1;
	struct stat sb;

	make_target(s, path);
	at = fd_openat2(AT_FDCWD, path, O_PATH | O_NOFOLLOW, 0, IN_ROOT);

	if (at >= 0 && !fstat(at, &sb) && S_ISREG(sb.st_mode) && mnt_move(mnt, at, "") < 0)
		return -1;
	return unlink(source) < 0 ? fail("cannot remove '%s'", source) : 0;
}

/* Covers PATH with COVER, an empty file or directory of the device mount; absent paths are fine. */
static int mask(const char *cover, const char *path)
{
	autofd mnt = -1;

	if (faccessat(AT_FDCWD, path, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	mnt = mnt_clone(AT_FDCWD, cover);
	return mnt < 0 ? -1 : mnt_move(mnt, AT_FDCWD, path);
}

static int read_only(const char *path)
{
	autofd mnt = -1;

	if (faccessat(AT_FDCWD, path, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	mnt = mnt_clone(AT_FDCWD, path);
	return mnt < 0 || mnt_set(mnt, MNT_RO | MNT_NOSUID | MNT_NODEV | MNT_NOEXEC) < 0
		       ? -1
		       : mnt_move(mnt, AT_FDCWD, path);
}

/* The node's state that procfs and sysfs would show or change for anybody who is root somewhere. */
static int mount_proc_sys(void)
{
	static const char *const files[] = {
		"proc/kcore",	      "proc/kpagecount",    "proc/kpageflags", "proc/kpagecgroup",
		"proc/keys",	      "proc/key-users",	    "proc/timer_list", "proc/sched_debug",
		"proc/kmsg",	      "proc/latency_stats", "proc/slabinfo",   "proc/vmallocinfo",
		"proc/sysrq-trigger", "proc/mtrr"};
	static const char *const dirs[] = {"proc/acpi", "proc/asound", "proc/scsi", "sys/firmware",
					   "sys/devices/virtual/powercap"};
	static const char *const ro[] = {"proc/sys", "proc/irq", "proc/bus", "proc/fs"};
	autofd proc = mnt_new("proc", NULL, MNT_NOSUID | MNT_NODEV | MNT_NOEXEC);
	autofd sys = proc < 0
			     ? -1
			     : mnt_new("sysfs", NULL, MNT_RO | MNT_NOSUID | MNT_NODEV | MNT_NOEXEC);

	if (sys < 0 || attach_dir(proc, "proc") < 0 || attach_dir(sys, "sys") < 0)
		return -1;
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
		if (mask("dev/null", files[i]) < 0)
			return -1;
	for (size_t i = 0; i < sizeof(dirs) / sizeof(dirs[0]); i++)
		if (mask("dev/shm", dirs[i]) < 0)
			return -1;
	for (size_t i = 0; i < sizeof(ro) / sizeof(ro[0]); i++)
		if (read_only(ro[i]) < 0)
			return -1;
	return 0;
}

static int mount_all(const struct spec *s, const struct parts *p, const struct box_run *run)
{
	if (mnt_move(run->root, AT_FDCWD, "/") < 0 || mnt_enter_root(run->root) < 0)
		return -1;
	/* The masks use /dev/shm as their empty directory: before something is mounted on it. */
	if (attach_dir(p->dev, "dev") < 0 || mount_proc_sys() < 0)
		return -1;
	if (mnt_move(run->pts, AT_FDCWD, "dev/pts") < 0 ||
	    mnt_move(p->shm, AT_FDCWD, "dev/shm") < 0)
		return -1;
	if (attach_file(s, p->hosts, "hosts") < 0)
		return -1;
	return p->resolv < 0 ? 0 : attach_file(s, p->resolv, "resolv.conf");
}

static int make_tmp(void)
{
	if (!mkdir("/tmp", 01777))
		return chmod("/tmp", 01777) < 0 ? fail("cannot make '/tmp' in the box") : 0;
	return errno == EEXIST ? 0 : fail("cannot make '/tmp' in the box");
}

static int become_init(const struct spec *s, const struct parts *p, const struct box_run *run)
{
	static char name[] = "sbx-init";
	static char *const argv[] = {name, NULL};
	static char *const env[] = {NULL};
	struct pollfd orphan = {.fd = p->alive[1]};

	if (cgroup_enter(&p->home, 0, 1) < 0)
		return -1;
	if (p->ns.net >= 0 && (ns_enter(p->ns.net, CLONE_NEWNET, "network") < 0 || ns_lo_up() < 0))
		return -1;
	if (ns_enter(p->ns.ipc, CLONE_NEWIPC, "ipc") < 0 ||
	    ns_enter(p->ns.uts, CLONE_NEWUTS, "host name") < 0)
		return -1;
	if (sethostname(s->hostname, strlen(s->hostname)) < 0)
		return fail("cannot set the host name '%s'", s->hostname);
	umask(0);
	if (mount_all(s, p, run) < 0)
		return -1;
	/* A node short of memory kills in a box before it kills a keeper. */
	if (fd_put(AT_FDCWD, "/proc/self/oom_score_adj", BOX_OOM_ADJ) < 0)
		return fail("cannot set the oom score of the box");
	if (ns_enter(p->ns.user, CLONE_NEWUSER, "user namespace") < 0)
		return -1;
	if (setgroups(0, NULL) < 0 || setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0)
		return fail("cannot become root of the box");
	if (unshare(CLONE_NEWCGROUP) < 0)
		return fail("cannot make a cgroup namespace");
	if (make_tmp() < 0 || caps_set(0) < 0)
		return -1;
	/* After the change of user, which clears it (prctl(2)). */
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
		return fail("cannot tie pid 1 of the box to its keeper");
	/* No reader: the keeper died before its death could be told to us. */
	if (poll(&orphan, 1, 0) > 0 && (orphan.revents & POLLERR))
		return failx("the keeper died");
	if (syscall(SYS_close_range, 0, ~0u, 4 /* CLOSE_RANGE_CLOEXEC */) < 0)
		return fail("cannot close descriptors");
	syscall(SYS_execveat, p->init, "", argv, env, AT_EMPTY_PATH);
	return fail("cannot run sbx-init");
}

struct birth {
	const struct spec *s;
	const struct parts *p;
	const struct box_run *run;
	int failed;
};

/* In the keeper's memory, which waits: what fails here, it can read. */
static int be_born(void *arg)
{
	struct birth *b = arg;

	close(b->p->alive[0]); /* or it would be a reader itself: see orphan */
	become_init(b->s, b->p, b->run);
	b->failed = 1;
	return 1;
}

static int start(const struct state *st, const struct spec *s, struct box_run *run)
{
	struct parts p = {NS_SET_INIT, CGROUP_INIT, -1, -1, -1, -1, -1, -1, {-1, -1}};
	struct birth b = {.s = s, .p = &p, .run = run};
	int r = -1;

	if (prepare(st, s, &p, run) < 0 ||
	    ns_enter(p.empty, CLONE_NEWNS, "empty mount namespace") < 0)
		goto out;
	run->pid = ns_vclone(CLONE_NEWPID | CLONE_NEWNS, &run->pidfd, p.home.v2, be_born, &b);
	if (run->pid < 0)
		fail("cannot start pid 1 of box '%s'", s->id);
	else if (b.failed)
		fail_more("box '%s'", s->id);
	else
		r = 0;
	if (r < 0 && run->pid > 0)
		waitpid(run->pid, NULL, 0);
out:
	parts_close(&p);
	return r;
}

const struct backend backend_container = {.name = "container", .start = start};

const struct backend *backend_find(const char *name)
{
	return strcmp(name, backend_container.name) ? NULL : &backend_container;
}
