#include "box/node.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/die.h"
#include "base/fd.h"
#include "base/lock.h"
#include "box/probe.h"
#include "kern/erofs.h"
#include "kern/mnt.h"
#include "kern/ns.h"
#include "store/layer.h"

static char *run_path(const struct state *st, const char *dir, const char *name)
{
	return xasprintf("%s/%s%s%s", st->conf.run, dir, *name ? "/" : "", name);
}

/* The derived layer if there is one, else the layer itself; META: the path of its metadata. */
static int load_layer(const struct state *st, const char *digest, struct layer *l, char **meta)
{
	int r = layer_load_derived(st, digest, l);

	if (r < 0 && errno != ENOENT)
		return -1;
	if (!r) {
		*meta = layer_derived_meta_path(st, digest);
		return 0;
	}
	if (layer_load(st, digest, l) < 0)
		return -1;
	*meta = layer_meta_path(st, l);
	return 0;
}

/* By descriptor: what is mounted is the file that was looked at, whatever its name leads to now. */
static int mount_blobs(const struct state *st, const struct layer *l, const char *meta, int *fd,
		       char **dev)
{
	for (size_t i = 0; i < l->ndev; i++) {
		fd[i] = layer_open_blob(st, l, i);
		if (fd[i] < 0)
			return -1;
		dev[i] = xasprintf("/proc/self/fd/%d", fd[i]);
	}
	return erofs_mount(meta, (const char *const *)dev, l->ndev);
}

int node_new_layer(const struct state *st, const char *digest)
{
	autofree char *meta = NULL;
	autolayer l = {0};
	char **dev;
	int *fd, mnt;

	if (load_layer(st, digest, &l, &meta) < 0)
		return fail_more("layer '%.12s'", digest);
	dev = xcalloc(l.ndev + 1, sizeof(*dev));
	fd = xcalloc(l.ndev + 1, sizeof(*fd));
	for (size_t i = 0; i < l.ndev; i++)
		fd[i] = -1;
	mnt = mount_blobs(st, &l, meta, fd, dev);
	for (size_t i = 0; i < l.ndev; i++) {
		fd_close(&fd[i]);
		free(dev[i]);
	}
	free(dev);
	free(fd);
	return mnt < 0 ? fail_more("layer '%.12s'", digest) : mnt;
}

/*
 * What a mount of the layer depends on that is not on this node, or may change: nothing if it lies
 * here as it was imported. RUN/depot/DIGEST says what the mount that is there was made of.
 */
static int identify(const struct state *st, const char *digest, struct buf *ids)
{
	autofree char *meta = NULL;
	autolayer l = {0};

	if (load_layer(st, digest, &l, &meta) < 0)
		return fail_more("layer '%.12s'", digest);
	if (probe_remote(st, &l))
		buf_fmt(ids, "%s %s\n", meta, l.meta);
	return probe_layer(st, &l, ids) < 0 ? fail_more("layer '%.12s'", digest) : 0;
}

/* Reads RUN/depot/DIGEST; a layer that needs nothing has none. */
static void remembered(const struct state *st, const char *digest, struct buf *ids)
{
	autofree char *path = xasprintf("depot/%s", digest);

	if (fd_read_file(st->run, path, 1 << 20, ids) < 0)
		buf_clear(ids);
}

static int remember(const struct state *st, const char *digest, const struct buf *ids)
{
	autofree char *path = xasprintf("depot/%s", digest);
	autofd dir = -1;

	if (!ids->len)
		return unlinkat(st->run, path, 0) < 0 && errno != ENOENT && errno != ENOTDIR
			       ? fail("cannot remove '%s/%s'", st->conf.run, path)
			       : 0;
	dir = fd_dir(st->run, "depot", 1);
	return dir < 0 ? -1 : fd_replace(st->run, path, ids->p, ids->len, 0);
}

static int mount_layer_locked(const struct state *st, const char *digest, const char *at,
			      struct buf *now)
{
	int there = mnt_is_root(AT_FDCWD, at) == 1;
	autobuf then = BUF_INIT;
	autofd mnt = -1;

	remembered(st, digest, &then);
	if (there && (!then.len || !strcmp(buf_cstr(now), buf_cstr(&then))))
		return 0;
	if (mkdir(at, 0700) < 0 && errno != EEXIST)
		return fail("cannot make directory '%s'", at);
	mnt = layer_check(st, digest) < 0 ? -1 : node_new_layer(st, digest);
	/* First: a mount that nothing is known of would be taken for a local one. */
	if (mnt < 0 || remember(st, digest, now) < 0)
		return -1;
	return there ? mnt_replace(mnt, at) : mnt_move(mnt, AT_FDCWD, at);
}

/* The mount is there and is what it should be: nothing is to be done, and no lock needed. */
static int is_mounted(const struct state *st, const char *digest, const char *at)
{
	autobuf now = BUF_INIT, then = BUF_INIT;

	if (mnt_is_root(AT_FDCWD, at) != 1)
		return 0;
	remembered(st, digest, &then);
	if (!then.len)
		return 1;
	if (identify(st, digest, &now) < 0)
		return -1;
	return !strcmp(buf_cstr(&now), buf_cstr(&then));
}

/* The depot is asked before the lock is taken: nobody else waits for one that does not answer. */
static int mount_layer(const struct state *st, const char *digest, const char *at)
{
	autobuf now = BUF_INIT;
	autofd lock = -1;

	if (identify(st, digest, &now) < 0)
		return -1;
	lock = lock_take(st->run, "layer.lock", LOCK_EXCLUSIVE);
	return lock < 0 ? -1 : mount_layer_locked(st, digest, at, &now);
}

int node_mount_layer(const struct state *st, const char *digest)
{
	autofree char *at = run_path(st, "layer", digest);
	autofd dir = -1;
	int r = is_mounted(st, digest, at);

	if (r)
		return r < 0 ? -1 : 0;
	dir = fd_dir(st->run, "layer", 1);
	return dir < 0 ? -1 : mount_layer(st, digest, at);
}

int node_renew_layer(const struct state *st, const char *digest)
{
	autofree char *at = run_path(st, "layer", digest);

	return mnt_is_root(AT_FDCWD, at) != 1 ? 0 : mount_layer(st, digest, at);
}

int node_open_layer(const struct state *st, const char *digest)
{
	autofree char *at = run_path(st, "layer", digest);
	autofd fd = fd_dir(AT_FDCWD, at, 0);

	if (fd >= 0 && mnt_is_root(fd, "") != 1)
		return fail_as(EX_AGAIN, "layer '%.12s' is not mounted", digest);
	return fd_take(&fd);
}

static int make_nodes(int dir)
{
	static const struct {
		const char *name;
		unsigned major, minor;
	} nodes[] = {{"null", 1, 3},   {"zero", 1, 5},	  {"full", 1, 7},
		     {"random", 1, 8}, {"urandom", 1, 9}, {"tty", 5, 0}};
	static const char *const links[][2] = {{"/proc/self/fd", "fd"},
					       {"/proc/self/fd/0", "stdin"},
					       {"/proc/self/fd/1", "stdout"},
					       {"/proc/self/fd/2", "stderr"},
					       {"pts/ptmx", "ptmx"}};

	for (size_t i = 0; i < sizeof(nodes) / sizeof(nodes[0]); i++)
		if (mknodat(dir, nodes[i].name, S_IFCHR | 0666,
			    makedev(nodes[i].major, nodes[i].minor)) < 0 ||
		    fchmodat(dir, nodes[i].name, 0666, 0) < 0)
			return fail("cannot make the device node '%s'", nodes[i].name);
	for (size_t i = 0; i < sizeof(links) / sizeof(links[0]); i++)
		if (symlinkat(links[i][0], dir, links[i][1]) < 0)
			return fail("cannot make the link '%s'", links[i][1]);
	if (mkdirat(dir, "pts", 0755) < 0 || mkdirat(dir, "shm", 0755) < 0)
		return fail("cannot make '/dev/pts' and '/dev/shm'");
	return 0;
}

static int mount_dev_locked(const char *at)
{
	static const struct mnt_opt opts[] = {{"size", "64k"}, {"mode", "0755"}, {NULL, NULL}};
	autofd mnt = -1;

	if (mnt_is_root(AT_FDCWD, at) == 1)
		return 0;
	if (mkdir(at, 0700) < 0 && errno != EEXIST)
		return fail("cannot make directory '%s'", at);
	mnt = mnt_new("tmpfs", opts, MNT_NOSUID | MNT_NOEXEC);
	if (mnt < 0 || make_nodes(mnt) < 0)
		return -1;
	return mnt_move(mnt, AT_FDCWD, at);
}

int node_mount_dev(const struct state *st)
{
	autofree char *at = run_path(st, "dev", "");

	if (mnt_is_root(AT_FDCWD, at) != 1) {
		autofd lock = lock_take(st->run, "layer.lock", LOCK_EXCLUSIVE);

		if (lock < 0 || mount_dev_locked(at) < 0)
			return -1;
	}
	return fd_dir(AT_FDCWD, at, 0);
}

static int mount_empty_locked(const char *at)
{
	autofd file = -1, ns = -1, mnt = -1;
	char path[32];

	if (mnt_is_root(AT_FDCWD, at) == 1)
		return 0;
	file = openat(AT_FDCWD, at, O_RDONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (file < 0)
		return fail("cannot create '%s'", at);
	ns = ns_empty_mnt();
	if (ns < 0)
		return -1;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", ns);
	mnt = mnt_clone_file(path);
	return mnt < 0 ? -1 : mnt_move(mnt, AT_FDCWD, at);
}

int node_open_empty(const struct state *st)
{
	autofree char *at = run_path(st, "empty", "");
	int fd;

	if (mnt_is_root(AT_FDCWD, at) != 1) {
		autofd lock = lock_take(st->run, "layer.lock", LOCK_EXCLUSIVE);

		if (lock < 0 || mount_empty_locked(at) < 0)
			return -1;
	}
	fd = openat(AT_FDCWD, at, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? fail("cannot open '%s'", at) : fd;
}

static int unmount(const char *at)
{
	if (mnt_is_root(AT_FDCWD, at) == 1 && mnt_unmount(at) < 0 && errno != EBUSY)
		return fail("cannot unmount '%s'", at);
	if (remove(at) < 0 && errno != ENOENT && errno != EBUSY)
		return fail("cannot remove '%s'", at);
	return 0;
}

/* A mount that is gone, not one that was busy, needs no memory. */
static int forget(const struct state *st, const char *digest, const char *at)
{
	autobuf none = BUF_INIT;

	return faccessat(AT_FDCWD, at, F_OK, 0) < 0 ? remember(st, digest, &none) : 0;
}

int node_unmount_unused(const struct state *st, int (*keep)(void *arg, const char *digest),
			void *arg, int keep_dev)
{
	autofree char *dev = run_path(st, "dev", ""), *empty = run_path(st, "empty", "");
	autofd lock = lock_take(st->run, "layer.lock", LOCK_EXCLUSIVE);
	int fd = openat(st->run, "layer", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r = 0;
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;

	if (lock < 0)
		r = -1;
	while (d && !r && (e = readdir(d))) {
		autofree char *at = run_path(st, "layer", e->d_name);

		if (e->d_name[0] != '.' && !keep(arg, e->d_name))
			r = unmount(at) < 0 ? -1 : forget(st, e->d_name, at);
	}
	if (d)
		closedir(d);
	if (!r && !keep_dev)
		r = unmount(dev) < 0 ? -1 : unmount(empty);
	return r;
}
