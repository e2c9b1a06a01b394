/*
 * sbx-reap: for cron. Removes what nobody needs any more: dead boxes and their files, creations that
 * were cut off, boxes past their time whose keeper is stuck, mounts of unused layers, imports cut
 * off. Leaves what lives. It can be killed at any point and run beside anything, itself included.
 */
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/die.h"
#include "base/kv.h"
#include "base/opt.h"
#include "box/reap.h"

static int verbose, bad;
static struct reap r;

static const struct opt opts[] = {
	{0, "keep", "DURATION", OPT_DURATION, &r.keep_ms,
	 "leave dead boxes and their logs this long"},
	{0, "dry-run", NULL, OPT_FLAG, &r.dry_run, "print what would be removed, remove nothing"},
	{'v', "verbose", NULL, OPT_FLAG, &verbose, "print what was removed: WHAT and WHY"},
	{0},
};

static const struct opt_tool tool = {
	.usage = "[--keep DURATION] [--dry-run] [-v]",
	.purpose = "Removes what is dead, half-made, past its time or unused on this node.",
	.opts = opts,
	.operands = -1,
	.operand = "",
};

static void report(const char *what, const char *why)
{
	if (verbose || r.dry_run)
		printf("%s\t%s\n", what, why);
}

static void failed(void)
{
	warn();
	bad = 1;
}

int main(int argc, char **argv)
{
	struct state st;
	struct stat sb;
	int code;

	if (opt_parse(&tool, argc, argv) != argc)
		opt_misuse("takes no operands");
	if (conf_load(&st.conf) < 0)
		die();
	if (stat(st.conf.state, &sb) < 0 && errno == ENOENT)
		return 0; /* nothing was ever made here */
	if (state_open(&st, 0) < 0)
		die();
	r.st = &st;
	r.report = report;
	r.failed = failed;
	if (reap(&r) < 0)
		die();
	code = finish(stdout);
	return code ? code : bad ? EX_NO : 0;
}
