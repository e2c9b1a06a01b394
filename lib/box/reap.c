#include "box/reap.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/die.h"
#include "base/fd.h"
#include "base/num.h"
#include "box/client.h"
#include "box/node.h"
#include "box/silent.h"
#include "box/spec.h"
#include "kern/mnt.h"
#include "store/image.h"
#include "store/slot.h"

/* A keeper ends its box at the ttl; one that has not done so for this long is stuck. */
enum { STUCK_MS = 30000 };

static int exists(const struct state *st, const char *id)
{
	return !faccessat(st->box, id, F_OK, 0) || !faccessat(st->run_box, id, F_OK, 0);
}

static void remove_box(const struct reap *r, const char *id, const char *why)
{
	if (!exists(r->st, id)) /* another reap was quicker */
		return;
	if (!r->dry_run && box_remove(r->st, id) < 0) {
		if (errno != EWOULDBLOCK) /* else: somebody else is at it, or it lives after all */
			r->failed();
		return;
	}
	r->report(id, why);
}

static void reap_dead(const struct reap *r, const char *id)
{
	autokv end = {0};
	uint64_t when;

	box_end(r->st, id, &end);
	when = kv_u64(&end, "time_ms", 0);
	if (r->keep_ms && when && when + r->keep_ms > num_now_ms())
		return;
	remove_box(r, id, kv_str(&end, "cause", "lost"));
}

static void reap_stuck(const struct reap *r, const char *id)
{
	if (!r->dry_run)
		box_kill(r->st, id);
	if (!r->dry_run && box_remove_wait(r->st, id) < 0)
		r->failed();
	else
		r->report(id, "ttl");
}

static void reap_box(const struct reap *r, const char *id)
{
	autospec s = {0};

	if (box_state(r->st, id) == BOX_DEAD)
		reap_dead(r, id);
	else if (!spec_load(r->st, id, &s) && s.ttl_ms &&
		 s.created_ms + s.ttl_ms + STUCK_MS < num_now_ms())
		reap_stuck(r, id);
}

static int reap_boxes(const struct reap *r)
{
	struct state_iter *it = state_boxes(r->st);
	const char *id;
	int n;

	if (!it)
		return -1;
	while ((n = state_next(it, &id)) > 0)
		reap_box(r, id);
	state_end(it);
	return n;
}

/* Creations cut off before STATE/box/ID was there, and removals cut off after it (remove_run). */
static void reap_runs(const struct reap *r)
{
	int fd = openat(r->st->run_box, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;

	while (d && (e = readdir(d))) {
		if (e->d_name[0] == '.' && id_valid(e->d_name + 1) && !r->dry_run &&
		    fd_rmtree(r->st->run_box, e->d_name) < 0)
			r->failed();
		if (id_valid(e->d_name) && faccessat(r->st->box, e->d_name, F_OK, 0) < 0 &&
		    box_state(r->st, e->d_name) == BOX_DEAD)
			remove_box(r, e->d_name, "half-made");
	}
	if (d)
		closedir(d);
}

static int reap_slot(void *arg, uint32_t slot, const char *id)
{
	const struct reap *r = arg;
	char what[32];

	if (exists(r->st, id))
		return 0;
	if (!r->dry_run)
		slot_free(r->st, slot, id);
	snprintf(what, sizeof(what), "slot/%u", slot);
	r->report(what, "no-box");
	return 0;
}

static void reap_names(const struct reap *r)
{
	int fd = openat(r->st->state, "name", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;

	while (d && (e = readdir(d))) {
		char id[ID_MAX + 1];
		ssize_t n = readlinkat(dirfd(d), e->d_name, id, ID_MAX);

		if (n <= 0)
			continue;
		id[n] = 0;
		if (exists(r->st, id))
			continue;
		if (!r->dry_run)
			state_unlink_own(r->st, "name", e->d_name, id);
		r->report(e->d_name, "no-box");
	}
	if (d)
		closedir(d);
}

struct used {
	char (*digest)[IMAGE_DIGEST + 1];
	size_t n;
};

static int is_used(void *arg, const char *digest)
{
	const struct used *u = arg;

	for (size_t i = 0; i < u->n; i++)
		if (!strcmp(u->digest[i], digest))
			return 1;
	return 0;
}

static void use_layers(struct used *u, const struct spec *s)
{
	const char *digest;
	size_t i = 0;

	while ((digest = spec_next(s, "layer", &i))) {
		if (is_used(u, digest) || strlen(digest) != IMAGE_DIGEST)
			continue;
		u->digest = xrealloc(u->digest, (u->n + 1) * sizeof(*u->digest));
		memcpy(u->digest[u->n++], digest, IMAGE_DIGEST + 1);
	}
}

/*
 * With img/lock held exclusively no creation is between choosing its layers and writing its spec, so
 * the specs tell all that is in use. If somebody holds the lock, the next reap will do it.
 */
static int unmount_unused(const struct reap *r)
{
	autofd lock = openat(r->st->state, "img/lock", O_RDWR | O_CLOEXEC);
	struct state_iter *it;
	struct used u = {0};
	const char *id;
	int n, boxes = 0;

	if (r->dry_run || lock < 0 || flock(lock, LOCK_EX | LOCK_NB) < 0)
		return 0;
	it = state_boxes(r->st);
	if (!it)
		return -1;
	while ((n = state_next(it, &id)) > 0) {
		autospec s = {0};

		boxes++;
		if (!spec_load(r->st, id, &s))
			use_layers(&u, &s);
	}
	state_end(it);
	n = n < 0 ? -1 : node_unmount_unused(r->st, is_used, &u, boxes);
	free(u.digest);
	return n;
}

int reap(const struct reap *r)
{
	if (reap_boxes(r) < 0)
		return -1;
	reap_runs(r);
	if (slot_each(r->st, reap_slot, (void *)r) < 0)
		return -1;
	reap_names(r);
	if (unmount_unused(r) < 0)
		r->failed();
	if (silent_abort(r->st, r->dry_run, r->report) < 0)
		r->failed();
	if (!r->dry_run && image_gc(r->st, mnt_unmount) < 0)
		r->failed();
	return 0;
}
