/*
 * sbx-exec: runs a command in one box, or the same command in each of many. It is the command's
 * parent and passes its streams; what it leaves is the command's record in the box's log. If it
 * dies the keeper ends the command, unless it was detached: then a process of its own stands in for
 * it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/die.h"
#include "base/fd.h"
#include "base/num.h"
#include "base/opt.h"
#include "base/rec.h"
#include "box/many.h"
#include "box/runner.h"

static struct opt_list env;
static struct command cmd = {.in = 0, .out = 1, .err = 2};
static const char *status_file;
static uint64_t status_fd = UINT64_MAX, max_output = UINT64_MAX;
static int prefix, no_stdin, bad;
static uint64_t jobs = 1;
static struct rec_opts rec_opts;
static struct rec *rec;

static const struct opt opts[] = {
	{'u', "user", "USER", OPT_STR, &cmd.user, "NAME|UID[:GROUP] in the box"},
	{'w', "workdir", "DIR", OPT_STR, &cmd.cwd, "directory to run it in"},
	{'e', "env", "K=V", OPT_LIST, &env, "one more variable; K takes the caller's"},
	{'t', "timeout", "DURATION", OPT_DURATION, &cmd.timeout_ms,
	 "end its whole tree after this time"},
	{'T', "tty", NULL, OPT_FLAG, &cmd.tty, "give it a terminal"},
	{'d', "detach", NULL, OPT_FLAG, &cmd.detach, "print its number and leave it running"},
	{0, "no-stdin", NULL, OPT_FLAG, &no_stdin,
	 "do not read standard input (in while-read loops)"},
	{0, "max-output", "SIZE", OPT_SIZE, &max_output, "how much of each stream the log keeps"},
	{0, "status", "FILE", OPT_STR, &status_file, "write the status record there"},
	{0, "status-fd", "FD", OPT_COUNT, &status_fd, "write it to this descriptor"},
	{'j', "jobs", "JOBS", OPT_COUNT, &jobs, "with '-': boxes at a time (1)"},
	{0, "prefix", NULL, OPT_FLAG, &prefix, "with '-': print output, the ID before each line"},
	REC_OPTIONS(rec_opts),
	{0},
};

static const struct opt_tool tool = {
	.usage = "[option]... ID|- [--] COMMAND [ARG]...",
	.purpose = "Runs a command in a box; with '-' in each box whose ID is read from stdin.",
	.opts = opts,
	.operands = 1,
	.operand = "ID",
};

/* Opened before the command runs: that it cannot be written should cost no work. */
static int open_status(void)
{
	int fd = -1;

	if (status_fd != UINT64_MAX) {
		fd = fcntl((int)status_fd, F_DUPFD_CLOEXEC, 3);
		if (fd < 0)
			dief(EX_SBX, "--status-fd %d is not open", (int)status_fd);
	} else if (status_file) {
		fd = open(status_file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
		if (fd < 0)
			dief(EX_SBX, "cannot create '%s': %s", status_file, strerror(errno));
	}
	return fd;
}

static int put_status(int fd, const struct outcome *o)
{
	autobuf b = BUF_INIT;

	if (fd < 0)
		return 0;
	outcome_status(o, &b);
	if (fd_write_all(fd, b.p, b.len) < 0 || close(fd) < 0) {
		warnf("cannot write the status record: %s", strerror(errno));
		return EX_SBX;
	}
	return 0;
}

static int run_one(const struct state *st, const char *id, int status)
{
	struct running *r = run_begin(st, id, &cmd);
	struct outcome o;
	int code;

	if (!r)
		die();
	if (run_command(r, &o) < 0)
		die();
	code = put_status(status, &o);
	if (o.end == END_BOX_DIED)
		warnf("box '%s' has ended under the command", id);
	if (o.end == END_TIMEOUT)
		warnf("the command was ended after its time limit");
	if (o.end == END_OOM)
		warnf("a process of the command was killed for memory");
	if (o.lost)
		warnf("cannot pass on the output of the command: %s", strerror(o.lost));
	return code ? code : outcome_exit_code(&o);
}

/*
 * A child in a session of its own becomes the command's parent; we wait only until it has the
 * command's number.
 */
static int run_detached(const struct state *st, const char *id, int status)
{
	struct outcome o;
	struct running *r;
	int p[2];
	uint64_t seq = 0;
	int failed;
	pid_t pid;

	cmd.in = cmd.out = cmd.err = -1;
	if (pipe2(p, O_CLOEXEC) < 0 || (pid = fork()) < 0)
		dief(EX_SBX, "cannot start a process: %s", strerror(errno));
	if (pid == 0) {
		setsid();
		r = run_begin(st, id, &cmd);
		if (!r)
			die();
		seq = run_seq(r);
		if (write(p[1], &seq, sizeof(seq)) != sizeof(seq))
			_exit(EX_SBX);
		close(p[1]);
		for (int fd = 0; fd < 3; fd++) {
			int null = open("/dev/null", O_RDWR | O_CLOEXEC);

			dup2(null, fd);
			close(null);
		}
		failed = run_command(r, &o) < 0;
		_exit(put_status(status, &o) || failed ? EX_SBX : 0);
	}
	close(p[1]);
	if (fd_read_all(p[0], &seq, sizeof(seq)) != sizeof(seq)) {
		int code = EX_SBX;

		waitpid(pid, &code, 0);
		return WIFEXITED(code) ? WEXITSTATUS(code) : EX_SBX;
	}
	printf("%llu\n", (unsigned long long)seq);
	return finish(stdout);
}

enum { C_ID, C_END, C_EXIT, C_CODE, C_SIGNAL, C_WALL, C_CPU, C_MEM, C_OUT, C_ERR, C_CUT, C_SEQ };

static const struct rec_col cols[] = {
	{"id", REC_TEXT, 0},
	{"end", REC_TEXT, 0},
	{"exit", REC_NUM, 0},
	{"code", REC_NUM, 0},
	{"signal", REC_NUM, 0},
	{"wall_ms", REC_MS, 0},
	{"cpu_ms", REC_MS, 0},
	{"mem_peak_bytes", REC_BYTES, 0},
	{"stdout_bytes", REC_BYTES, 0},
	{"stderr_bytes", REC_BYTES, 0},
	{"truncated", REC_NUM, 0},
	{"seq", REC_NUM, 0},
	{NULL, REC_TEXT, 0},
};

static int next_id(void *arg, char id[ID_MAX + 1])
{
	const char *word;

	while ((word = id_read(stdin))) {
		if (!state_resolve(arg, word, id))
			return 1;
		warn();
		bad = 1;
	}
	return 0;
}

static void one_done(void *arg, const char *id, const struct outcome *o)
{
	(void)arg;
	bad |= !o || outcome_exit_code(o);
	if (!o)
		warn();
	else if (o->lost)
		warnf("box '%s': cannot pass on the output of the command: %s", id,
		      strerror(o->lost));
	if (!rec)
		return;
	rec_text(rec, C_ID, id);
	rec_text(rec, C_END, o ? outcome_end_name(o->end) : "failed");
	rec_num(rec, C_EXIT, (uint64_t)(o ? outcome_exit_code(o) : fail_code()));
	if (o) {
		rec_num(rec, C_CODE, (uint64_t)o->code);
		rec_num(rec, C_SIGNAL, (uint64_t)o->signal);
		rec_num(rec, C_WALL, o->wall_ms);
		rec_num(rec, C_CPU, o->cpu_ms);
		rec_num(rec, C_MEM, o->mem_peak);
		rec_num(rec, C_OUT, o->stdout_bytes);
		rec_num(rec, C_ERR, o->stderr_bytes);
		rec_num(rec, C_CUT, (uint64_t)o->truncated);
		rec_num(rec, C_SEQ, o->seq);
	}
	rec_end(rec);
	fflush(stdout); /* a reader may act on each as it comes */
}

static int run_many(struct state *st)
{
	struct many m = {.st = st,
			 .cmd = &cmd,
			 .jobs = (unsigned)jobs,
			 .prefix = prefix,
			 .next = next_id,
			 .done = one_done,
			 .arg = st};
	int code = 0;

	if (jobs < 1 || jobs > 4096 || cmd.tty || cmd.detach || status_file ||
	    status_fd != UINT64_MAX)
		opt_misuse(
			"with '-', -j must be 1 to 4096, and -T, -d and --status cannot be given");
	if (!prefix && !(rec = rec_open(stdout, cols, &rec_opts)))
		die();
	many_run(&m);
	if (rec)
		code = rec_close(rec);
	return code ? code : bad ? EX_NO : 0;
}

int main(int argc, char **argv)
{
	char id[ID_MAX + 1];
	struct state st;
	int first = opt_parse(&tool, argc, argv), status;

	if (first >= argc)
		opt_misuse("needs a box: ID, or - to read IDs from stdin");
	if (first + 1 >= argc)
		opt_misuse("needs a command");
	if (cmd.tty && cmd.detach)
		opt_misuse("--tty and --detach do not go together");
	cmd.env = opt_env(&env);
	cmd.argv = argv + first + 1;
	if (state_open(&st, 0) < 0)
		die();
	cmd.max_output = max_output == UINT64_MAX ? st.conf.max_output : max_output;
	if (!strcmp(argv[first], "-"))
		return run_many(&st);
	if (no_stdin)
		cmd.in = -1;
	if (state_resolve(&st, argv[first], id) < 0)
		die();
	status = open_status();
	return cmd.detach ? run_detached(&st, id, status) : run_one(&st, id, status);
}
