#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "box/stream.h"
#include "tap.h"

static char dir[] = "/tmp/test_stream.XXXXXX";
static int dirfd_, in[2], out[2];

static void begin(struct stream *s, uint64_t keep, const char *log)
{
	if (pipe2(in, O_CLOEXEC) < 0 || pipe2(out, O_CLOEXEC) < 0)
		_exit(1);
	stream_init(s, in[0], out[1]);
	s->own_from = s->own_to = 1;
	s->logdir = dirfd_;
	s->keep = keep;
	snprintf(s->logname, sizeof(s->logname), "%s", log);
}

static void feed(const char *p, size_t n)
{
	ok(fd_write_all(in[1], p, n) == 0, "input");
}

static void finish(struct stream *s)
{
	int where;

	close(in[1]);
	while (stream_wants(s, &where))
		stream_move(s);
	stream_flush(s);
	stream_free(s);
}

static void says(int fd, const char *want, size_t n, const char *what)
{
	char text[256];
	ssize_t k = fd_read_all(fd, text, sizeof(text));

	ok(k == (ssize_t)n && !memcmp(text, want, n), what);
	close(fd);
}

static void exact(void)
{
	static const char bytes[] = "\xff\xe2\0\r\nlast";
	struct stream s;

	begin(&s, 1000, "exact");
	feed(bytes, 10);
	finish(&s);
	says(out[0], bytes, 10, "bytes pass as they are");
	is_num(s.bytes, 10, "and are counted");
	ok(!s.truncated, "and all kept");
	says(openat(dirfd_, "exact", O_RDONLY | O_CLOEXEC), bytes, 10, "in the log too");
}

static void capped(void)
{
	struct stream s;

	begin(&s, 4, "capped");
	feed("abcdefgh", 8);
	finish(&s);
	says(out[0], "abcdefgh", 8, "past the cap they still pass");
	ok(s.truncated, "the flag is set");
	says(openat(dirfd_, "capped", O_RDONLY | O_CLOEXEC), "abcd", 4,
	     "the log has what was allowed");
}

static void nothing(void)
{
	struct stream s;

	begin(&s, 4, "nothing");
	finish(&s);
	says(out[0], "", 0, "no byte, no output");
	is_num(faccessat(dirfd_, "nothing", F_OK, 0), -1, "and no file");
}

static void lines(void)
{
	struct stream s;

	begin(&s, 100, "lines");
	s.prefix = "id: ";
	s.own_to = 0; /* it goes to the caller's stdout, for many boxes */
	feed("one\ntw", 6);
	stream_move(&s);
	feed("o\n\nthree", 8);
	finish(&s);
	close(out[1]);
	says(out[0], "id: one\nid: two\nid: \nid: three\n", 31, "each line has its prefix, once");
}

/* The reader goes away: the writer shall get SIGPIPE or EPIPE, as in a plain pipe. */
static void broken(void)
{
	struct stream s;

	begin(&s, 100, "broken");
	close(out[0]);
	feed("x", 1);
	stream_move(&s);
	is_num(write(in[1], "y", 1), -1, "the writer sees that nobody reads");
	is_num(errno, EPIPE, "as a broken pipe");
	close(in[1]);
	stream_free(&s);
}

static void last(void)
{
	struct stream s;

	begin(&s, 100, "last");
	feed("end", 3);
	stream_last(&s);
	stream_flush(&s);
	/* The writer's end is still open, as a background process would hold it. */
	stream_free(&s);
	says(out[0], "end", 3, "what was there when the command ended is passed on");
	close(in[1]);
}

int main(void)
{
	signal(SIGPIPE, SIG_IGN);
	ok(mkdtemp(dir), "a directory");
	dirfd_ = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	exact();
	capped();
	nothing();
	lines();
	broken();
	last();
	fd_rmtree(AT_FDCWD, dir);
	return done();
}
