#include "box/logview.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

const struct rec_col logview_cols[] = {
	{"seq", REC_NUM, 0},
	{"ev", REC_TEXT, 0},
	{"time", REC_TIME, 0},
	{"end", REC_TEXT, 0},
	{"code", REC_NUM, 0},
	{"signal", REC_NUM, 0},
	{"wall_ms", REC_MS, 0},
	{"cpu_ms", REC_MS, 0},
	{"mem_peak_bytes", REC_BYTES, 0},
	{"stdout_bytes", REC_BYTES, 0},
	{"stderr_bytes", REC_BYTES, 0},
	{"truncated", REC_NUM, 0},
	{"user", REC_TEXT, 0},
	{"cwd", REC_TEXT, 0},
	{"argv", REC_TEXT, 0},
	{"cause", REC_TEXT, 0},
	{"detach", REC_NUM, 1},
	{"tty", REC_NUM, 1},
	{"by", REC_NUM, 1},
	{"what", REC_TEXT, 1},
	{"path", REC_TEXT, 1},
	{NULL, REC_TEXT, 0},
};

/* The log's name of each column. */
static const char *const keys[] = {
	"seq",	  "ev",	      "time_ms",      "end",	      "code",	   "signal", "wall_ms",
	"cpu_ms", "mem_peak", "stdout_bytes", "stderr_bytes", "truncated", "user",   "cwd",
	"argv",	  "cause",    "detach",	      "tty",	      "by",	   "what",   "path",
};

static const struct kv_pair *find(const struct kv *kv, const char *key)
{
	for (size_t i = kv->n; i--;)
		if (!strcmp(kv->pair[i].key, key))
			return &kv->pair[i];
	return NULL;
}

static void quote(struct buf *b, const char *word)
{
	static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
				    "0123456789@%_+=:,./-";

	if (*word && word[strspn(word, plain)] == 0) {
		buf_str(b, word);
		return;
	}
	buf_chr(b, '\'');
	for (; *word; word++)
		if (*word == '\'')
			buf_str(b, "'\\''");
		else
			buf_chr(b, *word);
	buf_chr(b, '\'');
}

/* As one would type it in a shell; what the log cut off shows as "...". */
static void put_argv(struct rec *rec, int col, const struct kv *kv)
{
	const struct kv_pair *p = find(kv, "argv");
	autobuf b = BUF_INIT;

	if (!p)
		return;
	for (size_t at = 0; at <= p->len; at += strlen(p->val + at) + 1) {
		if (at)
			buf_chr(&b, ' ');
		quote(&b, p->val + at);
	}
	if (kv_get(kv, "argv_cut"))
		buf_str(&b, " ...");
	rec_text(rec, col, b.p);
}

static void print(struct logview *p, const struct kv *begin, const struct kv *end)
{
	for (int i = 0; logview_cols[i].name; i++) {
		const struct kv_pair *pair = find(begin, keys[i]);

		if (!pair && end)
			pair = find(end, keys[i]);
		if (!pair || !pair->len)
			continue;
		if (!strcmp(keys[i], "argv"))
			put_argv(p->rec, i, begin);
		else if (logview_cols[i].type == REC_TEXT)
			rec_text(p->rec, i, pair->val);
		else
			rec_num(p->rec, i, strtoull(pair->val, NULL, 10));
	}
	rec_end(p->rec);
}

static void print_command(struct logview *p, struct logview_command *c)
{
	print(p, &c->begin, &c->end);
	kv_free(&c->begin);
	kv_free(&c->end);
}

void logview_flush(struct logview *p, int all)
{
	while (p->first < p->n && (all || p->v[p->first].end.n || !p->v[p->first].begin.n)) {
		if (p->v[p->first].begin.n)
			print_command(p, &p->v[p->first]);
		p->first++;
	}
}

static void take(struct kv *to, struct kv *from)
{
	*to = *from;
	memset(from, 0, sizeof(*from));
}

static void keep(struct logview *p, struct kv *rec)
{
	if (!(p->n & (p->n - 1)))
		p->v = xrealloc(p->v, (p->n ? p->n * 2 : 1) * sizeof(*p->v));
	memset(&p->v[p->n], 0, sizeof(*p->v));
	take(&p->v[p->n++].begin, rec);
}

static void match(struct logview *p, struct kv *rec)
{
	uint64_t seq = kv_u64(rec, "seq", 0);

	for (size_t i = p->n; i-- > p->first;)
		if (p->v[i].begin.n && kv_u64(&p->v[i].begin, "seq", 0) == seq) {
			take(&p->v[i].end, rec);
			/* Who follows wants to see an end when it comes. */
			if (p->at_once)
				print_command(p, &p->v[i]);
			return;
		}
}

/* A record that is no command's is whole at once, but keeps its place among those that wait. */
void logview_add(struct logview *p, struct kv *rec)
{
	const char *ev = kv_str(rec, "ev", "");
	int is_end = !strcmp(ev, "end");

	if (p->only && (kv_u64(rec, "seq", 0) != p->only || (!is_end && strcmp(ev, "exec") != 0)))
		return;
	if (p->raw || (p->at_once && !is_end && strcmp(ev, "exec") != 0)) {
		print(p, rec, NULL);
		return;
	}
	if (is_end) {
		match(p, rec);
	} else {
		keep(p, rec);
		if (strcmp(ev, "exec") != 0)
			kv_parse_line(&p->v[p->n - 1].end, "log", "whole=1", 7);
	}
	logview_flush(p, 0);
}
