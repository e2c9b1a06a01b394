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
#include "box/logview.h"
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

static void read_on(struct logview *p, struct log_reader *r)
{
	int n;

	do {
		autokv rec = {0};

		n = log_next(r, &rec);
		if (n < 0)
			die();
		if (n)
			logview_add(p, &rec);
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
	struct logview p = {.only = only, .raw = raw, .at_once = following};
	struct follow f = {-1, -1};
	struct log_reader r;
	int more = 1;

	if (following && follow_begin(st, id, only, &f) < 0)
		die();
	if (log_reader_open(st, id, &r) < 0)
		die();
	p.rec = rec_open(out_stream(), logview_cols, &recs);
	if (!p.rec)
		die();
	read_on(&p, &r);
	while (following && more) {
		more = follow_wait(&f);
		if (more < 0)
			die();
		read_on(&p, &r);
	}
	logview_flush(&p, 1);
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
