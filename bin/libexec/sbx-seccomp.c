/*
 * Compiles a seccomp profile. Reads the profile, writes the filter (or with --list a table) to
 * standard output, changes nothing. A program of its own because it alone needs libseccomp:
 * sbx-create runs it once for each new profile and keeps the result.
 */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/die.h"
#include "base/fd.h"
#include "base/opt.h"
#include "kern/seccomp.h"
#include "kern/seccomp_parse.h"

static int list_only;

static const struct opt opts[] = {
	{'l', "list", NULL, OPT_FLAG, &list_only, "print the rules as a table, do not compile"},
	{0},
};

static const struct opt_tool tool = {
	.usage = "[--list] PROFILE",
	.purpose = "Compile a seccomp profile into the filter that the kernel loads.",
	.opts = opts,
	.operands = 1,
	.operand = "FILE",
};

/* name TAB action TAB condition; a last record "*" has the default. */
static int list(const char *source, const char *text)
{
	autoprofile p = {0};

	if (seccomp_parse(&p, source, text) < 0)
		return -1;
	for (size_t i = 0; i <= p.n; i++) {
		const struct seccomp_rule *r = i < p.n ? &p.rule[i] : NULL;
		autobuf action = BUF_INIT, cond = BUF_INIT;

		seccomp_action_text(&action, r ? r->action : p.fallback);
		if (r)
			seccomp_cond_text(&cond, r);
		printf("%s\t%s\t%s\n", r ? r->name : "*", buf_cstr(&action),
		       cond.len ? buf_cstr(&cond) : "-");
	}
	return 0;
}

int main(int argc, char **argv)
{
	int i = opt_parse(&tool, argc, argv);
	autobuf text = BUF_INIT;

	if (i + 1 != argc)
		opt_misuse("one profile is needed");
	if (!list_only && isatty(STDOUT_FILENO))
		opt_misuse("a filter is not written to a terminal");
	if (fd_read_file(AT_FDCWD, argv[i], SECCOMP_TEXT, &text) < 0)
		die();
	if (list_only ? list(argv[i], buf_cstr(&text))
		      : seccomp_compile(argv[i], buf_cstr(&text), STDOUT_FILENO))
		die();
	return finish(stdout);
}
