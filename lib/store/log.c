#include "store/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/die.h"
#include "base/fd.h"
#include "base/num.h"

int log_open_append(int boxdir)
{
	int fd;

	if (mkdirat(boxdir, "log", 0700) < 0 && errno != EEXIST)
		return fail("cannot make directory 'log'");
	fd = openat(boxdir, "log/records", O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
	return fd < 0 ? fail("cannot open 'log/records'") : fd;
}

void log_start(struct buf *b, uint64_t seq, const char *ev)
{
	buf_clear(b);
	kv_put_num(b, "seq", seq);
	kv_put_line(b, "ev", ev);
	kv_put_num(b, "time_ms", num_now_ms());
}

int log_append(int fd, struct buf *b)
{
	struct stat sb;
	ssize_t n;

	buf_chr(b, '\n');
	n = write(fd, b->p, b->len);
	if (n == (ssize_t)b->len)
		return 0;
	/* A full disk took a part: the next record must not begin in the middle of this one. */
	if (n > 0 && (fstat(fd, &sb) < 0 || ftruncate(fd, sb.st_size - n) < 0))
		return fail("cannot mend the box's log");
	errno = n < 0 ? errno : ENOSPC;
	return fail("cannot write the box's log");
}

int log_reader_open(const struct state *st, const char *id, struct log_reader *r)
{
	char path[ID_MAX + 16];

	memset(r, 0, sizeof(*r));
	snprintf(path, sizeof(path), "%s/log/records", id);
	r->fd = openat(st->box, path, O_RDONLY | O_CLOEXEC);
	return r->fd < 0 ? fail("cannot open the log of '%s'", id) : 0;
}

void log_reader_close(struct log_reader *r)
{
	fd_close(&r->fd);
	buf_free(&r->b);
}

enum { READ_STEP = 16 * 1024 };

int log_next(struct log_reader *r, struct kv *rec)
{
	for (;;) {
		const char *line = buf_cstr(&r->b) + r->at;
		const char *nl = memchr(line, '\n', r->b.len - r->at);
		ssize_t n;

		if (nl) {
			r->at += (size_t)(nl + 1 - line);
			return kv_parse_line(rec, "log", line, (size_t)(nl - line)) < 0 ? -1 : 1;
		}
		if (r->at && r->b.p) {
			memmove(r->b.p, line, r->b.len - r->at);
			r->b.len -= r->at;
			r->at = 0;
		}
		n = read(r->fd, buf_room(&r->b, READ_STEP), READ_STEP);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? fail("cannot read a box's log") : 0;
		r->b.len += (size_t)n;
	}
}

int log_each(const struct state *st, const char *id, int (*fn)(void *arg, const struct kv *rec),
	     void *arg)
{
	struct log_reader rd;
	int r = log_reader_open(st, id, &rd);

	if (r < 0)
		return errno == ENOENT ? 0 : -1;
	while (!r) {
		autokv rec = {0};

		r = log_next(&rd, &rec);
		if (r <= 0)
			break;
		r = fn(arg, &rec);
	}
	log_reader_close(&rd);
	return r;
}

static int count_record(void *arg, const struct kv *rec)
{
	struct log_tally *t = arg;
	const char *ev = kv_str(rec, "ev", "");

	t->begun += !strcmp(ev, "exec");
	t->ended += !strcmp(ev, "end");
	t->last_ms = kv_u64(rec, "time_ms", t->last_ms);
	return 0;
}

int log_count(const struct state *st, const char *id, struct log_tally *t)
{
	memset(t, 0, sizeof(*t));
	return log_each(st, id, count_record, t);
}

struct find {
	uint64_t seq;
	struct kv *rec;
};

static int match_end(void *arg, const struct kv *rec)
{
	struct find *f = arg;

	if (kv_u64(rec, "seq", UINT64_MAX) != f->seq || strcmp(kv_str(rec, "ev", ""), "end") != 0)
		return 0;
	/* Take the record over: the walk's own copy is freed empty. */
	kv_free(f->rec);
	*f->rec = *rec;
	memset((struct kv *)rec, 0, sizeof(*rec));
	return 1;
}

int log_find_end(const struct state *st, const char *id, uint64_t seq, struct kv *rec)
{
	struct find f = {.seq = seq, .rec = rec};

	return log_each(st, id, match_end, &f);
}
