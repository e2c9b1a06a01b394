#include "box/stream.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/fd.h"

#ifndef RWF_NOWAIT
#define RWF_NOWAIT 0x8
#endif

void stream_init(struct stream *s, int from, int to)
{
	struct stat sb;

	memset(s, 0, sizeof(*s));
	s->from = from;
	s->to = to;
	s->log = s->logdir = -1;
	s->regular = to >= 0 && !fstat(to, &sb) && S_ISREG(sb.st_mode);
}

static void close_from(struct stream *s)
{
	if (s->own_from)
		fd_close(&s->from);
	s->from = -1;
	s->eof = 1;
}

static void close_to(struct stream *s)
{
	if (s->own_to)
		fd_close(&s->to);
	s->to = -1;
	s->at = s->end = 0;
	s->whole = 0;
	buf_clear(&s->line);
}

void stream_free(struct stream *s)
{
	close_from(s);
	close_to(s);
	fd_close(&s->log);
	free(s->buf);
	buf_free(&s->line);
	s->buf = NULL;
}

int stream_busy(const struct stream *s)
{
	return s->whole || s->end > s->at;
}

short stream_wants(const struct stream *s, int *where)
{
	if (stream_busy(s)) {
		*where = s->to;
		return POLLOUT;
	}
	*where = s->from;
	return s->from >= 0 && !s->eof ? POLLIN : 0;
}

/* The log gets what the cap allows; that it cannot (a full disk) must not end the command. */
static void keep(struct stream *s, const char *p, size_t n)
{
	size_t k = n < s->keep ? n : (size_t)s->keep;

	s->bytes += n;
	if (s->logdir < 0)
		return;
	if (k && s->log < 0)
		s->log = openat(s->logdir, s->logname, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC,
				0600);
	if (k && (s->log < 0 || fd_write_all(s->log, p, k) < 0))
		s->keep = k = 0;
	s->keep -= k;
	s->truncated |= k < n;
}

/* Without blocking, and without O_NONBLOCK on a description that others share. */
static ssize_t write_some(const struct stream *s, const char *p, size_t n)
{
	struct iovec iov = {.iov_base = (void *)p, .iov_len = n};
	int fd = s->to;
	struct pollfd room = {.fd = fd, .events = POLLOUT};
	ssize_t k;

	if (s->regular)
		return write(fd, p, n);
	k = syscall(SYS_pwritev2, fd, &iov, 1L, -1L, -1L, RWF_NOWAIT);
	if (k >= 0 || (errno != EOPNOTSUPP && errno != EINVAL && errno != ESPIPE))
		return k;
	/* Named pipes and terminals know no RWF_NOWAIT. Where poll says there is room, there is a page
	 * of it (pipe(7), PIPE_BUF). */
	if (poll(&room, 1, 0) == 0) {
		errno = EAGAIN;
		return -1;
	}
	return write(fd, p, n < 4096 ? n : 4096);
}

/* The reader is gone: the command shall see it as it would in a plain pipe. */
static void give_up(struct stream *s)
{
	if (errno != EPIPE && errno != ECONNRESET)
		s->lost = errno;
	close_to(s);
	close_from(s);
}

/* Writes what there is room for: how much, 0 for nothing now, -1 when it is no use any more. */
static ssize_t put(struct stream *s, const char *p, size_t n)
{
	ssize_t k = write_some(s, p, n);

	if (k < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (k < 0)
		give_up(s);
	return k;
}

/* Moves bytes into `line` up to the next newline; 1 when the line is whole. */
static int next_line(struct stream *s)
{
	const char *p = s->buf + s->at, *nl = memchr(p, '\n', s->end - s->at);
	size_t n = nl ? (size_t)(nl - p + 1) : s->end - s->at;

	if (n && !s->line.len)
		buf_str(&s->line, s->prefix);
	buf_add(&s->line, p, n);
	s->at += n;
	if (s->at == s->end)
		s->at = s->end = 0;
	if (!nl && s->line.len <= STREAM_BUF)
		return 0;
	if (!nl)
		buf_chr(&s->line, '\n');
	return s->whole = 1;
}

/*
 * One write a line, so that the lines of boxes side by side do not mix; one that finds no room waits
 * in `line`.
 */
static void pass_lines(struct stream *s)
{
	while (s->whole || next_line(s)) {
		ssize_t k = put(s, s->line.p + s->sent, s->line.len - s->sent);

		if (k <= 0)
			return;
		s->sent += (size_t)k;
		if (s->sent < s->line.len)
			continue;
		buf_clear(&s->line);
		s->sent = 0;
		s->whole = 0;
	}
}

static void pass(struct stream *s)
{
	ssize_t k;

	if (s->to < 0) {
		s->at = s->end = 0;
		return;
	}
	if (s->prefix) {
		pass_lines(s);
		return;
	}
	k = put(s, s->buf + s->at, s->end - s->at);
	s->at += k > 0 ? (size_t)k : 0;
	if (s->at == s->end)
		s->at = s->end = 0;
}

/* Reads at most N bytes behind those it holds; the buffer has room for them. */
static void fill(struct stream *s, size_t n)
{
	ssize_t k = read(s->from, s->buf + s->end, n);

	if (k > 0) {
		keep(s, s->buf + s->end, (size_t)k);
		s->end += (size_t)k;
	} else if (k == 0 || (errno != EAGAIN && errno != EINTR)) {
		s->eof = 1;
	}
}

void stream_move(struct stream *s)
{
	if (!s->buf)
		s->buf = xmalloc(STREAM_BUF);
	if (!stream_busy(s) && s->from >= 0 && !s->eof)
		fill(s, STREAM_BUF);
	if (stream_busy(s))
		pass(s);
	if (s->eof && !stream_busy(s) && s->own_to)
		close_to(s);
}

void stream_last(struct stream *s)
{
	int left = 0;

	if (s->from < 0 || s->eof || ioctl(s->from, FIONREAD, &left) < 0 || left <= 0)
		return;
	s->buf = xrealloc(s->buf, s->end + (size_t)left);
	fill(s, (size_t)left);
}

static void flush(struct stream *s)
{
	while (stream_busy(s)) {
		struct pollfd p = {.fd = s->to, .events = POLLOUT};

		if (s->to >= 0 && !s->regular)
			poll(&p, 1, -1);
		pass(s);
	}
}

void stream_flush(struct stream *s)
{
	flush(s);
	if (s->line.len) { /* a last line without its newline */
		buf_chr(&s->line, '\n');
		s->whole = 1;
		flush(s);
	}
}
