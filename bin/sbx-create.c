/*
 * sbx-create: makes boxes and prints their IDs, one a line, each when its box can run a command.
 * Reads the image and sbx.conf; writes STATE/box/ID, STATE/slot, STATE/name, RUN/box/ID; leaves one
 * sbx-keep a box. If it dies half-way, the boxes it has printed live on; one it was making ends
 * itself, and sbx-reap removes the rest.
 */
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/fd.h"
#include "base/opt.h"
#include "box/create.h"
#include "box/create_many.h"

static struct box_want want = {.net = "none"};
static const char *image, *workspace;
static struct opt_list toolkits;
static uint64_t count = 1;
static int no_new_privs;

static const struct opt opts[] = {
	{'i', "image", "IMAGE", OPT_STR, &image, "image the boxes are made from"},
	{0, "workspace", "IMAGE", OPT_STR, &workspace, "an image that lies over it"},
	{0, "toolkit", "IMAGE", OPT_LIST, &toolkits, "one more above; may come again, in order"},
	{'n', "count", "COUNT", OPT_COUNT, &count, "how many boxes (1)"},
	{'m', "memory", "SIZE", OPT_SIZE, &want.mem_bytes, "memory limit"},
	{'c', "cpus", "CPUS", OPT_CPUS, &want.cpu_milli, "CPU limit, such as 0.5 or 2"},
	{0, "pids", "COUNT", OPT_COUNT, &want.pids, "limit of tasks"},
	{0, "ttl", "DURATION", OPT_DURATION, &want.ttl_ms, "end the box after this time"},
	{0, "idle", "DURATION", OPT_DURATION, &want.idle_ms,
	 "end it after this time without a command"},
	{'u', "user", "USER", OPT_STR, &want.user, "user of its commands, NAME|UID[:GROUP]"},
	{'w', "workdir", "DIR", OPT_STR, &want.workdir, "directory of its commands"},
	{'e', "env", "K=V", OPT_LIST, &want.env,
	 "environment of its commands; K takes the caller's"},
	{'l', "label", "K=V", OPT_LIST, &want.labels, "label, to find it by"},
	{0, "name", "NAME", OPT_STR, &want.name, "a name beside the ID"},
	{0, "hostname", "NAME", OPT_STR, &want.hostname, "host name inside"},
	{0, "net", "none|host", OPT_STR, &want.net,
	 "none: only lo (default); host: the node's own"},
	{0, "seccomp", "PROFILE", OPT_STR, &want.seccomp, "system call profile, a name or a file"},
	{0, "trace", NULL, OPT_FLAG, &want.trace,
	 "mount its layers for it alone: see sbx-img trace"},
	{0, "no-new-privs", NULL, OPT_FLAG, &no_new_privs, "set-id programs inside give no rights"},
	{0},
};

static const struct opt_tool tool = {
	.usage = "-i IMAGE [-n COUNT] [option]...",
	.purpose = "Makes boxes; prints the ID of each when it can run a command.",
	.opts = opts,
	.operands = -1,
	.operand = "",
};

static void check(int operands)
{
	if (operands)
		opt_misuse("takes no operands");
	if (!image)
		opt_misuse("needs an image: -i IMAGE");
	if (create_check(&want, &want.labels, count) < 0)
		opt_misuse("%s", fail_text());
	if (strcmp(want.net, "none") != 0 && strcmp(want.net, "host") != 0)
		opt_misuse("--net '%s' is not none or host", want.net);
	if (want.mem_bytes && want.mem_bytes < (4 << 20))
		opt_misuse("--memory must be at least 4M");
	if (want.pids && want.pids < 2)
		opt_misuse("--pids must be at least 2: pid 1 of the box is one");
}

static void fill_from_conf(const struct conf *c)
{
	want.mem_bytes = want.mem_bytes ? want.mem_bytes : c->mem;
	want.pids = want.pids ? want.pids : c->pids;
	want.cpu_milli = want.cpu_milli ? want.cpu_milli : c->cpus;
	want.ttl_ms = want.ttl_ms ? want.ttl_ms : c->ttl_ms;
	want.idle_ms = want.idle_ms ? want.idle_ms : c->idle_ms;
	want.seccomp = want.seccomp ? want.seccomp : c->seccomp;
	want.max_output = c->max_output;
	want.no_new_privs = no_new_privs;
}

static int print_id(const char *id)
{
	return puts(id) >= 0 && !fflush(stdout)
		       ? 0
		       : fail("cannot print the ID of box '%s', it is removed", id);
}

int main(int argc, char **argv)
{
	struct create_many many = {.want = &want, .told = print_id, .failed = warn};
	struct compose from;
	struct state st;
	int first = opt_parse(&tool, argc, argv), hold, code;

	check(argc - first);
	opt_env(&want.env);
	if (state_open(&st, 1) < 0)
		die();
	fill_from_conf(&st.conf);
	hold = image_hold(&st);
	if (hold < 0 || compose_load(&st, image, workspace, toolkits.v, toolkits.n, &from) < 0)
		die();
	want.from = &from;
	many.count = count;
	code = create_many(&st, &many);
	if (code < 0)
		die();
	return code ? code : finish(stdout);
}
