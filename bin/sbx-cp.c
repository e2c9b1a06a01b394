/*
 * sbx-cp: copies files and trees into a box or out of it. Reads one side, writes the other; the
 * box's log gets a record. If it dies half-way, what was copied stays: a single file is there whole
 * or not at all, and one that was under way in a tree may be left under a name .sbx-cp-*.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/die.h"
#include "base/opt.h"
#include "box/copy.h"

static struct copy copy = {.max_size = UINT64_MAX, .say = warn};

static const struct opt opts[] = {
	{0, "owner", "USER", OPT_STR, &copy.owner,
	 "owner of what is copied in, NAME|UID[:GROUP] in the box (the box's user)"},
	{'L', "follow", NULL, OPT_FLAG, &copy.follow,
	 "a SRC that is a link: copy what it leads to"},
	{0, "max-size", "SIZE", OPT_SIZE, &copy.max_size, "stop after this much content"},
	{'v', "verbose", NULL, OPT_FLAG, &copy.verbose, "name each file on stderr"},
	{'q', "quiet", NULL, OPT_FLAG, &copy.quiet, "do not name what was left out"},
	{0},
};

static const struct opt_tool tool = {
	.usage = "[option]... SRC... DST   (one side is ID:PATH; '-' is a tar stream)",
	.purpose = "Copies files and trees into a box or out of it.",
	.opts = opts,
	.operands = -1,
	.operand = "FILE",
};

/* The colon of ID:PATH; NULL if ARG is a path of the node, such as ./a:b. */
static char *split(char *arg)
{
	char *colon = strchr(arg, ':');

	return colon && colon != arg && !memchr(arg, '/', (size_t)(colon - arg)) ? colon : NULL;
}

/* Takes the box off ID:PATH, which stays in ARG; all must be of one box. */
static const char *take_path(char *arg, const char **box)
{
	char *colon = split(arg);

	if (!colon)
		opt_misuse("'%s' is not ID:PATH as the others are", arg);
	*colon = 0;
	if (*box && strcmp(*box, arg) != 0)
		opt_misuse("one copy is of one box, not of '%s' and '%s'", *box, arg);
	*box = arg;
	if (!colon[1])
		opt_misuse("'%s:' needs a path", arg);
	return colon + 1;
}

static const char *parse(int n, char **arg)
{
	const char **src = xcalloc((size_t)n, sizeof(*src)), *box = NULL;

	copy.into = split(arg[n - 1]) != NULL;
	copy.dst = copy.into ? take_path(arg[n - 1], &box) : arg[n - 1];
	for (int i = 0; i < n - 1; i++) {
		if (copy.into && split(arg[i]))
			opt_misuse("'%s' and DST are both in a box (a file's name: ./%s)", arg[i],
				   arg[i]);
		src[i] = copy.into ? arg[i] : take_path(arg[i], &box);
		if (copy.into && !strcmp(src[i], "-") && n > 2)
			opt_misuse("'-' must be the only SRC");
	}
	copy.src = src;
	copy.nsrc = (size_t)n - 1;
	if (copy.owner && !copy.into)
		opt_misuse("--owner is for copies into a box");
	if (!copy.into && !strcmp(copy.dst, "-") && isatty(1))
		opt_misuse("a tar stream is not for a terminal");
	return box;
}

int main(int argc, char **argv)
{
	char id[ID_MAX + 1];
	struct state st;
	int first = opt_parse(&tool, argc, argv);
	const char *box;

	if (argc - first < 2)
		opt_misuse("needs SRC and DST");
	box = parse(argc - first, argv + first);
	if (state_open(&st, 0) < 0)
		die();
	if (state_resolve(&st, box, id) < 0)
		die();
	copy.id = id;
	return copy_run(&st, &copy);
}
