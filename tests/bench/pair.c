/*
 * Times commands A and B alternately, pair by pair, so that a change in the machine's load meets
 * both. Reads nothing, prints one TSV record, leaves nothing behind but what the commands make.
 *
 *	pair [-n PAIRS] [-u UNITS] [-U UNITS] [-r RUNS] A... ::: B...
 *
 * A side is steps apart by ";" or "|". In a later step {} is the first line the first step printed;
 * {n} is a number used once. After "|" a step reads what the step before printed. A step starts
 *when the one before has ended, so the time of a side is the sum of its steps.
 */
#include "base/die.h"
#include "base/num.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_STEPS = 8, MAX_ARGS = 64, MAX_PAIRS = 10000, MAX_TEXT = 4096, WARM = 2 };

extern char **environ;

struct step {
	char *argv[MAX_ARGS + 1];
	int piped; /* its stdin is the output of the step before */
};

struct side {
	struct step step[MAX_STEPS];
	int steps;
	uint64_t units, runs; /* things made by one run; runs per pair */
	double *us;	      /* per pair: microseconds per unit */
	double *step_us[MAX_STEPS];
};

static uint64_t unique;

static int is_break(const char *arg)
{
	return !strcmp(arg, ";") || !strcmp(arg, "|");
}

/* Splits argv up to ":::" or its end into steps; returns how many arguments were taken. */
static int side_parse(struct side *side, char **argv)
{
	int i, args = 0;

	side->steps = 1;
	for (i = 0; argv[i] && strcmp(argv[i], ":::") != 0; i++) {
		if (is_break(argv[i])) {
			if (side->steps == MAX_STEPS || !args)
				dief(EX_SBX, "cannot use '%s': an empty step or too many", argv[i]);
			side->step[side->steps++].piped = argv[i][0] == '|';
			args = 0;
			continue;
		}
		if (args == MAX_ARGS)
			dief(EX_SBX, "cannot run '%s': too many arguments", argv[i]);
		side->step[side->steps - 1].argv[args++] = argv[i];
	}
	if (!args)
		dief(EX_SBX, "cannot measure: a command is missing; try -h");
	return i;
}

static void side_alloc(struct side *side, uint64_t pairs)
{
	side->us = calloc(pairs, sizeof(*side->us));
	for (int i = 0; i < side->steps; i++)
		side->step_us[i] = calloc(pairs, sizeof(double));
	for (int i = 0; i < side->steps; i++)
		if (!side->us || !side->step_us[i])
			dief(EX_SBX, "cannot allocate memory for the times");
}

/* Puts ID for {} and a fresh number for {n}; whole arguments or a part of one. */
static void expand(char *argv[], char text[MAX_TEXT], char *const from[], const char *id)
{
	char number[NUM_TEXT], *out = text, *end = text + MAX_TEXT;
	int i;

	snprintf(number, sizeof(number), "%ju", (uintmax_t)unique);
	for (i = 0; from[i]; i++) {
		const char *mark = strchr(from[i], '{'), *value = NULL;
		size_t skip = 0;

		if (mark && !strncmp(mark, "{}", 2))
			value = id, skip = 2;
		else if (mark && !strncmp(mark, "{n}", 3))
			value = number, skip = 3;
		argv[i] = from[i];
		if (!value)
			continue;
		argv[i] = out;
		out += snprintf(out, (size_t)(end - out), "%.*s%s%s", (int)(mark - from[i]),
				from[i], value, mark + skip) +
		       1;
		if (out >= end)
			dief(EX_SBX, "cannot run '%s': arguments too long", from[i]);
	}
	argv[i] = NULL;
}

static pid_t start(char *argv[], int in, int out)
{
	posix_spawn_file_actions_t act;
	pid_t pid;
	int err;

	posix_spawn_file_actions_init(&act);
	posix_spawn_file_actions_adddup2(&act, in, 0);
	posix_spawn_file_actions_adddup2(&act, out, 1);
	err = posix_spawnp(&pid, argv[0] ? argv[0] : "", &act, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&act);
	if (err)
		dief(EX_SBX, "cannot run '%s': %s", argv[0], strerror(err));
	return pid;
}

/* Runs one step to its end; returns its microseconds. A failed command ends the measurement. */
static uint64_t run_step(const struct step *step, const char *id, int in, int out)
{
	char *argv[MAX_ARGS + 1], text[MAX_TEXT];
	uint64_t begin;
	int status;
	pid_t pid;

	expand(argv, text, step->argv, id);
	if (lseek(in, 0, SEEK_SET) < 0 && errno != ESPIPE)
		dief(EX_SBX, "cannot rewind a step's input: %s", strerror(errno));
	begin = num_mono_us();
	pid = start(argv, in, out);
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			dief(EX_SBX, "cannot wait for '%s': %s", argv[0], strerror(errno));
	begin = num_mono_us() - begin;
	if (!WIFEXITED(status) || WEXITSTATUS(status))
		dief(EX_SBX, "cannot measure: '%s' ended with status %#x", argv[0], status);
	return begin;
}

static void first_line(int fd, char id[MAX_TEXT / 4])
{
	ssize_t n = pread(fd, id, MAX_TEXT / 4 - 1, 0);

	id[n > 0 ? n : 0] = '\0';
	id[strcspn(id, "\n")] = '\0';
}

/* Output goes to memory files: a pipe would fill, a real file would be timed too. */
static uint64_t run_once(const struct side *side, uint64_t step_us[MAX_STEPS])
{
	char id[MAX_TEXT / 4] = "";
	int out[MAX_STEPS], nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
	uint64_t sum = 0;

	unique++;
	for (int i = 0; i < side->steps; i++) {
		out[i] = memfd_create("step", MFD_CLOEXEC);
		if (nothing < 0 || out[i] < 0)
			dief(EX_SBX, "cannot make a file for output: %s", strerror(errno));
		step_us[i] = run_step(&side->step[i], id,
				      side->step[i].piped ? out[i - 1] : nothing, out[i]);
		sum += step_us[i];
		if (i == 0)
			first_line(out[0], id);
	}
	for (int i = 0; i < side->steps; i++)
		close(out[i]);
	close(nothing);
	return sum;
}

static void run_side(struct side *side, uint64_t pair)
{
	uint64_t step_us[MAX_STEPS], sum = 0;
	double units = (double)(side->units * side->runs);

	for (uint64_t run = 0; run < side->runs; run++) {
		sum += run_once(side, step_us);
		for (int i = 0; i < side->steps; i++)
			side->step_us[i][pair] += (double)step_us[i] / units;
	}
	side->us[pair] = (double)sum / units;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* The value below which PERCENT of V lie; sorts V. */
static double quantile(double *v, uint64_t n, unsigned percent)
{
	uint64_t at = (n - 1) * percent / 100;

	qsort(v, n, sizeof(*v), by_value);
	return n % 2 == 0 && percent == 50 ? (v[at] + v[at + 1]) / 2 : v[at];
}

static void print_steps(struct side *side, uint64_t pairs)
{
	for (int i = 0; i < side->steps; i++)
		printf("%s%.0f", i ? "+" : "\t", quantile(side->step_us[i], pairs, 50));
}

/* pairs a_us b_us ratio_of_medians median_of_ratios a_p90_us b_p90_us a_steps_us b_steps_us */
static void print(struct side *a, struct side *b, uint64_t pairs)
{
	double *ratio = calloc(pairs + 1, sizeof(*ratio));

	if (!ratio)
		dief(EX_SBX, "cannot allocate memory for the ratios");
	for (uint64_t i = 0; i < pairs; i++)
		ratio[i] = a->us[i] / b->us[i];
	double am = quantile(a->us, pairs, 50), bm = quantile(b->us, pairs, 50);
	printf("%ju\t%.0f\t%.0f\t%.4f\t%.4f\t%.0f\t%.0f", (uintmax_t)pairs, am, bm, am / bm,
	       quantile(ratio, pairs, 50), quantile(a->us, pairs, 90), quantile(b->us, pairs, 90));
	print_steps(a, pairs);
	print_steps(b, pairs);
	putchar('\n');
}

static void parse(int argc, char **argv, struct side *a, struct side *b, uint64_t *pairs)
{
	int opt, used;

	while ((opt = getopt(argc, argv, "+n:u:U:r:h")) != -1) {
		uint64_t *to = opt == 'n'   ? pairs
			       : opt == 'u' ? &a->units
			       : opt == 'U' ? &b->units
					    : &b->runs;

		if (opt == 'h' || opt == '?')
			dief(EX_SBX, "usage: pair [-n PAIRS] [-u UNITS] [-U UNITS] [-r RUNS] A... "
				     "::: B...");
		if (num_u64("count", optarg, MAX_PAIRS, to))
			die();
		if (!*to)
			dief(EX_SBX, "cannot use -%c 0", opt);
	}
	used = side_parse(a, argv + optind);
	if (!argv[optind + used])
		dief(EX_SBX, "cannot measure: no ':::' before the second command");
	side_parse(b, argv + optind + used + 1);
}

int main(int argc, char **argv)
{
	static struct side a = {.units = 1, .runs = 1}, b = {.units = 1, .runs = 1};
	uint64_t pairs = 20, ignored[MAX_STEPS];

	die_init(argv[0]);
	parse(argc, argv, &a, &b, &pairs);
	side_alloc(&a, pairs);
	side_alloc(&b, pairs);
	for (int i = 0; i < (a.units > 1 ? 1 : WARM); i++) {
		run_once(&a, ignored);
		run_once(&b, ignored);
	}
	for (uint64_t i = 0; i < pairs; i++) {
		run_side(i % 2 ? &b : &a, i);
		run_side(i % 2 ? &a : &b, i);
	}
	print(&a, &b, pairs);
	return finish(stdout);
}
