#include "box/silent.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/die.h"
#include "base/fd.h"
#include "base/num.h"
#include "box/probe.h"
#include "kern/mnt.h"
#include "store/cache.h"

/* A file system that layers' data are read from, by the minor number of its device. */
struct source {
	unsigned minor;
	char *depot;
};

struct sources {
	struct source *v;
	size_t n;
};

static void add(struct sources *s, unsigned minor, const char *depot)
{
	for (size_t i = 0; i < s->n; i++)
		if (s->v[i].minor == minor)
			return;
	s->v = xrealloc(s->v, (s->n + 1) * sizeof(*s->v));
	s->v[s->n++] = (struct source){minor, xstrdup(depot)};
}

/*
 * RUN/depot/DIGEST has lines "PATH DEV:INO:MOUNT" (node.c). While the layer is mounted its blobs are
 * open, so the number cannot have become another file system's.
 */
static void add_layer(struct sources *s, const struct state *st, const char *digest)
{
	autofree char *path = xasprintf("depot/%s", digest);
	autofree char *at = xasprintf("%s/layer/%s", st->conf.run, digest);
	autobuf b = BUF_INIT;
	autolayer l = {0};
	char *rest, *line;

	if (mnt_is_root(AT_FDCWD, at) != 1 || layer_load(st, digest, &l) < 0 ||
	    fd_read_file(st->run, path, 1 << 20, &b) < 0 || !b.len)
		return;
	rest = b.p;
	while ((line = strsep(&rest, "\n"))) {
		const char *id = strrchr(line, ' ');
		unsigned long long dev;

		/* Major 0: no device but a file system that stands for itself. */
		if (id && sscanf(id, " %llx:", &dev) == 1 && strchr(id, ':') && !(dev >> 32))
			add(s, (unsigned)dev, l.depot);
	}
}

static void find_sources(struct sources *s, const struct state *st)
{
	int fd = openat(st->run, "depot", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;

	while (d && (e = readdir(d)))
		if (strlen(e->d_name) == IMAGE_DIGEST)
			add_layer(s, st, e->d_name);
	if (d)
		closedir(d);
}

/* Since when it is silent, in microseconds of the monotonic clock; the first time is now. */
static int silent_since(const struct state *st, const char *path, uint64_t now, uint64_t *since)
{
	autofd dir = fd_dir(st->run, "silent", 1);
	char text[24];
	autobuf b = BUF_INIT;

	if (dir < 0)
		return -1;
	if (!fd_read_file(st->run, path, 64, &b)) {
		*since = strtoull(buf_cstr(&b), NULL, 10);
		return 0;
	}
	*since = now;
	snprintf(text, sizeof(text), "%llu\n", (unsigned long long)now);
	return fd_replace(st->run, path, text, strlen(text), 0);
}

/* CONNECTIONS is what /sys/fs/fuse/connections shows where it is mounted (fuse.rst). */
static int look_at(const struct state *st, const struct source *s, int connections, int dry_run,
		   void (*report)(const char *what, const char *why))
{
	autofree char *path = xasprintf("silent/%u", s->minor);
	autofree char *abort_file = xasprintf("%u/abort", s->minor);
	uint64_t since, now;

	if (faccessat(connections, abort_file, F_OK, 0) < 0)
		return 0;
	/* An error is an answer: nobody hangs on it. */
	if (!probe_depot(&st->conf, s->depot) || errno != ETIMEDOUT) {
		unlinkat(st->run, path, 0);
		return 0;
	}
	now = num_mono_us();
	if (silent_since(st, path, now, &since) < 0)
		return -1;
	if (now - since < st->conf.depot_abort_ms * 1000)
		return 0;
	report(s->depot, "silent");
	if (dry_run)
		return 0;
	unlinkat(st->run, path, 0);
	return fd_put(connections, abort_file, "1") < 0
		       ? fail("cannot cut the connection to '%s'", s->depot)
		       : 0;
}

int silent_abort(const struct state *st, int dry_run,
		 void (*report)(const char *what, const char *why))
{
	struct sources s = {0};
	autofd connections = -1;
	int r = 0;

	if (!st->conf.depot_abort_ms)
		return 0;
	find_sources(&s, st);
	if (s.n) /* without FUSE there is nothing to cut */
		connections = mnt_new("fusectl", NULL, MNT_NOSUID | MNT_NODEV | MNT_NOEXEC);
	for (size_t i = 0; i < s.n; i++) {
		if (connections >= 0)
			r |= look_at(st, &s.v[i], connections, dry_run, report);
		free(s.v[i].depot);
	}
	free(s.v);
	return r;
}
