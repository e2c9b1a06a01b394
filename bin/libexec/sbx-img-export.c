/*
 * An image as others take it. Reads STATE/img and writes DEST, which appears when it is complete; what
 * a killed export leaves is named .sbx-export.* beside it.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/die.h"
#include "base/fd.h"
#include "base/opt.h"
#include "store/export.h"

static const char *format_word = "oci", *compress_word, *name;

static const struct opt opts[] = {
	{0, "format", "oci|docker", OPT_STR, &format_word, "kind of image (oci)"},
	{0, "compress", "none|gzip|zstd", OPT_STR, &compress_word,
	 "of the layers (oci: gzip; docker: none)"},
	{0, "name", "REF", OPT_STR, &name, "the name it bears (IMAGE, if that is a name)"},
	{0},
};

static const struct opt_tool tool = {
	.usage = "[--format oci|docker] [--compress none|gzip|zstd] [--name REF] IMAGE DEST",
	.purpose = "Write an image as an OCI layout or docker archive. DEST is a tar, a directory "
		   "for an\n"
		   "OCI layout (it exists and is empty, or ends in /), or - for a tar to stdout.",
	.opts = opts,
	.operands = -1,
	.operand = "IMAGE FILE",
};

static int choose(const char *what, const char *word, const char *const *words)
{
	for (int i = 0; words[i]; i++)
		if (!strcmp(word, words[i]))
			return i;
	opt_misuse("'%s' is no %s", word, what);
}

/* The name it has there: as given, or the operand's with its tag; NULL for a digest. */
static const char *reference(const struct state *st, const char *ref, enum export_format format)
{
	static char full[IMAGE_NAME + IMAGE_TAG + 2];
	const char *slash = name ? strrchr(name, '/') : NULL;
	char base[IMAGE_NAME + 1], tag[IMAGE_TAG + 1];
	struct image_name *v;
	size_t n;

	/* Docker's names have a tag. */
	if (name && format == EXPORT_DOCKER && !strchr(slash ? slash : name, ':'))
		return xasprintf("%s:latest", name);
	if (name)
		return name;
	if (image_split(ref, base, tag) < 0 || image_names(st, &v, &n) < 0)
		return NULL;
	for (size_t i = 0; i < n; i++)
		if (!strcmp(v[i].name, base) && !strcmp(v[i].tag, tag)) {
			snprintf(full, sizeof(full), "%s:%s", base, tag);
			return full;
		}
	return NULL;
}

static void load(const struct state *st, const char *ref, struct image *img, struct image_tree *it)
{
	autofd hold = image_hold(st);

	if (hold < 0 || image_load(st, ref, img) < 0)
		die();
	if (image_tree_open(it, st, img) < 0)
		die();
}

int main(int argc, char **argv)
{
	static const char *const formats[] = {"oci", "docker", NULL};
	static const char *const compressions[] = {"none", "gzip", "zstd", NULL};
	int i = opt_parse(&tool, argc, argv), r;
	enum export_format format;
	enum export_compress compress = EXPORT_GZIP;
	struct export_out out;
	struct image_tree it;
	struct image img;
	struct state st;

	if (argc - i != 2)
		opt_misuse("export takes an image and where to write it");
	format = (enum export_format)choose("format", format_word, formats);
	if (compress_word)
		compress = (enum export_compress)choose("compression", compress_word, compressions);
	else if (format == EXPORT_DOCKER)
		compress = EXPORT_NONE;
	if (!strcmp(argv[i + 1], "-") && isatty(STDOUT_FILENO))
		opt_misuse("stdout is a terminal");
	if (state_open(&st, 0) < 0)
		die();
	load(&st, argv[i], &img, &it);
	r = export_out_open(&out, argv[i + 1], st.conf.state);
	if (!r && format == EXPORT_DOCKER && export_out_is_dir(&out))
		r = failx("'%s' is a directory: a docker archive is one file", argv[i + 1]);
	if (!r)
		r = export_image(&it, &img, reference(&st, argv[i], format), format, compress,
				 &out);
	if (!r)
		r = export_out_finish(&out);
	export_out_close(&out);
	if (r < 0)
		fail_more("cannot export '%s'", argv[i]), die();
	image_tree_close(&it);
	image_free(&img);
	return 0;
}
