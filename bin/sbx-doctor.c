/*
 * sbx-doctor: tells what this node needs to have boxes and does not have. It tries mounts, groups
 * and namespaces in a child of its own and removes what it made; dying half-way it may leave an
 * empty directory .sbx-doctor.XXXXXX beside the state directory, and a group sbx/doctor.PID.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/conf.h"
#include "base/die.h"
#include "base/opt.h"
#include "base/rec.h"
#include "box/doctor.h"

enum { C_STATUS, C_NEED, C_DETAIL, C_CURE };

static const struct rec_col cols[] = {
	{"status", REC_TEXT, 0}, {"need", REC_TEXT, 0}, {"detail", REC_TEXT, 0},
	{"cure", REC_TEXT, 0},	 {NULL, REC_TEXT, 0},
};

static int quiet;
static struct rec_opts recs;

static const struct opt opts[] = {
	{'q', "quiet", NULL, OPT_FLAG, &quiet, "only what is missing or too small"},
	REC_OPTIONS(recs),
	{0},
};

static const struct opt_tool tool = {
	.usage = "[option]...",
	.purpose = "Tells what this node lacks to have boxes, and the command that mends it.",
	.opts = opts,
	.operands = -1,
	.operand = "",
};

struct report {
	struct rec *rec;
	int missing;
};

static void say(void *arg, const struct need *n)
{
	struct report *r = arg;

	r->missing += n->status == NEED_MISSING;
	if (quiet && (n->status == NEED_OK || n->status == NEED_INFO))
		return;
	rec_text(r->rec, C_STATUS, need_status_name(n->status));
	rec_text(r->rec, C_NEED, n->name);
	rec_text(r->rec, C_DETAIL, n->detail);
	rec_text(r->rec, C_CURE, n->cure);
	rec_end(r->rec);
}

int main(int argc, char **argv)
{
	struct report rep = {0};
	struct conf conf;
	struct doctor d = {.conf = &conf, .say = say, .arg = &rep};
	int r;

	if (opt_parse(&tool, argc, argv) < argc)
		opt_misuse("takes no operands");
	rep.rec = rec_open(stdout, cols, &recs);
	if (!rep.rec)
		die();
	/* What was read before the mistake, and the rest built in, is good enough to go on with. */
	if (conf_load(&conf) < 0)
		need_say(&d, NEED_MISSING, "config", "mend that line", "%s", fail_text());
	else
		need_say(&d, NEED_OK, "config", NULL, "node '%s', at most %llu boxes", conf.node,
			 (unsigned long long)conf.max_boxes);
	doctor_kernel(&d);
	doctor_limits(&d);
	doctor_files(&d);
	doctor_extras(&d);
	r = rec_close(rep.rec);
	return r ? r : rep.missing ? EX_NO : 0;
}
