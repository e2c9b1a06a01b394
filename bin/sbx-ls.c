/*
 * sbx-ls: lists the boxes of this node, one record each, in the order of their making. Reads the
 * state directory alone: it asks no process, so a box that hangs does not hold it up. Changes
 * nothing.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/die.h"
#include "base/num.h"
#include "base/opt.h"
#include "base/rec.h"
#include "box/view.h"

enum {
	C_ID,
	C_NAME,
	C_STATE,
	C_IMAGE,
	C_CREATED,
	C_AGE,
	C_TTL,
	C_LABELS,
	C_CAUSE,
	C_PID,
	C_MEM,
	C_CPU,
	C_PIDS,
	C_HOST,
	C_NET,
	C_USER,
	C_WORKDIR,
	C_SLOT,
	C_DIGEST,
	C_SINCE,
	C_WORKSPACE,
	C_TOOLKITS,
};

static const struct rec_col cols[] = {
	{"id", REC_TEXT, 0},	    {"name", REC_TEXT, 0},	 {"state", REC_TEXT, 0},
	{"image", REC_TEXT, 0},	    {"created", REC_TIME, 0},	 {"age_ms", REC_MS, 0},
	{"ttl_left_ms", REC_MS, 0}, {"labels", REC_TEXT, 0},	 {"cause", REC_TEXT, 0},
	{"pid", REC_NUM, 1},	    {"mem_bytes", REC_BYTES, 1}, {"cpu_milli", REC_NUM, 1},
	{"pids", REC_NUM, 1},	    {"hostname", REC_TEXT, 1},	 {"net", REC_TEXT, 1},
	{"user", REC_TEXT, 1},	    {"workdir", REC_TEXT, 1},	 {"slot", REC_NUM, 1},
	{"digest", REC_TEXT, 1},    {"since", REC_TIME, 1},	 {"workspace", REC_TEXT, 1},
	{"toolkits", REC_TEXT, 1},  {NULL, REC_TEXT, 0},
};

static struct opt_list states, labels;
static const char *image;
static int quiet;
static struct rec_opts recs;

static const struct opt opts[] = {
	{'s', "state", "creating|running|stopping|dead", OPT_LIST, &states,
	 "only boxes in this state (any of those given)"},
	{'l', "label", "K[=V]", OPT_LIST, &labels, "only boxes with this label (all those given)"},
	{'i', "image", "IMAGE", OPT_STR, &image, "only boxes made from this image"},
	{'q', "quiet", NULL, OPT_FLAG, &quiet, "print IDs only"},
	REC_OPTIONS(recs),
	{0},
};

static const struct opt_tool tool = {
	.usage = "[option]... [ID|NAME]...",
	.purpose = "Lists the boxes of this node, the oldest first.",
	.opts = opts,
	.operands = -1,
	.operand = "ID",
};

struct list {
	char **words;
	int nwords;
	unsigned char *met; /* for each word: something fitted it */
	int whole;	    /* all words are whole IDs: nothing but the ID need be looked at */
	uint64_t now;
	struct rec *rec;
};

static void check_options(void)
{
	for (size_t i = 0; i < states.n; i++) {
		int s = BOX_CREATING;

		while (s <= BOX_DEAD && strcmp(states.v[i], box_state_name(s)) != 0)
			s++;
		if (s > BOX_DEAD)
			opt_misuse("--state '%s' is none of creating, running, stopping, dead",
				   states.v[i]);
	}
	for (size_t i = 0; i < labels.n; i++)
		if (!*labels.v[i] || labels.v[i][0] == '=')
			opt_misuse("--label '%s' is not K or K=V", labels.v[i]);
	if (quiet && (recs.cols || recs.json))
		opt_misuse("--quiet goes neither with --cols nor with --json");
}

/* A word fits the box's ID, the start of its tail, or (if V is there) its name. */
static int fits(const char *word, const char *id, const struct view *v)
{
	return !strcmp(word, id) || !strncmp(id_tail(id), word, strlen(word)) ||
	       (v && v->known && !strcmp(word, v->spec.name));
}

static int wanted(struct list *l, const char *id, const struct view *v)
{
	int any = !l->nwords;

	for (int i = 0; i < l->nwords; i++)
		if (*l->words[i] && fits(l->words[i], id, v))
			any = l->met[i] = 1;
	return any;
}

static int passes(const struct view *v)
{
	int ok = !states.n;

	for (size_t i = 0; i < states.n; i++)
		ok |= !strcmp(states.v[i], box_state_name(v->state));
	for (size_t i = 0; ok && i < labels.n; i++)
		ok = view_has_label(v, labels.v[i]);
	return ok && (!image || view_has_image(v, image));
}

static void put_limit(struct rec *r, int col, uint64_t v)
{
	if (v)
		rec_num(r, col, v);
}

static void put_toolkits(struct rec *r, const struct spec *s)
{
	autobuf b = BUF_INIT;
	const char *t;
	size_t i = 0;

	while ((t = spec_next(s, "toolkit", &i)))
		buf_fmt(&b, "%s%s", b.len ? "," : "", t);
	rec_text(r, C_TOOLKITS, b.len ? b.p : NULL);
}

static void put_spec(struct rec *r, const struct view *v, uint64_t now)
{
	const struct spec *s = &v->spec;
	autobuf text = BUF_INIT;

	view_labels(v, &text);
	rec_text(r, C_NAME, *s->name ? s->name : NULL);
	rec_text(r, C_IMAGE, s->image);
	rec_num(r, C_CREATED, s->created_ms);
	rec_num(r, C_AGE, now > s->created_ms ? now - s->created_ms : 0);
	rec_text(r, C_LABELS, text.len ? text.p : NULL);
	put_limit(r, C_MEM, s->mem_bytes);
	put_limit(r, C_CPU, s->cpu_milli);
	put_limit(r, C_PIDS, s->pids);
	rec_text(r, C_HOST, s->hostname);
	rec_text(r, C_NET, s->net);
	rec_text(r, C_USER, *s->user ? s->user : NULL);
	rec_text(r, C_WORKDIR, *s->workdir ? s->workdir : NULL);
	rec_num(r, C_SLOT, s->slot);
	rec_text(r, C_DIGEST, s->image_digest);
	rec_text(r, C_WORKSPACE, kv_get(&s->kv, "workspace"));
	put_toolkits(r, s);
}

static void print(struct list *l, const struct view *v)
{
	struct rec *r = l->rec;
	int64_t left = view_ttl_left(v, l->now);

	if (quiet) {
		printf("%s%c", v->id, recs.nul ? 0 : '\n');
		return;
	}
	if (v->known)
		put_spec(r, v, l->now);
	rec_text(r, C_ID, v->id);
	rec_text(r, C_STATE, box_state_name(v->state));
	rec_text(r, C_CAUSE, view_cause(v));
	if (left >= 0)
		rec_num(r, C_TTL, (uint64_t)left);
	put_limit(r, C_PID, v->pid);
	put_limit(r, C_SINCE, v->since_ms);
	rec_end(r);
}

/* 0, or -1 after a warning: a box that cannot be read whole is listed with what is known. */
static int list_one(struct list *l, const struct state *st, const char *id)
{
	autoview v = {.known = 0};
	int r;

	if (l->whole && !wanted(l, id, NULL))
		return 0;
	r = view_load(st, id, &v);
	if (r < 0)
		warn();
	if (r && wanted(l, id, &v) && passes(&v))
		print(l, &v);
	return r < 0 ? -1 : 0;
}

int main(int argc, char **argv)
{
	char(*ids)[ID_MAX + 1];
	struct list l = {.whole = 1};
	struct state st;
	int first = opt_parse(&tool, argc, argv), code = 0, r;
	size_t n;

	check_options();
	l.words = argv + first;
	l.nwords = argc - first;
	l.met = xcalloc((size_t)l.nwords + 1, 1);
	for (int i = 0; i < l.nwords; i++)
		l.whole &= id_valid(l.words[i]);
	if (quiet)
		recs.header = 0;
	if (state_open(&st, 0) < 0 || view_ids(&st, &ids, &n) < 0)
		die();
	l.rec = rec_open(stdout, cols, &recs);
	if (!l.rec)
		die();
	l.now = num_now_ms();
	for (size_t i = 0; i < n; i++)
		if (list_one(&l, &st, ids[i]) < 0)
			code = EX_NO;
	r = rec_close(l.rec);
	for (int i = 0; i < l.nwords; i++)
		if (!l.met[i]) {
			warnf("no box '%s' on this node", l.words[i]);
			code = EX_NO;
		}
	return r ? r : code;
}
