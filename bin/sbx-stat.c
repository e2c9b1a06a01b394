/*
 * sbx-stat: everything about a box: what it was asked to be, how it is, what it uses, how it ended.
 * Reads the state directory and the box's control groups; it asks no process, so a box that hangs
 * does not hold it up. Changes nothing.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/die.h"
#include "base/num.h"
#include "base/opt.h"
#include "base/rec.h"
#include "box/view.h"
#include "kern/cgroup.h"
#include "store/log.h"
#include "store/usage.h"

enum { DISK_FILES = 1000000 }; /* of a box that --disk looks at: some seconds */

/* Fields are set by their names: each name stands here once. */
static const struct rec_col cols[] = {{"id", REC_TEXT, 0},
				      {"name", REC_TEXT, 0},
				      {"state", REC_TEXT, 0},
				      {"cause", REC_TEXT, 0},
				      {"created", REC_TIME, 0},
				      {"since", REC_TIME, 0},
				      {"age_ms", REC_MS, 0},
				      {"ttl_ms", REC_MS, 0},
				      {"ttl_left_ms", REC_MS, 0},
				      {"idle_ms", REC_MS, 0},
				      {"idle_for_ms", REC_MS, 0},
				      {"image", REC_TEXT, 0},
				      {"digest", REC_TEXT, 0},
				      {"layers", REC_TEXT, 0},
				      {"backend", REC_TEXT, 0},
				      {"user", REC_TEXT, 0},
				      {"workdir", REC_TEXT, 0},
				      {"hostname", REC_TEXT, 0},
				      {"net", REC_TEXT, 0},
				      {"seccomp", REC_TEXT, 0},
				      {"no_new_privs", REC_NUM, 0},
				      {"labels", REC_TEXT, 0},
				      {"mem_bytes", REC_BYTES, 0},
				      {"cpu_milli", REC_NUM, 0},
				      {"pids", REC_NUM, 0},
				      {"max_output_bytes", REC_BYTES, 0},
				      {"slot", REC_NUM, 0},
				      {"id_base", REC_NUM, 0},
				      {"id_count", REC_NUM, 0},
				      {"by", REC_NUM, 0},
				      {"pid", REC_NUM, 0},
				      {"cpu_ms", REC_MS, 0},
				      {"mem_used_bytes", REC_BYTES, 0},
				      {"mem_peak_bytes", REC_BYTES, 0},
				      {"tasks", REC_NUM, 0},
				      {"oom_kills", REC_NUM, 0},
				      {"commands", REC_NUM, 0},
				      {"running", REC_NUM, 0},
				      {"disk_bytes", REC_BYTES, 0},
				      {"disk_files", REC_NUM, 0},
				      {"disk_partial", REC_NUM, 0},
				      {"env", REC_TEXT, 0},
				      {"workspace", REC_TEXT, 0},
				      {"workspace_digest", REC_TEXT, 0},
				      {"parent", REC_TEXT, 0},
				      {"toolkits", REC_TEXT, 0},
				      {"toolkit_digests", REC_TEXT, 0},
				      {"layer_depot", REC_TEXT, 0},
				      {"layer_error", REC_TEXT, 0},
				      {NULL, REC_TEXT, 0}};

static int disk;
static struct rec_opts recs;

static const struct opt opts[] = {
	{0, "disk", NULL, OPT_FLAG, &disk, "count the space its files take (reads its whole tree)"},
	REC_OPTIONS(recs),
	{0},
};

static const struct opt_tool tool = {
	.usage = "[option]... ID...|-",
	.purpose = "Prints everything about boxes as key=value lines, or as records with --json or "
		   "-o.",
	.opts = opts,
	.operands = -1,
	.operand = "ID",
};

static struct rec *rec;
static uint64_t now;

static int col(const char *name)
{
	int i = 0;

	while (strcmp(cols[i].name, name) != 0)
		i++;
	return i;
}

static void put_text(const char *name, const char *s)
{
	rec_text(rec, col(name), s && *s ? s : NULL);
}

static void put_num(const char *name, uint64_t v)
{
	rec_num(rec, col(name), v);
}

static void put_some(const char *name, uint64_t v)
{
	if (v)
		put_num(name, v);
}

/* All pairs of KEY, with a line end between them. */
static void put_list(const struct spec *s, const char *key, const char *name)
{
	autobuf b = BUF_INIT;
	const char *v;
	size_t i = 0;

	while ((v = spec_next(s, key, &i)))
		buf_fmt(&b, "%s%s", b.len ? "\n" : "", v);
	put_text(name, b.p);
}

static void put_state(const struct view *v)
{
	put_text("id", v->id);
	put_text("name", v->known ? v->spec.name : NULL);
	put_text("state", box_state_name(v->state));
	put_text("cause", view_cause(v));
	if (v->known) {
		put_num("created", v->spec.created_ms);
		put_num("age_ms", now > v->spec.created_ms ? now - v->spec.created_ms : 0);
	}
	put_some("since", v->since_ms);
	put_some("pid", v->pid);
}

static void put_spec(const struct view *v)
{
	/* 0 and "" stand for no limit and nothing asked for: these are left out. */
	static const char *const texts[] = {
		"backend", "user",    "workdir",   "hostname",	       "net",
		"image",   "seccomp", "workspace", "workspace_digest", "parent"};
	static const char *const limits[] = {"ttl_ms", "idle_ms", "mem_bytes", "cpu_milli", "pids"};
	static const char *const nums[] = {"no_new_privs", "slot", "id_base", "id_count", "by"};
	const struct kv *kv = &v->spec.kv;
	int64_t left = view_ttl_left(v, now);
	autobuf labels = BUF_INIT;

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		put_text(texts[i], kv_get(kv, texts[i]));
	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++)
		put_some(limits[i], kv_u64(kv, limits[i], 0));
	for (size_t i = 0; i < sizeof(nums) / sizeof(nums[0]); i++)
		put_num(nums[i], kv_u64(kv, nums[i], 0));
	if (left >= 0)
		put_num("ttl_left_ms", (uint64_t)left);
	put_num("max_output_bytes", v->spec.max_output);
	put_text("digest", v->spec.image_digest);
	view_labels(v, &labels);
	put_text("labels", labels.p);
	put_list(&v->spec, "layer", "layers");
	put_list(&v->spec, "env", "env");
	put_list(&v->spec, "toolkit", "toolkits");
	put_list(&v->spec, "toolkit_digest", "toolkit_digests");
}

/* Of a living box from its groups; one that ends meanwhile has no figures. */
static void put_usage(const struct view *v)
{
	struct cgroup_tree tree;
	struct cgroup cg;
	struct cgroup_usage u;

	if (cgroup_tree_open(&tree, "sbx") < 0) {
		warn();
		return;
	}
	if (!cgroup_open(&tree, v->id, &cg)) {
		cgroup_usage(&cg, &u);
		put_num("cpu_ms", u.cpu_ms);
		put_num("mem_used_bytes", u.mem);
		put_num("mem_peak_bytes", u.mem_peak);
		put_num("tasks", u.tasks);
		put_num("oom_kills", cgroup_oom_kills(&cg));
		cgroup_close(&cg);
	}
	cgroup_tree_close(&tree);
}

static void put_layers(const struct state *st, const struct view *v)
{
	autobuf where = BUF_INIT, errors = BUF_INIT;

	if (v->known)
		view_layers(st, &v->spec, &where, &errors);
	put_text("layer_depot", where.p);
	put_text("layer_error", errors.p);
}

static void put_last_usage(const struct kv *end)
{
	static const struct {
		const char *key;
		const char *name;
	} pairs[] = {
		{"cpu_ms", "cpu_ms"}, {"mem_peak", "mem_peak_bytes"}, {"oom_kills", "oom_kills"}};

	for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++)
		if (kv_get(end, pairs[i].key))
			put_num(pairs[i].name, kv_u64(end, pairs[i].key, 0));
}

static int put_commands(const struct state *st, const struct view *v)
{
	struct log_tally t;

	if (log_count(st, v->id, &t) < 0)
		return -1;
	put_num("commands", t.begun);
	if (v->state != BOX_RUNNING)
		return 0;
	put_num("running", t.begun - t.ended);
	if (t.begun == t.ended && t.last_ms && t.last_ms <= now)
		put_num("idle_for_ms", now - t.last_ms);
	return 0;
}

static int put_disk(const struct state *st, const struct view *v)
{
	char path[ID_MAX + 8];
	struct usage u;

	snprintf(path, sizeof(path), "%s/upper", v->id);
	if (usage_count(st->box, path, DISK_FILES, &u) < 0)
		return -1;
	put_num("disk_bytes", u.bytes);
	put_num("disk_files", u.files);
	put_num("disk_partial", (uint64_t)u.partial);
	return 0;
}

/* What is known is printed also when a part of it could not be read. */
static int print(const struct state *st, const char *id)
{
	autoview v = {.known = 0};
	int r = view_load(st, id, &v), bad = r < 0;

	if (!r)
		return fail_as(EX_GONE, "no box '%s' on this node", id);
	put_state(&v);
	if (v.known)
		put_spec(&v);
	if (v.state == BOX_DEAD)
		put_last_usage(&v.end);
	else
		put_usage(&v);
	if (v.state != BOX_DEAD)
		put_layers(st, &v);
	bad |= put_commands(st, &v) < 0;
	bad |= disk && put_disk(st, &v) < 0;
	rec_end(rec);
	return bad ? -1 : 0;
}

static int print_word(const struct state *st, const char *word)
{
	char id[ID_MAX + 1];

	if (!state_resolve(st, word, id) && !print(st, id))
		return 0;
	warn();
	return fail_code();
}

static int print_from_stdin(const struct state *st)
{
	const char *word;
	int code = 0;

	while ((word = id_read(stdin)))
		if (print_word(st, word))
			code = EX_NO;
	return code;
}

int main(int argc, char **argv)
{
	struct state st;
	int first = opt_parse(&tool, argc, argv), code = 0, r;

	if (first == argc)
		opt_misuse("needs a box: ID, or - to read IDs from stdin");
	if (state_open(&st, 0) < 0)
		die();
	recs.lines = !recs.json && !recs.cols && !recs.header && !recs.nul;
	rec = rec_open(stdout, cols, &recs);
	if (!rec)
		die();
	now = num_now_ms();
	for (int i = first; i < argc; i++) {
		r = !strcmp(argv[i], "-") ? print_from_stdin(&st) : print_word(&st, argv[i]);
		if (r)
			code = argc - first == 1 ? r : EX_NO;
	}
	r = rec_close(rec);
	return r ? r : code;
}
