#include "box/view.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/die.h"
#include "box/probe.h"
#include "store/layer.h"

/* One that does not answer is asked once, however many boxes there are. */
static const char *ask_depot(const struct state *st, const struct layer *l)
{
	static char depot[PATH_MAX], text[1024];
	autobuf ids = BUF_INIT;
	size_t len = strlen(l->depot);

	if (!strcmp(depot, l->depot))
		return text;
	if (!probe_layer(st, l, &ids))
		return NULL;
	snprintf(text, sizeof(text), "%s", fail_text());
	/* What is said of the depot, after its name: that comes before the text. */
	if (!strncmp(text, "depot '", 7) && strlen(text) > len + 8)
		memmove(text, text + len + 8, strlen(text + len + 8) + 1);
	if (errno == ETIMEDOUT)
		snprintf(depot, sizeof(depot), "%s", l->depot);
	return text;
}

static void look_at(const struct state *st, const char *digest, struct buf *where,
		    struct buf *errors)
{
	autolayer l = {0};
	const char *text;

	if (layer_load_derived(st, digest, &l) < 0 && layer_load(st, digest, &l) < 0) {
		buf_fmt(errors, "%s%s %s", errors->len ? "\n" : "", digest, fail_text());
		return;
	}
	if (!probe_remote(st, &l))
		return;
	buf_fmt(where, "%s%s %s", where->len ? "\n" : "", digest, l.depot);
	text = ask_depot(st, &l);
	if (text)
		buf_fmt(errors, "%s%s %s%s%s", errors->len ? "\n" : "", digest, l.depot,
			*text == ':' ? "" : ":", text);
}

void view_layers(const struct state *st, const struct spec *s, struct buf *where,
		 struct buf *errors)
{
	const char *digest;
	size_t i = 0;

	while ((digest = spec_next(s, "layer", &i)))
		look_at(st, digest, where, errors);
}
