#include "box/view.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/die.h"
#include "store/image.h"

int view_load(const struct state *st, const char *id, struct view *v)
{
	autokv kv = {0};

	memset(v, 0, sizeof(*v));
	snprintf(v->id, sizeof(v->id), "%s", id);
	v->state = box_state_load(st, id, &kv);
	v->pid = kv_u64(&kv, "pid", 0);
	v->since_ms = kv_u64(&kv, "since_ms", 0);
	if (v->state == BOX_DEAD) {
		box_end(st, id, &v->end);
		v->since_ms = kv_u64(&v->end, "time_ms", 0);
	}
	errno = 0;
	if (!spec_load(st, id, &v->spec)) {
		v->known = 1;
		return 1;
	}
	if (errno != ENOENT)
		return -1;
	if (!faccessat(st->box, id, F_OK, 0))
		return 1;
	view_free(v);
	return 0;
}

void view_free(struct view *v)
{
	if (v->known)
		spec_free(&v->spec);
	kv_free(&v->end);
	v->known = 0;
}

int64_t view_ttl_left(const struct view *v, uint64_t now_ms)
{
	uint64_t end = v->since_ms + v->spec.ttl_ms;

	if (!v->known || !v->spec.ttl_ms || !v->since_ms || v->state != BOX_RUNNING)
		return -1;
	return now_ms < end ? (int64_t)(end - now_ms) : 0;
}

const char *view_cause(const struct view *v)
{
	return v->state == BOX_DEAD ? kv_str(&v->end, "cause", "lost") : NULL;
}

void view_labels(const struct view *v, struct buf *b)
{
	const char *l;
	size_t i = 0;

	while (v->known && (l = spec_next(&v->spec, "label", &i))) {
		if (b->len)
			buf_chr(b, ',');
		buf_str(b, l);
	}
}

int view_has_label(const struct view *v, const char *want)
{
	size_t len = strlen(want), i = 0;
	const char *l;

	while (v->known && (l = spec_next(&v->spec, "label", &i)))
		if (!strcmp(l, want) ||
		    (!strchr(want, '=') && !strncmp(l, want, len) && l[len] == '='))
			return 1;
	return 0;
}

int view_has_image(const struct view *v, const char *ref)
{
	char name[2][IMAGE_NAME + 1], tag[2][IMAGE_TAG + 1];
	size_t len = strlen(ref);

	if (!v->known)
		return 0;
	if (len >= 8 && !strncmp(v->spec.image_digest, ref, len))
		return 1;
	return !image_split(ref, name[0], tag[0]) && !image_split(v->spec.image, name[1], tag[1]) &&
	       !strcmp(name[0], name[1]) && !strcmp(tag[0], tag[1]);
}

/* The tail begins with the time; boxes of other nodes' names (a renamed node) mix in by it. */
static int by_tail(const void *a, const void *b)
{
	int r = strcmp(id_tail(a), id_tail(b));

	return r ? r : strcmp(a, b);
}

int view_ids(const struct state *st, char (**ids)[ID_MAX + 1], size_t *n)
{
	struct state_iter *it = state_boxes(st);
	size_t room = 0;
	const char *id;
	int r;

	*ids = NULL;
	*n = 0;
	if (!it)
		return -1;
	while ((r = state_next(it, &id)) > 0) {
		if (*n == room) {
			room = room ? room * 2 : 64;
			*ids = xrealloc(*ids, room * sizeof(**ids));
		}
		snprintf((*ids)[(*n)++], sizeof(**ids), "%s", id);
	}
	state_end(it);
	if (*n)
		qsort(*ids, *n, sizeof(**ids), by_tail);
	return r;
}
