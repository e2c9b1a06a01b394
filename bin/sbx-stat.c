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
#include "base/fd.h"
#include "base/num.h"
#include "base/opt.h"
#include "base/rec.h"
#include "box/view.h"
#include "kern/cgroup.h"
#include "store/log.h"
#include "store/usage.h"

/* Files of a box that --disk looks at: some seconds of work. */
enum { DISK_FILES = 1000000 };

/* The table in the order of the lines; ENV and LAYER may be more than one. */
#define COLUMNS(X)                                                                                 \
	X(ID, "id", TEXT)                                                                          \
	X(NAME, "name", TEXT)                                                                      \
	X(STATE, "state", TEXT) X(CAUSE, "cause", TEXT) X(CREATED, "created", TIME) X(             \
		SINCE, "since", TIME) X(AGE, "age_ms", MS) X(TTL, "ttl_ms",                        \
							     MS) X(TTL_LEFT, "ttl_left_ms", MS)    \
		X(IDLE, "idle_ms", MS) X(IDLE_FOR, "idle_for_ms", MS) X(IMAGE, "image", TEXT) X(   \
			DIGEST, "digest", TEXT) X(LAYERS, "layers", TEXT) X(BACKEND, "backend",    \
									    TEXT) X(USER, "user",  \
										    TEXT)          \
			X(WORKDIR, "workdir", TEXT) X(HOSTNAME, "hostname", TEXT) X(               \
				NET, "net", TEXT) X(SECCOMP, "seccomp",                            \
						    TEXT) X(NNP, "no_new_privs",                   \
							    NUM) X(LABELS, "labels", TEXT)         \
				X(MEM, "mem_bytes", BYTES) X(CPU, "cpu_milli", NUM) X(             \
					PIDS, "pids", NUM) X(MAX_OUTPUT, "max_output_bytes",       \
							     BYTES) X(SLOT, "slot", NUM)           \
					X(ID_BASE, "id_base", NUM) X(ID_COUNT, "id_count", NUM) X( \
						BY, "by",                                          \
						NUM) X(PID, "pid",                                 \
						       NUM) X(CPU_USED, "cpu_ms", MS)              \
						X(MEM_USED, "mem_used_bytes",                      \
						  BYTES) X(MEM_PEAK, "mem_peak_bytes",             \
							   BYTES) X(TASKS, "tasks",                \
								    NUM) X(OOM, "oom_kills", NUM)  \
							X(COMMANDS, "commands",                    \
							  NUM) X(RUNNING, "running",               \
								 NUM) X(DISK, "disk_bytes", BYTES) \
								X(DISK_FILES, "disk_files", NUM)   \
									X(DISK_PARTIAL,            \
									  "disk_partial",          \
									  NUM) X(ENV, "env", TEXT)

#define COLUMN_ENUM(sym, name, type) C_##sym,
#define COLUMN_ROW(sym, name, type)  {name, REC_##type, 0},
enum { COLUMNS(COLUMN_ENUM) };
static const struct rec_col cols[] = {COLUMNS(COLUMN_ROW){NULL, REC_TEXT, 0}};

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

/* Lines unless records were asked for. */
static struct rec *rec;
static uint64_t printed, now;

static void put_text(int col, const char *s)
{
	autobuf b = BUF_INIT;

	if (!s || !*s)
		return;
	if (rec) {
		rec_text(rec, col, s);
		return;
	}
	kv_escape(&b, s, strlen(s));
	printf("%s=%s\n", cols[col].name, b.p);
}

static void put_num(int col, uint64_t v)
{
	char time[NUM_TEXT];

	if (rec)
		rec_num(rec, col, v);
	else if (cols[col].type == REC_TIME)
		printf("%s=%s\n", cols[col].name, num_fmt_time(time, v));
	else
		printf("%s=%llu\n", cols[col].name, (unsigned long long)v);
}

static void put_some(int col, uint64_t v)
{
	if (v)
		put_num(col, v);
}

/* All pairs of KEY: a line each, or one field with a line end between them. */
static void put_list(const struct spec *s, const char *key, int col)
{
	autobuf b = BUF_INIT;
	const char *v;
	size_t i = 0;

	while ((v = spec_next(s, key, &i))) {
		if (!rec)
			put_text(col, v);
		buf_fmt(&b, "%s%s", b.len ? "\n" : "", v);
	}
	if (rec)
		put_text(col, b.p);
}

static void put_state(const struct view *v)
{
	put_text(C_ID, v->id);
	put_text(C_NAME, v->known ? v->spec.name : NULL);
	put_text(C_STATE, box_state_name(v->state));
	put_text(C_CAUSE, view_cause(v));
	if (v->known) {
		put_num(C_CREATED, v->spec.created_ms);
		put_num(C_AGE, now > v->spec.created_ms ? now - v->spec.created_ms : 0);
	}
	put_some(C_SINCE, v->since_ms);
	put_some(C_PID, v->pid);
}

static void put_spec(const struct view *v)
{
	const struct spec *s = &v->spec;
	int64_t left = view_ttl_left(v, now);
	autobuf labels = BUF_INIT;

	view_labels(v, &labels);
	put_some(C_TTL, s->ttl_ms);
	if (left >= 0)
		put_num(C_TTL_LEFT, (uint64_t)left);
	put_some(C_IDLE, s->idle_ms);
	put_text(C_IMAGE, s->image);
	put_text(C_DIGEST, s->image_digest);
	put_list(s, "layer", C_LAYERS);
	put_text(C_BACKEND, s->backend);
	put_text(C_USER, s->user);
	put_text(C_WORKDIR, s->workdir);
	put_text(C_HOSTNAME, s->hostname);
	put_text(C_NET, s->net);
	put_text(C_SECCOMP, s->seccomp);
	put_num(C_NNP, (uint64_t)s->no_new_privs);
	put_text(C_LABELS, labels.p);
	put_some(C_MEM, s->mem_bytes);
	put_some(C_CPU, s->cpu_milli);
	put_some(C_PIDS, s->pids);
	put_num(C_MAX_OUTPUT, s->max_output);
	put_num(C_SLOT, s->slot);
	put_num(C_ID_BASE, s->id_base);
	put_num(C_ID_COUNT, s->id_count);
	put_num(C_BY, kv_u64(&s->kv, "by", 0));
	put_list(s, "env", C_ENV);
}

static void close_tree(struct cgroup_tree *t)
{
	fd_close(&t->v2);
	fd_close(&t->mem);
	fd_close(&t->cpu);
	fd_close(&t->pids);
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
		put_num(C_CPU_USED, u.cpu_ms);
		put_num(C_MEM_USED, u.mem);
		put_num(C_MEM_PEAK, u.mem_peak);
		put_num(C_TASKS, u.tasks);
		put_num(C_OOM, cgroup_oom_kills(&cg));
		cgroup_close(&cg);
	}
	close_tree(&tree);
}

static void put_last_usage(const struct kv *end)
{
	static const struct {
		const char *key;
		int col;
	} pairs[] = {{"cpu_ms", C_CPU_USED}, {"mem_peak", C_MEM_PEAK}, {"oom_kills", C_OOM}};

	for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++)
		if (kv_get(end, pairs[i].key))
			put_num(pairs[i].col, kv_u64(end, pairs[i].key, 0));
}

struct tally {
	uint64_t begun, ended, last_ms;
};

static int count_record(void *arg, const struct kv *r)
{
	struct tally *t = arg;
	const char *ev = kv_str(r, "ev", "");

	t->begun += !strcmp(ev, "exec");
	t->ended += !strcmp(ev, "end");
	t->last_ms = kv_u64(r, "time_ms", t->last_ms);
	return 0;
}

static int put_commands(const struct state *st, const struct view *v)
{
	struct tally t = {0};

	if (log_each(st, v->id, count_record, &t) < 0)
		return -1;
	put_num(C_COMMANDS, t.begun);
	if (v->state != BOX_RUNNING)
		return 0;
	put_num(C_RUNNING, t.begun - t.ended);
	if (t.begun == t.ended && t.last_ms && t.last_ms <= now)
		put_num(C_IDLE_FOR, now - t.last_ms);
	return 0;
}

static int put_disk(const struct state *st, const struct view *v)
{
	char path[ID_MAX + 8];
	struct usage u;

	snprintf(path, sizeof(path), "%s/upper", v->id);
	if (usage_count(st->box, path, DISK_FILES, &u) < 0)
		return -1;
	put_num(C_DISK, u.bytes);
	put_num(C_DISK_FILES, u.files);
	put_num(C_DISK_PARTIAL, (uint64_t)u.partial);
	return 0;
}

/* What is known is printed also when a part of it could not be read. */
static int print(const struct state *st, const char *id)
{
	autoview v = {.known = 0};
	int r = view_load(st, id, &v), bad = r < 0;

	if (!r)
		return fail_as(EX_GONE, "no box '%s' on this node", id);
	if (!rec && printed++)
		putchar('\n');
	put_state(&v);
	if (v.known)
		put_spec(&v);
	if (v.state == BOX_DEAD)
		put_last_usage(&v.end);
	else
		put_usage(&v);
	bad |= put_commands(st, &v) < 0;
	bad |= disk && put_disk(st, &v) < 0;
	if (rec)
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
	autofree char *line = NULL;
	size_t room = 0;
	int code = 0;

	while (getline(&line, &room, stdin) > 0) {
		line[strcspn(line, "\t\r\n")] = 0; /* records of other tools begin with the ID */
		if (*line && print_word(st, line))
			code = EX_NO;
	}
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
	if (recs.json || recs.cols || recs.header || recs.nul)
		rec = rec_open(stdout, cols, &recs);
	if (!rec && (recs.json || recs.cols || recs.header || recs.nul))
		die();
	now = num_now_ms();
	for (int i = first; i < argc; i++) {
		r = !strcmp(argv[i], "-") ? print_from_stdin(&st) : print_word(&st, argv[i]);
		if (r)
			code = argc - first == 1 ? r : EX_NO;
	}
	r = rec ? rec_close(rec) : finish(stdout);
	return r ? r : code;
}
