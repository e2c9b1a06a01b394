#include "store/state.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/die.h"
#include "base/fd.h"

/*
 * Opens (or makes) a top directory of ours. It must belong to us and nobody else may write in it:
 * a directory somebody prepared for us under a predictable name would be a trap.
 */
static int open_top(const char *path, int make)
{
	struct stat st;
	autofd fd = -1;

	if (make && mkdir(path, 0700) < 0 && errno == ENOENT) {
		autofree char *up = xstrdup(path);
		char *slash = strrchr(up, '/');

		*slash = 0;
		if (*up && fd_mkdirs(up, 0755) < 0)
			return -1;
		if (mkdir(path, 0700) < 0 && errno != EEXIST)
			return fail("cannot make directory '%s'", path);
	}
	fd = openat(AT_FDCWD, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT)
		return failx("'%s' does not exist: nothing was made on this node yet", path);
	if (fd < 0 || fstat(fd, &st) < 0)
		return fail("cannot open directory '%s'", path);
	if (st.st_uid != geteuid() || (st.st_mode & 022))
		return failx("'%s' must belong to you and be writable by you only: chmod 700 it",
			     path);
	return fd_take(&fd);
}

int state_open(struct state *st, int make)
{
	if (conf_load(&st->conf) < 0)
		return -1;
	if (geteuid() != 0)
		return failx("must run as root (sandboxes need id ranges, mounts and cgroups)");
	st->state = open_top(st->conf.state, make);
	if (st->state < 0)
		return -1;
	st->run = open_top(st->conf.run, 1);
	if (st->run < 0)
		return -1;
	st->box = fd_dir(st->state, "box", 1);
	if (st->box < 0)
		return -1;
	st->run_box = fd_dir(st->run, "box", 1);
	return st->run_box < 0 ? -1 : 0;
}

struct state_iter {
	DIR *d;
};

struct state_iter *state_boxes(const struct state *st)
{
	struct state_iter *it = xcalloc(1, sizeof(*it));
	int fd = openat(st->box, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	it->d = fd < 0 ? NULL : fdopendir(fd);
	if (it->d)
		return it;
	fail("cannot read '%s/box'", st->conf.state);
	free(it);
	return NULL;
}

int state_next(struct state_iter *it, const char **id)
{
	struct dirent *e;

	while ((errno = 0, e = readdir(it->d)))
		if (id_valid(e->d_name)) {
			*id = e->d_name;
			return 1;
		}
	return errno ? fail("cannot read the directory of boxes") : 0;
}

void state_end(struct state_iter *it)
{
	closedir(it->d);
	free(it);
}

static int by_prefix(const struct state *st, const char *word, char id[ID_MAX + 1])
{
	struct state_iter *it = state_boxes(st);
	const char *one = NULL;
	int found = 0, r;

	if (!it)
		return -1;
	while ((r = state_next(it, &one)) > 0) {
		if (strncmp(id_tail(one), word, strlen(word)) != 0)
			continue;
		if (found++)
			break;
		snprintf(id, ID_MAX + 1, "%s", one);
	}
	state_end(it);
	if (r < 0)
		return -1;
	if (found > 1)
		return failx("'%s' is the start of more than one ID: type more of it", word);
	if (!found)
		return fail_as(EX_GONE, "no box '%s' on this node", word);
	return 0;
}

int state_resolve(const struct state *st, const char *word, char id[ID_MAX + 1])
{
	char path[80];
	ssize_t n;

	if (id_valid(word)) {
		snprintf(id, ID_MAX + 1, "%s", word);
		if (faccessat(st->box, id, F_OK, 0) == 0)
			return 0;
		return fail_as(EX_GONE, "no box '%s' on this node", word);
	}
	if (!id_label_valid(word))
		return failx("'%s' is neither a box ID nor a name", word);
	snprintf(path, sizeof(path), "name/%s", word);
	n = readlinkat(st->state, path, id, ID_MAX + 1);
	if (n > 0 && n <= ID_MAX) {
		id[n] = 0;
		if (id_valid(id) && faccessat(st->box, id, F_OK, 0) == 0)
			return 0;
	}
	return by_prefix(st, word, id);
}

void state_unlink_own(const struct state *st, const char *dir, const char *name, const char *id)
{
	autofd fd = openat(st->state, dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char owner[ID_MAX + 1];
	ssize_t n;

	if (fd < 0)
		return;
	while (flock(fd, LOCK_EX) < 0)
		if (errno != EINTR)
			return;
	n = readlinkat(fd, name, owner, sizeof(owner));
	if (n == (ssize_t)strlen(id) && !memcmp(owner, id, (size_t)n))
		unlinkat(fd, name, 0);
}

DIR *state_opendir(const struct state *st, const char *path)
{
	int fd = openat(st->state, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);

	if (d)
		return d;
	fail("cannot read '%s/%s'", st->conf.state, path);
	fd_close(&fd);
	return NULL;
}

int state_each(const struct state *st, const char *path,
	       int (*fn)(void *arg, int dir, const char *name), void *arg)
{
	DIR *d = state_opendir(st, path);
	struct dirent *e;
	int r = 0;

	if (!d)
		return errno == ENOENT ? 0 : -1;
	while (!r && (e = readdir(d)))
		if (e->d_name[0] != '.')
			r = fn(arg, dirfd(d), e->d_name);
	closedir(d);
	return r;
}
