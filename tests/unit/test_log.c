#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/die.h"
#include "base/fd.h"
#include "store/log.h"
#include "tap.h"

static char seen[256];

static int note(void *arg, const struct kv *rec)
{
	size_t n = strlen(seen);

	(void)arg;
	snprintf(seen + n, sizeof(seen) - n, "%s:%s ", kv_str(rec, "seq", "?"),
		 kv_str(rec, "ev", "?"));
	return 0;
}

static int put(int fd, uint64_t seq, const char *ev, const char *key, const char *val)
{
	autobuf b = BUF_INIT;

	log_start(&b, seq, ev);
	if (key)
		kv_put_line(&b, key, val);
	return log_append(fd, &b);
}

static void raw(const char *dir, const char *text)
{
	char path[128];
	autofd fd = -1;

	snprintf(path, sizeof(path), "%s/n.a/log/records", dir);
	fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
	ok(fd_write_all(fd, text, strlen(text)) == 0, "bytes at the end of the log");
}

/* A limit on the size of files stands for a disk that is full in the middle of a record. */
static void full_disk(int fd)
{
	struct rlimit all, lim;
	struct stat sb;
	char big[4096];
	off_t before;
	int r;

	signal(SIGXFSZ, SIG_IGN);
	memset(big, 'x', sizeof(big) - 1);
	big[sizeof(big) - 1] = 0;
	fstat(fd, &sb);
	before = sb.st_size;
	getrlimit(RLIMIT_FSIZE, &all);
	lim = (struct rlimit){(rlim_t)before + 100, all.rlim_max};
	setrlimit(RLIMIT_FSIZE, &lim);
	r = put(fd, 3, "exec", "argv", big);
	setrlimit(RLIMIT_FSIZE, &all);
	is_num(r, -1, "a record that does not fit is an error");
	fstat(fd, &sb);
	is_num(sb.st_size, before, "and no part of it stays");
}

int main(void)
{
	char dir[] = "/tmp/test_log.XXXXXX";
	struct state st = {.conf = {.state = dir}};
	autokv rec = {0};
	int fd, box;

	ok(mkdtemp(dir), "a directory");
	st.box = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	is_num(log_each(&st, "n.a", note, NULL), 0, "a box without a log has no records");
	box = fd_dir(st.box, "n.a", 1);
	fd = log_open_append(box);
	ok(fd >= 0, "a log");
	is_num(put(fd, 0, "create", NULL, NULL), 0, "a record");
	is_num(put(fd, 1, "exec", "argv", "a\tb\nc\\"), 0, "one with odd bytes");
	is_num(log_find_end(&st, "n.a", 1, &rec), 0, "its end is not there yet");
	is_num(put(fd, 2, "exec", NULL, NULL), 0, "another begins");
	is_num(put(fd, 1, "end", "end", "exit"), 0, "the first ends");
	is_num(log_find_end(&st, "n.a", 1, &rec), 1, "its end is found");
	is_str(kv_str(&rec, "end", ""), "exit", "with what it says");
	is_num(log_find_end(&st, "n.a", 2, &rec), 0, "the other's is not");
	full_disk(fd);
	is_num(put(fd, 2, "end", "end", "signal"), 0, "the next record");
	is_num(log_each(&st, "n.a", note, NULL), 0, "and all can be read");
	is_str(seen, "0:create 1:exec 2:exec 1:end 2:end ", "in their order");
	raw(dir, "seq=9\tev=to");
	seen[0] = 0;
	is_num(log_each(&st, "n.a", note, NULL), 0, "a torn last line is no error");
	is_str(seen, "0:create 1:exec 2:exec 1:end 2:end ", "and no record");
	fd_rmtree(AT_FDCWD, dir);
	return done();
}
