#include "box/create.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/die.h"
#include "base/fd.h"
#include "base/kv.h"
#include "base/lock.h"
#include "base/num.h"
#include "box/client.h"
#include "box/node.h"
#include "box/proto.h"
#include "box/spec.h"
#include "kern/cgroup.h"
#include "store/slot.h"

extern char **environ;

static int enough_memory(const struct state *st)
{
	autobuf b = BUF_INIT;
	const char *p;
	char have[NUM_TEXT], need[NUM_TEXT];
	uint64_t bytes;

	if (fd_read_file(AT_FDCWD, "/proc/meminfo", 65536, &b) < 0)
		return -1;
	p = strstr(buf_cstr(&b), "MemAvailable:");
	bytes = p ? strtoull(p + 13, NULL, 10) * 1024 : UINT64_MAX;
	if (bytes >= st->conf.mem_reserve)
		return 0;
	return fail_as(EX_AGAIN,
		       "this node is short of memory: %s available, %s are kept (mem_reserve)",
		       num_fmt_size(have, bytes), num_fmt_size(need, st->conf.mem_reserve));
}

static int enough_disk(const struct state *st)
{
	char have[NUM_TEXT], need[NUM_TEXT];
	struct statvfs v;
	uint64_t bytes;

	if (fstatvfs(st->state, &v) < 0)
		return fail("cannot ask for the free space of '%s'", st->conf.state);
	bytes = (uint64_t)v.f_bavail * v.f_frsize;
	if (bytes < st->conf.disk_reserve)
		return fail_as(EX_AGAIN,
			       "'%s' is short of space: %s free, %s are kept (disk_reserve)",
			       st->conf.state, num_fmt_size(have, bytes),
			       num_fmt_size(need, st->conf.disk_reserve));
	if (v.f_files && v.f_favail < 1000)
		return fail_as(EX_AGAIN, "'%s' is short of inodes", st->conf.state);
	return 0;
}

int box_admit(const struct state *st)
{
	return enough_memory(st) < 0 ? -1 : enough_disk(st);
}

/*
 * Keepers live in one group of ours, not in that of whoever makes a box: a log-out must not end it.
 * The maker goes there itself, once, and they inherit it.
 */
static int enter_keepers_group(void)
{
	struct cgroup_limits none = {0};
	struct cgroup keep = CGROUP_INIT;
	struct cgroup_tree tree;
	int r = cgroup_tree_open(&tree, "sbx");

	if (!r)
		r = cgroup_make(&tree, "keep", &none, &keep) < 0 ? -1 : cgroup_enter(&keep, 0, 0);
	cgroup_close(&keep);
	cgroup_tree_close(&tree);
	return r;
}

int box_prepare_node(const struct state *st, const struct image *img)
{
	autofd dev = -1, empty = -1;

	for (size_t i = 0; i < img->nlayers; i++)
		if (node_mount_layer(st, img->layer[i]) < 0)
			return -1;
	dev = node_mount_dev(st);
	empty = dev < 0 ? -1 : node_open_empty(st);
	return empty < 0 ? -1 : enter_keepers_group();
}

static void put_num(struct buf *b, const char *key, uint64_t v)
{
	char text[24];

	snprintf(text, sizeof(text), "%llu", (unsigned long long)v);
	kv_put_file(b, key, text);
}

static void put_opt(struct buf *b, const char *key, const char *v)
{
	if (v && *v)
		kv_put_file(b, key, v);
}

/* Each image as it was named and as what it was, then all their layers. */
static void put_images(struct buf *b, const struct compose *c)
{
	for (size_t i = 0; i < c->nparts; i++) {
		char key[32];

		kv_put_file(b, c->part[i].key, c->part[i].ref);
		snprintf(key, sizeof(key), "%s_digest", c->part[i].key);
		kv_put_file(b, key, c->part[i].digest);
	}
	for (size_t i = 0; i < c->img.nlayers; i++)
		kv_put_file(b, "layer", c->img.layer[i]);
}

static int write_spec(const struct state *st, const struct box_want *w, int boxdir, const char *id,
		      uint32_t slot)
{
	static struct buf b; /* for all boxes of a call: its pages are mapped once */

	buf_clear(&b);
	kv_put_file(&b, "id", id);
	kv_put_file(&b, "backend", "container");
	put_opt(&b, "name", w->name);
	put_opt(&b, "parent", w->parent);
	put_images(&b, w->from);
	buf_str(&b, w->ways ? w->ways : "");
	put_num(&b, "created_ms", num_now_ms());
	put_num(&b, "by", getuid());
	put_num(&b, "slot", slot);
	put_num(&b, "id_base", st->conf.id_base + (uint64_t)slot * SPEC_IDS);
	put_num(&b, "id_count", SPEC_IDS);
	put_num(&b, "mem_bytes", w->mem_bytes);
	put_num(&b, "pids", w->pids);
	put_num(&b, "cpu_milli", w->cpu_milli);
	put_num(&b, "ttl_ms", w->ttl_ms);
	put_num(&b, "idle_ms", w->idle_ms);
	put_num(&b, "max_output", w->max_output);
	put_num(&b, "no_new_privs", (uint64_t)w->no_new_privs);
	if (w->trace)
		put_num(&b, "trace", 1);
	kv_put_file(&b, "net", w->net);
	kv_put_file(&b, "seccomp", w->seccomp);
	kv_put_file(&b, "hostname", w->hostname ? w->hostname : id_tail(id));
	put_opt(&b, "user", w->user ? w->user : w->from->img.user);
	put_opt(&b, "workdir", w->workdir ? w->workdir : w->from->img.workdir);
	for (char **e = w->from->img.env; *e; e++)
		kv_put_file(&b, "env", *e);
	for (size_t i = 0; i < w->env.n; i++)
		kv_put_file(&b, "env", w->env.v[i]);
	for (size_t i = 0; i < w->labels.n; i++)
		kv_put_file(&b, "label", w->labels.v[i]);
	return fd_replace(boxdir, "spec", b.p, b.len, 0);
}

static int take_name(const struct state *st, const char *name, const char *id)
{
	char owner[ID_MAX + 1];
	autofd dir = fd_dir(st->state, "name", 1);
	ssize_t n;

	if (dir < 0)
		return -1;
	for (int tries = 0; tries < 3; tries++) {
		if (!symlinkat(id, dir, name))
			return 0;
		if (errno != EEXIST)
			return fail("cannot take the name '%s'", name);
		n = readlinkat(dir, name, owner, sizeof(owner) - 1);
		owner[n > 0 ? n : 0] = 0;
		/* Its box may be gone: a crash between the two. */
		if (n > 0 && id_valid(owner) && faccessat(st->run_box, owner, F_OK, 0) < 0 &&
		    faccessat(st->box, owner, F_OK, 0) < 0)
			state_unlink_own(st, "name", name, owner);
		else
			break;
	}
	return failx("the name '%s' is taken by box '%s'", name, owner);
}

/* The lock of a run directory just made; -1 if a reap came between and took it for a leftover. */
static int lock_new(const struct state *st, const char *id)
{
	autofd dir = openat(st->run_box, id, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	autofd lock = dir < 0 ? -1 : lock_take(dir, "lock", LOCK_TRY);
	struct stat mine, there;

	if (lock < 0 || fstat(dir, &mine) < 0 || fstatat(st->run_box, id, &there, 0) < 0)
		return -1;
	return mine.st_ino == there.st_ino ? fd_take(&lock) : -1;
}

/* The run directory and its lock come first: whoever meets a part of the box sees it is being made. */
static int claim_id(const struct state *st, char id[ID_MAX + 1])
{
	for (int tries = 0; tries < 100; tries++) {
		int lock;

		if (id_new(id, st->conf.node) < 0)
			return -1;
		if (mkdirat(st->run_box, id, 0700) < 0) {
			if (errno == EEXIST)
				continue;
			return fail("cannot make the run directory of a box");
		}
		lock = lock_new(st, id);
		if (lock >= 0)
			return lock;
	}
	return failx("cannot claim an ID for a box");
}

static int no_space(const struct state *st)
{
	return errno == ENOSPC || errno == EDQUOT
		       ? fail_as(EX_AGAIN, "no space left in '%s'", st->conf.state)
		       : -1;
}

static int write_box(const struct state *st, const struct box_want *w, const char *id)
{
	autofd dir = -1;
	uint32_t slot;

	if (slot_take(st, id, &slot) < 0)
		return -1;
	if (mkdirat(st->box, id, 0700) < 0) {
		fail("cannot make the directory of box '%s'", id);
		return no_space(st);
	}
	dir = fd_dir(st->box, id, 0);
	if (dir < 0 || (w->name && take_name(st, w->name, id) < 0))
		return -1;
	return write_spec(st, w, dir, id, slot) < 0 ? no_space(st) : 0;
}

/* posix_spawn shares our memory until the exec: no copy of page tables a box. */
static int spawn_keeper(const struct state *st, const char *id, int lock, int ready)
{
	autofree char *path = xasprintf("%s/sbx-keep", st->conf.libexec);
	autofd up_lock = fcntl(lock, F_DUPFD_CLOEXEC, 10),
	       up_ready = fcntl(ready, F_DUPFD_CLOEXEC, 10);
	char name[] = "sbx-keep", *argv[] = {name, (char *)id, NULL};
	posix_spawn_file_actions_t fa;
	posix_spawnattr_t at;
	sigset_t none;
	pid_t pid;
	int err;

	posix_spawn_file_actions_init(&fa);
	posix_spawnattr_init(&at);
	for (int i = 0; i < 3; i++)
		posix_spawn_file_actions_addopen(&fa, i, "/dev/null", O_RDWR, 0);
	posix_spawn_file_actions_adddup2(&fa, up_ready, KEEP_FD_READY);
	posix_spawn_file_actions_adddup2(&fa, up_lock, KEEP_FD_LOCK);
	sigemptyset(&none);
	posix_spawnattr_setsigmask(&at, &none);
	posix_spawnattr_setflags(&at, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK);
	err = posix_spawn(&pid, path, &fa, &at, argv, environ);
	posix_spawn_file_actions_destroy(&fa);
	posix_spawnattr_destroy(&at);
	errno = err;
	return err ? fail("cannot start '%s'", path) : 0;
}

void box_undo(const struct state *st, const char *id)
{
	int ctl = box_stop_begin(st, id, "stopped");

	if (ctl >= 0)
		box_stop_wait(ctl, id, 10000);
	(void)box_remove_wait(st, id);
}

/* Takes a failed box back; the failure to report is the first one. */
static int undo(const struct state *st, const char *id)
{
	struct failure first;

	fail_save(&first);
	box_undo(st, id);
	return fail_again(&first);
}

int box_make(const struct state *st, const struct box_want *w, struct box_making *m)
{
	autofd lock = claim_id(st, m->id);
	int ready[2] = {-1, -1}, r = -1;

	m->ready = -1;
	if (lock < 0)
		return -1;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ready) < 0)
		fail("cannot make a pair of sockets");
	else if (!write_box(st, w, m->id))
		r = spawn_keeper(st, m->id, lock, ready[1]);
	fd_close(&ready[1]);
	fd_close(&lock);
	if (!r) {
		m->ready = ready[0];
		return 0;
	}
	fd_close(&ready[0]);
	return undo(st, m->id);
}

int box_made(const struct state *st, struct box_making *m)
{
	char text[1200], *msg;
	ssize_t n;
	long code;

	do
		n = recv(m->ready, text, sizeof(text) - 1, 0);
	while (n < 0 && errno == EINTR);
	text[n > 0 ? n : 0] = 0;
	if (!strcmp(text, "ok"))
		return 0;
	fd_close(&m->ready);
	code = strtol(text, &msg, 10);
	if (n > 0)
		fail_as((int)code, "%s", msg + (*msg == ' '));
	else
		failx("the keeper of box '%s' died", m->id);
	return undo(st, m->id);
}

void box_told(struct box_making *m)
{
	/* A keeper that is gone already needs no word. */
	(void)send(m->ready, "told", 4, MSG_NOSIGNAL);
	fd_close(&m->ready);
}

void box_untold(const struct state *st, struct box_making *m)
{
	fd_close(&m->ready);
	box_undo(st, m->id);
}
