/*
 * sbx-log: prints the log of a box, or what was kept of a command's output. Reads the state
 * directory, so it works for a dead box until that is reaped; with -f it also asks the keeper to
 * say when it is over. Changes nothing.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/die.h"
#include "base/fd.h"
#include "base/num.h"
#include "base/opt.h"
#include "base/rec.h"
#include "box/follow.h"
#include "store/log.h"

static int want_out, want_err, following, raw;
static struct rec_opts recs;

static const struct opt opts[] = {
	{0, "stdout", NULL, OPT_FLAG, &want_out, "the bytes kept of the command's standard output"},
	{0, "stderr", NULL, OPT_FLAG, &want_err, "the bytes kept of its standard error"},
	{'f', "follow", NULL, OPT_FLAG, &following,
	 "go on until the box, or the command, has ended"},
	{0, "raw", NULL, OPT_FLAG, &raw, "one record an event, not one a command"},
	REC_OPTIONS(recs),
	{0},
};

static const struct opt_tool tool = {
	.usage = "[option]... ID [NUMBER]",
	.purpose = "Prints the log of a box, of command NUMBER alone, or that command's output.",
	.opts = opts,
	.operands = -1,
	.operand = "ID",
};

static const struct rec_col cols[] = {
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

/* A command's record that waits for its end. */
struct command {
	struct kv begin, end;
};

struct printer {
	struct rec *rec;
	uint64_t only; /* this command alone; 0: all */
	struct command *v;
	size_t first, n; /* those before first are printed */
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

static void print(struct printer *p, const struct kv *begin, const struct kv *end)
{
	for (int i = 0; cols[i].name; i++) {
		const struct kv_pair *pair = find(begin, keys[i]);

		if (!pair && end)
			pair = find(end, keys[i]);
		if (!pair || !pair->len)
			continue;
		if (!strcmp(keys[i], "argv"))
			put_argv(p->rec, i, begin);
		else if (cols[i].type == REC_TEXT)
			rec_text(p->rec, i, pair->val);
		else
			rec_num(p->rec, i, strtoull(pair->val, NULL, 10));
	}
	rec_end(p->rec);
}

static void print_command(struct printer *p, struct command *c)
{
	print(p, &c->begin, &c->end);
	kv_free(&c->begin);
	kv_free(&c->end);
}

/* In the order of their beginnings; ALL: those that have not ended too. */
static void print_ended(struct printer *p, int all)
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

static void keep(struct printer *p, struct kv *rec)
{
	if (!(p->n & (p->n - 1)))
		p->v = xrealloc(p->v, (p->n ? p->n * 2 : 1) * sizeof(*p->v));
	memset(&p->v[p->n], 0, sizeof(*p->v));
	take(&p->v[p->n++].begin, rec);
}

static void match(struct printer *p, struct kv *rec)
{
	uint64_t seq = kv_u64(rec, "seq", 0);

	for (size_t i = p->n; i-- > p->first;)
		if (p->v[i].begin.n && kv_u64(&p->v[i].begin, "seq", 0) == seq) {
			take(&p->v[i].end, rec);
			/* Who follows wants to see an end when it comes. */
			if (following)
				print_command(p, &p->v[i]);
			return;
		}
}

/* A record that is no command's is whole at once, but keeps its place among those that wait. */
static void add(struct printer *p, struct kv *rec)
{
	const char *ev = kv_str(rec, "ev", "");
	int is_end = !strcmp(ev, "end");

	if (p->only && (kv_u64(rec, "seq", 0) != p->only || (!is_end && strcmp(ev, "exec") != 0)))
		return;
	if (raw || (following && !is_end && strcmp(ev, "exec") != 0)) {
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
	print_ended(p, 0);
}

static void read_on(struct printer *p, struct log_reader *r)
{
	int n;

	do {
		autokv rec = {0};

		n = log_next(r, &rec);
		if (n < 0)
			die();
		if (n)
			add(p, &rec);
	} while (n);
	fflush(stdout);
}

/* Records that come one by one cannot be aligned; a terminal still must not be driven by them. */
static ssize_t write_plain(void *cookie, const char *s, size_t n)
{
	(void)cookie;
	for (size_t i = 0; i < n; i++)
		if (putchar((unsigned char)s[i] < 0x20 && !strchr("\t\n", s[i]) ? '?' : s[i]) < 0)
			return 0;
	return fflush(stdout) ? 0 : (ssize_t)n;
}

static FILE *out_stream(void)
{
	cookie_io_functions_t io = {.write = write_plain};
	FILE *f;

	if (!following || recs.json || recs.nul || !isatty(STDOUT_FILENO))
		return stdout;
	recs.header = 1;
	f = fopencookie(NULL, "w", io);
	if (!f)
		dief(EX_SBX, "cannot open the output: %s", strerror(errno));
	setvbuf(f, NULL, _IOLBF, 0);
	return f;
}

static int print_records(const struct state *st, const char *id, uint64_t only)
{
	struct printer p = {.only = only};
	struct follow f = {-1, -1};
	struct log_reader r;
	int more = 1;

	if (following && follow_begin(st, id, only, &f) < 0)
		die();
	if (log_reader_open(st, id, &r) < 0)
		die();
	p.rec = rec_open(out_stream(), cols, &recs);
	if (!p.rec)
		die();
	read_on(&p, &r);
	while (following && more) {
		more = follow_wait(&f);
		if (more < 0)
			die();
		read_on(&p, &r);
	}
	print_ended(&p, 1);
	follow_end(&f);
	log_reader_close(&r);
	if (only && !p.n && !raw)
		dief(EX_SBX, "box '%s' has no command %llu", id, (unsigned long long)only);
	return rec_close(p.rec);
}

/* Bytes that are there now; the file comes with the first of them. */
static void copy_on(const struct state *st, const char *path, int *fd)
{
	char b[16 * 1024];
	ssize_t n;

	if (*fd < 0)
		*fd = openat(st->box, path, O_RDONLY | O_CLOEXEC);
	if (*fd < 0 && errno != ENOENT)
		dief(EX_SBX, "cannot open '%s': %s", path, strerror(errno));
	while (*fd >= 0 && (n = read(*fd, b, sizeof(b))) > 0)
		if (fd_write_all(STDOUT_FILENO, b, (size_t)n) < 0)
			dief(EX_SBX, "cannot write the output: %s", strerror(errno));
}

struct seen {
	uint64_t seq;
	int begun, cut;
};

static int look(void *arg, const struct kv *rec)
{
	struct seen *s = arg;

	if (kv_u64(rec, "seq", 0) == s->seq) {
		s->begun |= !strcmp(kv_str(rec, "ev", ""), "exec");
		s->cut |= kv_u64(rec, "truncated", 0) != 0;
	}
	return 0;
}

static int print_output(const struct state *st, const char *id, uint64_t seq)
{
	autofree char *path =
		xasprintf("%s/log/%llu.%s", id, (unsigned long long)seq, want_out ? "out" : "err");
	struct follow f = {-1, -1};
	struct seen s = {.seq = seq};
	autofd fd = -1;
	int more = 1;

	if (log_each(st, id, look, &s) < 0)
		die();
	if (!s.begun)
		dief(EX_SBX, "box '%s' has no command %llu", id, (unsigned long long)seq);
	if (following && follow_begin(st, id, seq, &f) < 0)
		die();
	copy_on(st, path, &fd);
	while (following && more) {
		more = follow_wait(&f);
		if (more < 0)
			die();
		copy_on(st, path, &fd);
	}
	follow_end(&f);
	if (log_each(st, id, look, &s) < 0)
		die();
	if (s.cut)
		warnf("not all of the output of command %llu was kept", (unsigned long long)seq);
	return 0;
}

int main(int argc, char **argv)
{
	char id[ID_MAX + 1];
	struct state st;
	int first = opt_parse(&tool, argc, argv), n = argc - first;
	uint64_t seq = 0;

	if (n < 1 || n > 2)
		opt_misuse("needs one box, and at most one number of a command");
	if (n == 2 && (num_u64("command", argv[first + 1], UINT64_MAX, &seq) < 0 || !seq))
		opt_misuse("'%s' is not the number of a command", argv[first + 1]);
	if ((want_out || want_err) && (!seq || want_out == want_err))
		opt_misuse("--stdout or --stderr needs the number of a command");
	if (state_open(&st, 0) < 0 || state_resolve(&st, argv[first], id) < 0)
		die();
	return want_out || want_err ? print_output(&st, id, seq) : print_records(&st, id, seq);
}
