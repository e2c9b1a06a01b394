/*
 * slowfs: a remote file system for tests. Passes a directory through, slowly, and counts.
 *
 *   slowfs DIR MNT CTL [DELAY_US [BANDWIDTH]]   serves DIR at MNT until it is unmounted or killed
 *   slowfs --ctl CTL [COMMAND]                  tells the one whose socket is in directory CTL
 *
 * Each read takes DELAY_US microseconds however many there are at once; all reads together get
 * BANDWIDTH bytes a second (0: no limit). Commands:
 *
 *   stat          counts since the start or the last reset (below); what no command at all does
 *   reset         counts begin at 0
 *   hang, fail    no request is answered; every read is EIO. go ends both
 *   delay_us N    bandwidth N
 *
 * Counts are of what the kernel asks for, so what its page cache answers is not in them: reads,
 * bytes, largest (bytes of one read), writes, written (bytes), waiting (requests now delayed or
 * hung), then "file = READS BYTES /PATH" for each file that was read, its path when first opened.
 *
 * The socket is served by a thread of its own: it answers while everything else hangs.
 */
#define FUSE_USE_VERSION 312
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fuse3/fuse.h>
#include <malloc.h>
#include <pthread.h>
#include <search.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/die.h"
#include "base/fd.h"
#include "base/num.h"
#include "base/sock.h"

/* Enough for a request of every process of a large test: a delayed one occupies a thread. */
#define THREADS "1000"
enum { BACKGROUND = 900, CTL_TIMEOUT_MS = 10000 };

struct count {
	char *path;
	uint64_t reads, bytes;
};

struct file {
	int fd;
	struct count *count;
};

static int root, listener;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
/* All below is under the mutex. */
static int hung, failing;
static uint64_t delay_us, bandwidth, free_at_ns; /* when the bytes asked for so far have passed */
static uint64_t reads, bytes, largest, writes, written, waiting;
static void *counts; /* a tree of struct count, never freed: open files point into it */

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void sleep_until(uint64_t ns)
{
	struct timespec t = {.tv_sec = (time_t)(ns / 1000000000),
			     .tv_nsec = (long)(ns % 1000000000)};

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR)
		;
}

/* Every request comes through here first. */
static void gate(void)
{
	pthread_mutex_lock(&mutex);
	waiting++;
	while (hung)
		pthread_cond_wait(&changed, &mutex);
	waiting--;
	pthread_mutex_unlock(&mutex);
}

/* Counts a read of N bytes and waits as long as it takes. Its result: N, or an error. */
static int pass(struct count *c, uint64_t n)
{
	uint64_t now = now_ns(), due;

	pthread_mutex_lock(&mutex);
	reads++;
	bytes += n;
	c->reads++;
	c->bytes += n;
	if (n > largest)
		largest = n;
	if (free_at_ns < now)
		free_at_ns = now;
	if (bandwidth)
		free_at_ns += n * 1000000000 / bandwidth;
	due = free_at_ns + delay_us * 1000;
	waiting++;
	pthread_mutex_unlock(&mutex);
	if (due > now)
		sleep_until(due);
	pthread_mutex_lock(&mutex);
	while (hung)
		pthread_cond_wait(&changed, &mutex);
	waiting--;
	due = failing;
	pthread_mutex_unlock(&mutex);
	return due ? -EIO : (int)n;
}

static int by_path(const void *a, const void *b)
{
	return strcmp(((const struct count *)a)->path, ((const struct count *)b)->path);
}

static struct count *count_of(const char *path)
{
	struct count *new = xcalloc(1, sizeof(*new)), **found;

	new->path = xstrdup(path);
	pthread_mutex_lock(&mutex);
	found = tsearch(new, &counts, by_path);
	if (!found)
		xnomem();
	if (*found != new) {
		free(new->path);
		free(new);
		new = *found;
	}
	pthread_mutex_unlock(&mutex);
	return new;
}

/* The path of the kernel's, relative to the directory that is passed through. */
static const char *rel(const char *path)
{
	return path[1] ? path + 1 : ".";
}

static int done(int r)
{
	return r < 0 ? -errno : 0;
}

static struct file *file_of(const struct fuse_file_info *fi)
{
	return (struct file *)(uintptr_t)fi->fh;
}

static int fs_getattr(const char *path, struct stat *st, struct fuse_file_info *fi)
{
	gate();
	return done(fi ? fstat(file_of(fi)->fd, st)
		       : fstatat(root, rel(path), st, AT_SYMLINK_NOFOLLOW));
}

static int fs_readlink(const char *path, char *buf, size_t size)
{
	ssize_t n;

	gate();
	n = readlinkat(root, rel(path), buf, size - 1);
	if (n >= 0)
		buf[n] = '\0';
	return done((int)n);
}

static int fs_mkdir(const char *path, mode_t mode)
{
	gate();
	return done(mkdirat(root, rel(path), mode));
}

static int fs_unlink(const char *path)
{
	gate();
	return done(unlinkat(root, rel(path), 0));
}

static int fs_rmdir(const char *path)
{
	gate();
	return done(unlinkat(root, rel(path), AT_REMOVEDIR));
}

static int fs_symlink(const char *target, const char *path)
{
	gate();
	return done(symlinkat(target, root, rel(path)));
}

static int fs_rename(const char *from, const char *to, unsigned flags)
{
	gate();
	return done(renameat2(root, rel(from), root, rel(to), flags));
}

static int fs_link(const char *from, const char *to)
{
	gate();
	return done(linkat(root, rel(from), root, rel(to), 0));
}

static int fs_chmod(const char *path, mode_t mode, struct fuse_file_info *fi)
{
	(void)fi;
	gate();
	return done(fchmodat(root, rel(path), mode, 0));
}

static int fs_chown(const char *path, uid_t uid, gid_t gid, struct fuse_file_info *fi)
{
	(void)fi;
	gate();
	return done(fchownat(root, rel(path), uid, gid, AT_SYMLINK_NOFOLLOW));
}

static int fs_utimens(const char *path, const struct timespec t[2], struct fuse_file_info *fi)
{
	(void)fi;
	gate();
	return done(utimensat(root, rel(path), t, AT_SYMLINK_NOFOLLOW));
}

static int fs_truncate(const char *path, off_t size, struct fuse_file_info *fi)
{
	autofd fd = -1;

	gate();
	if (fi)
		return done(ftruncate(file_of(fi)->fd, size));
	fd = openat(root, rel(path), O_WRONLY | O_CLOEXEC);
	return done(fd < 0 ? -1 : ftruncate(fd, size));
}

static int opened(int fd, const char *path, struct fuse_file_info *fi)
{
	struct file *f;

	if (fd < 0)
		return -errno;
	f = xmalloc(sizeof(*f));
	f->fd = fd;
	f->count = count_of(path);
	fi->fh = (uintptr_t)f;
	return 0;
}

/* The kernel gives each write its place, appended or not; our buffers are not aligned. */
static int flags_of(const struct fuse_file_info *fi)
{
	return (fi->flags & ~(O_APPEND | O_DIRECT)) | O_CLOEXEC;
}

static int fs_create(const char *path, mode_t mode, struct fuse_file_info *fi)
{
	gate();
	return opened(openat(root, rel(path), flags_of(fi) | O_CREAT, mode), path, fi);
}

static int fs_open(const char *path, struct fuse_file_info *fi)
{
	gate();
	return opened(openat(root, rel(path), flags_of(fi)), path, fi);
}

static int fs_release(const char *path, struct fuse_file_info *fi)
{
	struct file *f = file_of(fi);

	(void)path;
	close(f->fd);
	free(f);
	return 0;
}

static int fs_read(const char *path, char *buf, size_t size, off_t at, struct fuse_file_info *fi)
{
	struct file *f = file_of(fi);
	ssize_t n;

	(void)path;
	gate();
	n = pread(f->fd, buf, size, at);
	return n < 0 ? -errno : pass(f->count, (uint64_t)n);
}

static int fs_write(const char *path, const char *buf, size_t size, off_t at,
		    struct fuse_file_info *fi)
{
	ssize_t n;

	(void)path;
	gate();
	n = pwrite(file_of(fi)->fd, buf, size, at);
	if (n < 0)
		return -errno;
	pthread_mutex_lock(&mutex);
	writes++;
	written += (uint64_t)n;
	pthread_mutex_unlock(&mutex);
	return (int)n;
}

static int fs_fsync(const char *path, int data_only, struct fuse_file_info *fi)
{
	(void)path;
	gate();
	return done(data_only ? fdatasync(file_of(fi)->fd) : fsync(file_of(fi)->fd));
}

static int fs_statfs(const char *path, struct statvfs *st)
{
	(void)path;
	gate();
	return done(fstatvfs(root, st));
}

static int fs_opendir(const char *path, struct fuse_file_info *fi)
{
	DIR *d;

	gate();
	d = fdopendir(openat(root, rel(path), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	fi->fh = (uintptr_t)d;
	return done(d ? 0 : -1);
}

static int fs_releasedir(const char *path, struct fuse_file_info *fi)
{
	(void)path;
	return done(closedir((DIR *)(uintptr_t)fi->fh));
}

static int fs_readdir(const char *path, void *buf, fuse_fill_dir_t fill, off_t at,
		      struct fuse_file_info *fi, enum fuse_readdir_flags flags)
{
	DIR *d = (DIR *)(uintptr_t)fi->fh;
	struct dirent *e;

	(void)path;
	(void)at;
	(void)flags;
	gate();
	rewinddir(d);
	while ((e = readdir(d))) {
		struct stat st = {.st_ino = e->d_ino, .st_mode = DTTOIF(e->d_type)};

		if (fill(buf, e->d_name, &st, 0, 0))
			break;
	}
	return 0;
}

static void say(int fd, const char *text)
{
	/* Who asked may have gone. */
	if (sock_send(fd, text, strlen(text), NULL, 0) < 0)
		return;
}

static void say_file(const void *node, VISIT order, void *arg)
{
	const struct count *c = *(struct count *const *)node;
	autobuf line = BUF_INIT;

	if ((order != postorder && order != leaf) || !c->reads)
		return;
	buf_fmt(&line, "file = %ju %ju %s\n", (uintmax_t)c->reads, (uintmax_t)c->bytes, c->path);
	say(*(int *)arg, buf_cstr(&line));
}

static void say_counts(int fd)
{
	autobuf text = BUF_INIT;

	buf_fmt(&text,
		"reads = %ju\nbytes = %ju\nlargest = %ju\nwrites = %ju\nwritten = %ju\n"
		"waiting = %ju\n",
		(uintmax_t)reads, (uintmax_t)bytes, (uintmax_t)largest, (uintmax_t)writes,
		(uintmax_t)written, (uintmax_t)waiting);
	say(fd, buf_cstr(&text));
	twalk_r(counts, say_file, &fd);
}

static void forget(const void *node, VISIT order, void *arg)
{
	struct count *c = *(struct count *const *)node;

	(void)arg;
	if (order == postorder || order == leaf)
		c->reads = c->bytes = 0;
}

static void reset(void)
{
	reads = bytes = largest = writes = written = 0;
	twalk_r(counts, forget, NULL);
}

static int set(const char *what, const char *arg, uint64_t *value)
{
	return num_u64(what, arg, UINT32_MAX * UINT64_C(1000), value);
}

/* A command of ours: 0, or -1 after fail(). */
static int command(int fd, const char *name, const char *arg)
{
	if (!strcmp(name, "stat"))
		say_counts(fd);
	else if (!strcmp(name, "reset"))
		reset();
	else if (!strcmp(name, "hang"))
		hung = 1;
	else if (!strcmp(name, "fail"))
		failing = 1;
	else if (!strcmp(name, "go"))
		hung = failing = 0;
	else if (!strcmp(name, "delay_us"))
		return set(name, arg, &delay_us);
	else if (!strcmp(name, "bandwidth"))
		return set(name, arg, &bandwidth);
	else
		return failx("unknown command '%s'", name);
	return 0;
}

static void serve(int fd)
{
	char text[128], *arg;
	int fds[SOCK_FDS], nfds;
	ssize_t n = sock_recv(fd, text, sizeof(text) - 1, fds, &nfds);

	if (n <= 0)
		return;
	text[n] = '\0';
	arg = strchr(text, ' ');
	if (arg)
		*arg++ = '\0';
	pthread_mutex_lock(&mutex);
	if (command(fd, text, arg ? arg : "") < 0)
		say(fd, fail_text());
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&mutex);
}

static void *control(void *arg)
{
	(void)arg;
	for (;;) {
		int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

		if (fd >= 0)
			serve(fd);
		fd_close(&fd);
	}
	return NULL;
}

/* The kernel's cache is as good as over NFS: dropped at an open if time or size have changed. */
static void *fs_init(struct fuse_conn_info *conn, struct fuse_config *cfg)
{
	pthread_t t;

	conn->max_background = BACKGROUND;
	conn->congestion_threshold = BACKGROUND;
	cfg->auto_cache = 1;
	cfg->nullpath_ok = 1;
	cfg->use_ino = 1;
	cfg->hard_remove = 1;
	if (pthread_create(&t, NULL, control, NULL) || pthread_detach(t))
		dief(EX_SBX, "cannot start a thread");
	return NULL;
}

static const struct fuse_operations operations = {
	.init = fs_init,
	.getattr = fs_getattr,
	.readlink = fs_readlink,
	.mkdir = fs_mkdir,
	.unlink = fs_unlink,
	.rmdir = fs_rmdir,
	.symlink = fs_symlink,
	.rename = fs_rename,
	.link = fs_link,
	.chmod = fs_chmod,
	.chown = fs_chown,
	.utimens = fs_utimens,
	.truncate = fs_truncate,
	.create = fs_create,
	.open = fs_open,
	.release = fs_release,
	.read = fs_read,
	.write = fs_write,
	.fsync = fs_fsync,
	.statfs = fs_statfs,
	.opendir = fs_opendir,
	.releasedir = fs_releasedir,
	.readdir = fs_readdir,
};

/* Sends the command and prints the answer: numbers, or a complaint (exit 1), or nothing. */
static int tell(int argc, char **argv)
{
	autobuf text = BUF_INIT;
	char answer[SOCK_MAX];
	int fds[SOCK_FDS], nfds, status = 0;
	autofd dir = fd_dir(AT_FDCWD, argv[2], 0), fd = -1;
	ssize_t n;

	fd = dir < 0 ? -1 : sock_connect(dir, "ctl", CTL_TIMEOUT_MS);
	if (fd < 0)
		dief(EX_NO, "nobody listens in '%s'", argv[2]);
	buf_str(&text, argc > 3 ? argv[3] : "stat");
	if (argc > 4)
		buf_fmt(&text, " %s", argv[4]);
	if (sock_send(fd, buf_cstr(&text), text.len, NULL, 0) < 0)
		dief(EX_NO, "cannot send");
	while ((n = sock_recv(fd, answer, sizeof(answer), fds, &nfds)) > 0) {
		int complaint = answer[n - 1] != '\n';

		fprintf(complaint ? stderr : stdout, complaint ? "%.*s\n" : "%.*s", (int)n, answer);
		status |= complaint;
	}
	return finish(stdout) ? EX_SBX : status;
}

int main(int argc, char **argv)
{
	char options[] = "allow_other,default_permissions,fsname=slowfs,subtype=slowfs,"
			 "max_threads=" THREADS ",max_idle_threads=" THREADS;
	char foreground[] = "-f", option[] = "-o";
	autofd dir = -1;

	die_init(argv[0]);
	if (argc >= 3 && argc <= 5 && !strcmp(argv[1], "--ctl"))
		return tell(argc, argv);
	if (argc < 4 || argc > 6)
		dief(EX_SBX, "usage: slowfs DIR MNT CTL [DELAY_US [BANDWIDTH]]");
	if ((argc > 4 && set("delay", argv[4], &delay_us) < 0) ||
	    (argc > 5 && set("bandwidth", argv[5], &bandwidth) < 0))
		die();
	root = fd_dir(AT_FDCWD, argv[1], 0);
	dir = fd_dir(AT_FDCWD, argv[3], 1);
	listener = dir < 0 ? -1 : sock_listen(dir, "ctl");
	if (root < 0 || listener < 0)
		die();
	/* A page fault costs more than a read: the buffers of up to 1 MiB are kept, in one heap. */
	mallopt(M_ARENA_MAX, 1);
	mallopt(M_MMAP_THRESHOLD, 16 << 20);
	mallopt(M_TRIM_THRESHOLD, INT32_MAX);
	umask(0);
	return fuse_main(5, ((char *[]){argv[0], foreground, option, options, argv[2], NULL}),
			 &operations, NULL);
}
