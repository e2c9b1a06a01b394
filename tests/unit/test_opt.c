#include <fcntl.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/die.h"
#include "base/fd.h"
#include "base/opt.h"
#include "tap.h"

static struct {
	int flag, verbose;
	const char *str;
	struct opt_list list;
	uint64_t count, size, time, cpus;
} o;

static const struct opt opts[] = {
	{'f', "flag", NULL, OPT_FLAG, &o.flag, "a flag"},
	{'v', NULL, NULL, OPT_FLAG, &o.verbose, "letter only"},
	{'s', "str", "TEXT", OPT_STR, &o.str, "a text"},
	{'e', "env", "K=V", OPT_LIST, &o.list, "a list"},
	{'n', "count", "COUNT", OPT_COUNT, &o.count, "a count"},
	{'m', "mem", "SIZE", OPT_SIZE, &o.size, "a size"},
	{'t', "time", "DURATION", OPT_DURATION, &o.time, "a duration"},
	{0, "cpus", "N", OPT_CPUS, &o.cpus, "long only"},
	{0},
};
static struct opt_tool tool = {.usage = "[-f] ID CMD...",
			       .purpose = "Test.",
			       .opts = opts,
			       .operands = -1,
			       .operand = "ID"};

static char *args[32];
static int nargs;

/* Parses the words of LINE (between blanks); returns the index of the first operand. */
static int parse(int operands, const char *line)
{
	static char copy[512];

	memset(&o, 0, sizeof(o));
	snprintf(copy, sizeof(copy), "tool %s", line);
	nargs = 0;
	for (char *save, *w = strtok_r(copy, " ", &save); w; w = strtok_r(NULL, " ", &save))
		args[nargs++] = w;
	args[nargs] = NULL;
	tool.operands = operands;
	return opt_parse(&tool, nargs, args);
}

/* The operands as one text. */
static const char *rest(int i)
{
	static struct buf b;

	buf_clear(&b);
	for (; i < nargs; i++)
		buf_fmt(&b, "%s%s", b.len ? " " : "", args[i]);
	return buf_cstr(&b);
}

static void forms(void)
{
	is_str(rest(parse(-1, "-n5 a")), "a", "-n5");
	is_num(o.count, 5, "-n5");
	is_str(rest(parse(-1, "-n 5 a")), "a", "-n 5");
	is_num(o.count, 5, "-n 5");
	parse(-1, "--count=5");
	is_num(o.count, 5, "--count=5");
	parse(-1, "--count 5");
	is_num(o.count, 5, "--count 5");
	is_str(rest(parse(-1, "-fvs x a")), "a", "-fvs x");
	ok(o.flag && o.verbose && !strcmp(o.str, "x"), "letters together");
	parse(-1, "--str=");
	is_str(o.str, "", "--str= is empty");
	parse(-1, "--str=a=b");
	is_str(o.str, "a=b", "the first = counts");
	parse(-1, "-s -f");
	is_str(o.str, "-f", "an argument may begin with a dash");
	parse(-1, "-e A=1 -eB=2 --env C=3");
	ok(o.list.n == 3 && !strcmp(o.list.v[1], "B=2"), "a list");
	parse(-1, "-m 1.5G -t 1h30m --cpus 0.5");
	ok(o.size == 1610612736 && o.time == 5400000 && o.cpus == 500, "typed values");
	parse(-1, "-n 1 -n 2");
	is_num(o.count, 2, "the last wins");
}

static void operands(void)
{
	is_str(rest(parse(-1, "a -f b -n 2 c")), "a b c", "options between operands");
	ok(o.flag && o.count == 2, "are taken");
	is_str(rest(parse(-1, "a -- -f b")), "a -f b", "-- ends options");
	ok(!o.flag, "what follows is none");
	is_str(rest(parse(-1, "-")), "-", "- is an operand");
	is_str(rest(parse(-1, "a - b")), "a - b", "also in the middle");
	is_str(rest(parse(1, "id -f ls -n 3")), "id ls -n 3",
	       "after one operand: options, then a command");
	ok(o.flag && !o.count, "the command keeps its options");
	is_str(rest(parse(1, "id -- -f x")), "id -f x", "-- before the command");
	is_str(rest(parse(1, "-f id ls -- -x")), "id ls -- -x", "-- after the command is its own");
	is_str(rest(parse(1, "- ls -l")), "- ls -l", "- as the operand");
	is_str(rest(parse(0, "cmd -f")), "cmd -f", "no operand: the first word is the command");
	is_str(rest(parse(0, "-f")), "", "nothing left");
	is_str(rest(parse(2, "a b")), "a b", "just operands");
	is_num(parse(-1, ""), 1, "no words at all");
}

static int refused(const char *line, const char *message)
{
	char out[1024];
	int p[2], status;
	ssize_t n;
	pid_t pid;

	if (pipe2(p, O_CLOEXEC) < 0)
		return 0;
	fflush(stdout);
	pid = fork();
	if (!pid) {
		dup2(p[1], 2);
		dup2(p[1], 1);
		parse(-1, line);
		_exit(99);
	}
	close(p[1]);
	n = fd_read_all(p[0], out, sizeof(out) - 1);
	out[n < 0 ? 0 : n] = 0;
	close(p[0]);
	waitpid(pid, &status, 0);
	if (!strstr(out, message))
		printf("# %s\n", out);
	return strstr(out, message) ? WEXITSTATUS(status) : -1;
}

static void errors(void)
{
	is_num(refused("-x", "no option '-x'"), EX_SBX, "an unknown letter");
	is_num(refused("--nope", "no option '--nope'"), EX_SBX, "an unknown word");
	is_num(refused("--coun 5", "no option '--coun'"), EX_SBX, "no abbreviations");
	is_num(refused("-n", "option '-n' needs an argument: COUNT"), EX_SBX, "a missing argument");
	is_num(refused("--count", "needs an argument"), EX_SBX, "likewise, long");
	is_num(refused("--flag=1", "takes no argument"), EX_SBX, "a surplus argument");
	is_num(refused("-n x", "-n 'x' is not a whole number"), EX_SBX, "a bad count");
	is_num(refused("-n 4294967296", "too large"), EX_SBX, "too large a count");
	is_num(refused("-m 1Q", "--mem"), -1, "the name shown is the one typed");
	is_num(refused("--help", "usage: tool [-f] ID CMD..."), 0, "--help");
	is_num(refused("-h", "-n, --count COUNT"), 0, "-h");
	is_num(refused("--version", "tool (sbx)"), 0, "--version");
	is_num(refused("--opts", "-e\t--env\tK=V\ta list\n"), 0, "--opts");
	is_num(refused("--opts", "-v\t-\t-\tletter only\n"), 0, "--opts, letter only");
	is_num(refused("--opts", "-\t--cpus\tN\tlong only\n"), 0, "--opts, long only");
	is_num(refused("--opts", "operand\tID\n"), 0, "--opts, the operand");
}

int main(void)
{
	forms();
	operands();
	errors();
	return done();
}
