/*
 * Images on this node: reads a source into STATE/img, lists, names and removes. An import that dies
 * half-way leaves a directory in STATE/img/tmp, which the next import or removal clears.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/die.h"
#include "base/kv.h"
#include "base/num.h"
#include "base/opt.h"
#include "base/rec.h"
#include "kern/mnt.h"
#include "box/reach.h"
#include "store/image.h"
#include "store/import.h"
#include "store/layer.h"

static const char *name, *at;
static const char *depot;
static int quiet;
static uint64_t collapse = IMPORT_COLLAPSE;
static struct rec_opts recs;

static const struct opt opts[] = {
	{0, "name", "NAME[:TAG]", OPT_STR, &name, "import: the image's name (tag: latest)"},
	{0, "collapse", "SIZE", OPT_SIZE, &collapse,
	 "import: merge the source's layers up to this (3G; 0: none)"},
	{0, "at", "PATH", OPT_STR, &at, "import: the image holds only this subtree, the source"},
	{'q', "quiet", NULL, OPT_FLAG, &quiet, "import: no progress bar and no notes"},
	{0, "depot", "DIR", OPT_STR, &depot, "ls, show: of this depot, not of the node"},
	REC_OPTIONS(recs),
	{0},
};

/* The first six are here, each of the others is a program of its own in libexec. */
static const struct opt_verb verbs[] = {
	{"import", "a directory, tar or image archive becomes an image; prints its digest"},
	{"ls", "list images"},
	{"show", "all about one image"},
	{"tag", "give an image one more name"},
	{"rm", "remove names, and what nobody uses then"},
	{"gc", "remove what no name and no box uses"},
	{"pull", "an image from a registry, by skopeo"},
	{"diff", "what differs between two images"},
	{"export", "an image becomes an OCI layout or a docker archive"},
	{"collapse", "merge the layers of an image into one, without copying data"},
	{"push", "copy an image into a depot"},
	{"fetch", "bring an image from a depot, its data to be read on demand"},
	{"verify", "compare layers with their digests"},
	{"cache", "copy a fetched image's data onto this node"},
	{"trace", "list what a box made with --trace has read"},
	{0},
};

static const struct opt_tool tool = {
	.usage = "import [--name NAME[:TAG]] [--at PATH] [--collapse SIZE] SOURCE\n"
		 "       sbx-img ls | show IMAGE | tag IMAGE NAME[:TAG] | rm IMAGE... | gc\n"
		 "       sbx-img VERB --help",
	.purpose = "Bring root file systems onto this node as images; list, name and remove them.\n"
		   "SOURCE is a directory, a tar (plain, gz, xz, zst), an OCI image layout, a\n"
		   "docker-save tar, or - for standard input. import prints the image's digest.",
	.opts = opts,
	.operands = -1,
	.operand = "IMAGE FILE",
	.verbs = verbs,
};

static struct state st;

/* At most ten times a second; only on a terminal. */
static void progress(const struct import *im, void *arg)
{
	static uint64_t start, last;
	uint64_t now = num_mono_us();
	char size[NUM_TEXT], rate[NUM_TEXT];

	(void)arg;
	if (!start)
		start = last = now;
	if (now - last < 100000)
		return;
	last = now;
	num_fmt_size(size, im->read);
	num_fmt_size(rate, im->read * 1000000 / (now - start));
	if (im->total >= im->read)
		fprintf(stderr, "\r%3llu%% %s, %s/s\033[K",
			(unsigned long long)(im->read * 100 / im->total), size, rate);
	else
		fprintf(stderr, "\r%s, %s/s\033[K", size, rate);
}

static int verb_import(int argc, char **argv)
{
	struct import im = {.unmount = mnt_unmount, .collapse = collapse};
	char digest[IMAGE_DIGEST + 1];
	autobuf note = BUF_INIT;
	int bar = !quiet && isatty(STDERR_FILENO), r;

	if (argc != 1)
		opt_misuse("import takes one source");
	if (at && !(im.at = import_at(at)))
		die();
	if (bar)
		im.progress = progress;
	r = import_run(&st, &im, argv[0], name, digest);
	if (bar)
		fputs("\r\033[K", stderr);
	if (r < 0)
		die();
	if (!quiet && import_left_out(&im, &note))
		warnf("%s", buf_cstr(&note));
	puts(digest);
	return finish(stdout);
}

static int verb_ls(int argc, char **argv)
{
	static const struct rec_col cols[] = {
		{"name", REC_TEXT, 0},
		{"tag", REC_TEXT, 0},
		{"digest", REC_TEXT, 0},
		{"layers", REC_NUM, 0},
		{"size_bytes", REC_BYTES, 0},
		{"created", REC_TIME, 0},
		{0},
	};
	struct rec *r = rec_open(stdout, cols, &recs);
	struct image_name *v;
	int code = 0;
	size_t n;

	(void)argv;
	if (argc)
		opt_misuse("ls takes no operand");
	if (!r || image_names(&st, &v, &n) < 0)
		die();
	for (size_t i = 0; i < n; i++) {
		struct image img;

		if (image_load(&st, v[i].digest, &img) < 0) {
			warn();
			code = EX_NO;
			continue;
		}
		rec_text(r, 0, v[i].name);
		rec_text(r, 1, v[i].tag);
		rec_text(r, 2, v[i].digest);
		rec_num(r, 3, img.nlayers);
		rec_num(r, 4, img.size_bytes);
		rec_num(r, 5, img.created_ms);
		rec_end(r);
		image_free(&img);
	}
	free(v);
	return rec_close(r) ? EX_SBX : code;
}

/* One line "KEY TAB VALUE"; or one member of a JSON object. */
static void show_text(const char *key, const char *val)
{
	autobuf b = BUF_INIT;

	if (!*val)
		return;
	kv_escape(&b, val, strlen(val));
	if (recs.json) {
		printf(",\"%s\":", key);
		rec_json_string(stdout, val, strlen(val));
	} else {
		printf("%s\t%s\n", key, buf_cstr(&b));
	}
}

static void show_num(const char *key, uint64_t v)
{
	printf(recs.json ? ",\"%s\":%llu" : "%s\t%llu\n", key, (unsigned long long)v);
}

static void show_list(const char *key, char **v)
{
	if (recs.json)
		printf(",\"%s\":[", key);
	for (size_t i = 0; v[i]; i++)
		if (recs.json) {
			fputs(i ? "," : "", stdout);
			rec_json_string(stdout, v[i], strlen(v[i]));
		} else {
			show_text(key, v[i]);
		}
	if (recs.json)
		putchar(']');
}

static void show_devices(const struct layer *l)
{
	if (recs.json)
		printf(",\"devices\":[");
	for (size_t i = 0; i < l->ndev; i++)
		if (recs.json)
			printf("%s\"%s\"", i ? "," : "", l->dev[i].sha);
		else
			show_text("device", l->dev[i].sha);
	if (recs.json)
		putchar(']');
}

static void show_layer(const struct image *img, size_t i)
{
	autolayer l = {0};

	if (layer_load(&st, img->layer[i], &l) < 0)
		die();
	if (recs.json)
		printf("%s{\"digest\":\"%s\"", i ? "," : "", l.digest);
	else
		show_text("layer", l.digest);
	show_num("meta_bytes", l.meta_bytes);
	show_num("data_bytes", l.data_bytes);
	show_num("files", l.files);
	show_text("kind", l.kind);
	show_text("source", l.source);
	show_text("at", l.at);
	show_text("depot", l.depot);
	show_devices(&l);
	if (recs.json)
		putchar('}');
}

static int verb_show(int argc, char **argv)
{
	struct image img;
	char created[NUM_TEXT];

	if (argc != 1)
		opt_misuse("show takes one image");
	if (image_load(&st, argv[0], &img) < 0)
		die();
	printf(recs.json ? "{\"digest\":\"%s\"" : "digest\t%s\n", img.digest);
	show_num("size_bytes", img.size_bytes);
	show_text("created", num_fmt_time(created, img.created_ms));
	show_text("user", img.user);
	show_text("workdir", img.workdir);
	show_list("entrypoint", img.entrypoint);
	show_list("cmd", img.cmd);
	show_list("env", img.env);
	fputs(recs.json ? ",\"layers\":[" : "", stdout);
	for (size_t i = 0; i < img.nlayers; i++)
		show_layer(&img, i);
	fputs(recs.json ? "]}\n" : "", stdout);
	image_free(&img);
	return finish(stdout);
}

static int verb_tag(int argc, char **argv)
{
	if (argc != 2)
		opt_misuse("tag takes an image and a new name");
	if (image_tag(&st, argv[0], argv[1]) < 0)
		die();
	return 0;
}

static int verb_rm(int argc, char **argv)
{
	int code = 0;

	if (!argc)
		opt_misuse("rm takes an image");
	for (int i = 0; i < argc; i++)
		if (image_untag(&st, argv[i]) < 0) {
			warn();
			code = EX_NO;
		}
	if (image_gc(&st, mnt_unmount) < 0)
		die();
	return code;
}

static int verb_gc(int argc, char **argv)
{
	(void)argv;
	if (argc)
		opt_misuse("gc takes no operand");
	if (image_gc(&st, mnt_unmount) < 0)
		die();
	return 0;
}

/* A verb that is a program of its own has its own options: nothing of them is read here. */
static void run_program(char **argv)
{
	const char *verb = argv[1];
	struct conf conf;

	if (strspn(verb, "abcdefghijklmnopqrstuvwxyz-") != strlen(verb) || *verb == '-' ||
	    conf_load(&conf) < 0)
		return;
	autofree char *program = xasprintf("sbx-img-%s", verb);
	autofree char *path = xasprintf("%s/%s", conf.libexec, program);

	/* As it was typed, for its messages; man(1) finds "man sbx-img VERB" too. */
	argv[1] = xasprintf("sbx-img %s", verb);
	execv(path, argv + 1);
	argv[1] = (char *)verb;
}

static void open_state(size_t verb)
{
	if (depot && verbs[verb].name[0] != 'l' && verbs[verb].name[0] != 's')
		opt_misuse("--depot goes with ls and show");
	if (reach_images(&st, depot, 1) < 0)
		die();
}

int main(int argc, char **argv)
{
	static int (*const run[])(int argc, char **argv) = {verb_import, verb_ls, verb_show,
							    verb_tag,	 verb_rm, verb_gc};
	int i;

	if (argc > 1)
		run_program(argv);
	i = opt_parse(&tool, argc, argv);

	if (i == argc)
		opt_misuse("nothing to do");
	for (size_t v = 0; v < sizeof(run) / sizeof(*run); v++)
		if (!strcmp(argv[i], verbs[v].name)) {
			open_state(v);
			return run[v](argc - i - 1, argv + i + 1);
		}
	opt_misuse("'%s' is no verb", argv[i]);
}
