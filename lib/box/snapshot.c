#include "box/snapshot.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/die.h"
#include "base/fd.h"
#include "base/lock.h"
#include "base/num.h"
#include "box/client.h"
#include "kern/mnt.h"
#include "store/compose.h"
#include "store/import_upper.h"

int snapshot_rules(const struct state *st, const char *rules, struct clean **c)
{
	autofree char *path = xasprintf("%s/clean.rules", st->conf.share);

	return clean_load(rules ? rules : path, c);
}

/* The box's images composed once more, from what they were then. */
static int compose_again(const struct state *st, const struct spec *spec, struct compose *c)
{
	const char *toolkits[COMPOSE_LAYERS], *digest;
	autofd hold = image_hold(st);
	size_t n = 0, i = 0;

	if (hold < 0)
		return -1;
	while (n < COMPOSE_LAYERS && (digest = spec_next(spec, "toolkit_digest", &i)))
		toolkits[n++] = digest;
	return compose_load(st, spec->image_digest, kv_get(&spec->kv, "workspace_digest"), toolkits,
			    n, c);
}

/* Layers and config of the image to be; the layers stay, even if the box goes meanwhile. */
static int begin_image(const struct state *st, const struct spec *spec, struct snapshot *s)
{
	struct image *img = &s->img;
	struct compose c;

	if (compose_again(st, spec, &c) < 0)
		return fail_more("box '%s'", spec->id);
	*img = c.img;
	c.img = (struct image){.nlayers = img->nlayers}; /* of c.at */
	compose_free(&c);
	img->created_ms = 0;
	if (img->nlayers >= IMAGE_LAYERS)
		return failx("box '%s' has %zu layers, an image can have %d: make one of some with "
			     "sbx-img collapse",
			     spec->id, img->nlayers, IMAGE_LAYERS);
	if (stage_keep_layers(&s->stage, img) < 0)
		return fail_more("box '%s'", spec->id);
	img->layer = xrealloc(img->layer, (img->nlayers + 1) * sizeof(*img->layer));
	img->nlayers++;
	return 0;
}

/*
 * Who wants to remove a box takes its lock alone; a keeper has it so until the box has ended, and then
 * we wait for it here. A box of before the node was started has no run directory any more.
 */
static int hold_dead(const struct state *st, const char *id)
{
	autofd dir = fd_dir(st->run_box, id, 1);
	autofd lock = dir < 0 ? -1 : lock_take(dir, "lock", LOCK_SHARED);

	if (lock < 0)
		return -1;
	if (!faccessat(st->box, id, F_OK, 0))
		return fd_take(&lock);
	/* It was removed just now: out with the directory that we may have made for it. */
	fd_close(&lock);
	(void)box_remove(st, id);
	return fail_as(EX_GONE, "no box '%s' on this node", id);
}

/*
 * Keeps the box as it is. Reading the files of a frozen box gives what it has written, synced or not:
 * overlayfs keeps no data of its own, so write(2), shared mappings and our read(2) meet in the page
 * cache of the upper directory's files. A process that is inside a system call ends that call
 * before it counts as frozen.
 */
static int hold(const struct state *st, const char *id, int *frozen)
{
	enum box_state state = box_state(st, id);
	int fd = -1;

	*frozen = 0;
	if (state == BOX_CREATING)
		return fail_as(EX_AGAIN, "box '%s' is still being made", id);
	if (state == BOX_RUNNING) {
		fd = client_freeze(st, id);
		*frozen = fd >= 0;
		/* It may have ended since we looked. */
		if (fd >= 0 || fail_code() != EX_GONE)
			return fd;
	}
	return hold_dead(st, id);
}

/* The keeper closes its end only when the box is no more, and then it may be removed under us. */
static int still_frozen(int ctl, const char *id)
{
	struct pollfd p = {.fd = ctl, .events = POLLIN | POLLRDHUP};

	return poll(&p, 1, 0) > 0 ? fail_as(EX_GONE, "box '%s' ended while it was read", id) : 0;
}

static int read_upper(const struct state *st, const struct spec *spec, struct import *im,
		      const struct clean *clean)
{
	const char *made[] = {"etc/hosts", "etc/resolv.conf", NULL};
	struct upper u = {spec->id_base, spec->id_count, clean, made};
	char path[ID_MAX + 16];
	autofd fd = -1;

	/* Without the node's network there is no resolv.conf of ours. */
	if (strcmp(spec->net, "host") != 0)
		made[1] = NULL;
	snprintf(path, sizeof(path), "%s/upper", spec->id);
	fd = fd_openat2(st->box, path, O_RDONLY | O_DIRECTORY, 0,
			RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV);
	if (fd < 0)
		return fail("cannot open what box '%s' has changed", spec->id);
	return import_upper(im, fd, &u) < 0 ? fail_more("box '%s'", spec->id) : 0;
}

/* All that has to happen while the box is held still. */
static int read_held(const struct state *st, const struct spec *spec, struct import *im,
		     struct snapshot *s)
{
	uint64_t begin = num_mono_us();
	int frozen, r;
	autofd held = hold(st, spec->id, &frozen);

	if (held < 0)
		return -1;
	r = read_upper(st, spec, im, s->clean);
	/* If it went away, that is why the reading failed. */
	if (frozen && still_frozen(held, spec->id) < 0)
		r = -1;
	fd_close(&held);
	s->frozen_us = frozen ? num_mono_us() - begin : 0;
	return r;
}

static int make_layer(const struct state *st, const struct spec *spec, struct snapshot *s)
{
	struct import im = {.stage = &s->stage, .tree = tree_new()};
	int r = -1;

	im.data = stage_data(&s->stage, im.tree);
	if (im.data && read_held(st, spec, &im, s) < 0)
		close(blob_close(im.data));
	else if (im.data)
		r = stage_data_end(&s->stage, im.data);
	s->sockets = im.sockets;
	s->xattrs = im.xattrs;
	s->layer.kind = xstrdup("snapshot");
	s->layer.source = xstrdup(spec->id);
	if (!r)
		r = stage_layer(&s->stage, im.tree, &s->layer);
	tree_free(im.tree);
	return r;
}

int snapshot_take(const struct state *st, const struct spec *spec, struct snapshot *s)
{
	int r = stage_open(&s->stage, st, mnt_unmount);

	if (!r)
		r = begin_image(st, spec, s);
	if (!r)
		r = make_layer(st, spec, s);
	if (!r)
		memcpy(s->img.layer[s->img.nlayers - 1], s->layer.digest, IMAGE_DIGEST + 1);
	return r;
}

int snapshot_close(struct snapshot *s, int r)
{
	int no_space = r < 0 && (errno == ENOSPC || errno == EDQUOT);

	image_free(&s->img);
	layer_free(&s->layer);
	r = stage_close(&s->stage, r);
	if (no_space && fail_code() == EX_SBX) {
		autofree char *text = xstrdup(fail_text());

		fail_as(EX_AGAIN, "%s", text);
	}
	return r;
}
