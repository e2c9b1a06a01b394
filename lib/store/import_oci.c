/*
 * Image layouts: OCI (index.json, manifests and blobs by digest) and docker-save (manifest.json). Both
 * come down to a configuration and a list of layer tars, applied in order to one tree.
 */
#include <archive.h>
#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/buf.h"
#include "base/die.h"
#include "store/arch.h"
#include "store/image_dir.h"
#include "store/import.h"
#include "store/import_src.h"

enum { LAYERS = 1024, NESTED = 4, STRINGS = 4000 };

static void json_free(json_object **j)
{
	json_object_put(*j);
}
#define autojson __attribute__((cleanup(json_free))) json_object

/* Object FIELD of J, NULL if it is absent or of another type. */
static json_object *get(json_object *j, const char *field, json_type type)
{
	json_object *v;

	if (!json_object_is_type(j, json_type_object) || !json_object_object_get_ex(j, field, &v))
		return NULL;
	return json_object_is_type(v, type) ? v : NULL;
}

/* A string without NULs in it; NULL if absent. */
static const char *text(json_object *j, const char *field)
{
	json_object *v = get(j, field, json_type_string);
	const char *s = v ? json_object_get_string(v) : NULL;

	return s && strlen(s) == (size_t)json_object_get_string_len(v) ? s : NULL;
}

static json_object *parse(const struct buf *b, const char *name)
{
	json_tokener *tok = json_tokener_new_ex(64);
	json_object *j = tok ? json_tokener_parse_ex(tok, buf_cstr(b), (int)b->len) : NULL;

	if (!j)
		failx("'%.200s' is not valid JSON", name);
	json_tokener_free(tok);
	return j;
}

static json_object *load(struct source *s, const char *name, const char *hex)
{
	autobuf b = BUF_INIT;

	return source_read(s, name, hex, &b) < 0 ? NULL : parse(&b, name);
}

/* "sha256:HEX" as the name of a blob, and HEX itself within it. */
static const char *blob(json_object *descriptor, char name[128])
{
	const char *d = text(descriptor, "digest");

	if (!d || strncmp(d, "sha256:", 7) != 0 || !sha_valid(d + 7)) {
		failx("a digest '%.80s' that is no sha256", d ? d : "");
		return NULL;
	}
	snprintf(name, 128, "blobs/sha256/%s", d + 7);
	return name + strlen("blobs/sha256/");
}

/* 1 if it can run here, 0 if not; what says nothing is taken. */
static int fits(json_object *platform)
{
	const char *arch = text(platform, "architecture"), *os = text(platform, "os");

	return (!arch || !*arch || !strcmp(arch, arch_node())) &&
	       (!os || !*os || !strcmp(os, "linux"));
}

static int refuse(json_object *platform)
{
	const char *arch = text(platform, "architecture"), *os = text(platform, "os");

	return failx("the image is for %.40s/%.40s, this node is linux/%s", os ? os : "linux",
		     arch ? arch : "?", arch_node());
}

/*
 * The one manifest of an index for this node. Build attestations ride along with the platform
 * "unknown"; several that fit must be one and the same.
 */
static json_object *choose(json_object *index)
{
	json_object *all = get(index, "manifests", json_type_array), *got = NULL, *other = NULL;
	size_t n = all ? json_object_array_length(all) : 0;

	for (size_t i = 0; i < n; i++) {
		json_object *m = json_object_array_get_idx(all, i);
		json_object *platform = get(m, "platform", json_type_object);

		if (platform && !fits(platform)) {
			other = platform;
			continue;
		}
		if (got && strcmp(text(got, "digest") ? text(got, "digest") : "",
				  text(m, "digest") ? text(m, "digest") : "") != 0) {
			failx("the layout holds more than one image: copy the one you mean first "
			      "(skopeo copy oci:DIR:TAG oci:NEW)");
			return NULL;
		}
		got = m;
	}
	if (!got && other)
		refuse(other);
	else if (!got)
		failx("the index names no image");
	return got;
}

/* Follows indexes down to a manifest: a new reference, or NULL after fail(). */
static json_object *manifest(struct source *s)
{
	json_object *j = load(s, "index.json", NULL);

	for (int depth = 0; j && depth < NESTED; depth++) {
		json_object *m, *next = NULL;
		const char *hex;
		char name[128];

		if (get(j, "layers", json_type_array))
			return j;
		m = choose(j);
		hex = m ? blob(m, name) : NULL;
		if (hex)
			next = load(s, name, hex);
		json_object_put(j);
		j = next;
	}
	if (j)
		failx("indexes nested deeper than %d", NESTED);
	json_object_put(j);
	return NULL;
}

static int strings(json_object *j, const char *field, char ***out)
{
	json_object *v = get(j, field, json_type_array);
	size_t n = v ? json_object_array_length(v) : 0;

	if (n > STRINGS)
		return failx("more than %d strings in '%s'", STRINGS, field);
	*out = xcalloc(n + 1, sizeof(char *));
	for (size_t i = 0; i < n; i++) {
		json_object *s = json_object_array_get_idx(v, i);

		if (!json_object_is_type(s, json_type_string) ||
		    strlen(json_object_get_string(s)) != (size_t)json_object_get_string_len(s))
			return failx("'%s' is no list of strings", field);
		(*out)[i] = xstrdup(json_object_get_string(s));
	}
	return 0;
}

/* RFC 3339 in UTC, to the second, as builders write it; 0 if it is not that. */
static uint64_t created(const char *s)
{
	struct tm tm = {0};
	time_t t;

	if (!s || sscanf(s, "%4d-%2d-%2dT%2d:%2d:%2d", &tm.tm_year, &tm.tm_mon, &tm.tm_mday,
			 &tm.tm_hour, &tm.tm_min, &tm.tm_sec) != 6)
		return 0;
	tm.tm_year -= 1900;
	tm.tm_mon -= 1;
	t = timegm(&tm);
	return t > 0 ? (uint64_t)t * 1000 : 0;
}

/* The image configuration; both formats share it. */
static int config(json_object *j, struct import_config *c)
{
	json_object *run = get(j, "config", json_type_object);
	const char *user = text(run, "User"), *dir = text(run, "WorkingDir");

	if (!fits(j))
		return refuse(j);
	c->img.created_ms = created(text(j, "created"));
	c->img.user = xstrdup(user ? user : "");
	c->img.workdir = xstrdup(dir ? dir : "");
	if (strings(run, "Env", &c->img.env) < 0 ||
	    strings(run, "Entrypoint", &c->img.entrypoint) < 0)
		return -1;
	return strings(run, "Cmd", &c->img.cmd);
}

static int untar(struct import *im, struct stream *s)
{
	struct archive *a = stream_reader(s, STREAM_TAR);
	int r = a ? import_tar(im, a, 1) : -1;

	archive_read_free(a);
	return r;
}

/* A layer named by the digest of its bytes as they lie there. */
static int oci_layer(struct import *im, struct source *src, struct import_config *c,
		     const char *name, const char *hex)
{
	struct stream *s = source_open(src, name);
	char got[SHA_HEX + 1];
	int r = -1;

	if (!s)
		return -1;
	stream_hash(s);
	if (!import_next(im, c, s->size) && !untar(im, s) && !stream_finish(s, got))
		r = strcmp(hex, got) ? failx("it is damaged: its digest is %s", got) : 0;
	stream_close(s);
	return r;
}

/* A layer known by the digest of the tar in it (HEX; NULL if the archive tells none). */
static int docker_layer(struct import *im, struct source *src, struct import_config *c,
			const char *name, const char *hex)
{
	struct stream *outer = source_open(src, name), *s = NULL;
	struct archive *a = outer ? stream_reader(outer, STREAM_RAW) : NULL;
	struct archive_entry *e;
	char got[SHA_HEX + 1];
	int r = -1, head = a ? archive_read_next_header(a, &e) : ARCHIVE_FATAL;

	if (a && (head == ARCHIVE_OK || head == ARCHIVE_WARN)) {
		s = stream_archive(a);
		stream_hash(s);
		if (!import_next(im, c, outer->size) && !untar(im, s) && !stream_finish(s, got))
			r = hex && strcmp(hex, got) != 0
				    ? failx("it is damaged: its digest is %s", got)
				    : 0;
	} else if (a) {
		failx("cannot read the layer: %s",
		      archive_error_string(a) ? archive_error_string(a) : "it is empty");
		archive_read_free(a);
	}
	stream_close(s);
	stream_close(outer);
	return r;
}

static int count_ok(json_object *layers)
{
	if (json_object_array_length(layers) <= LAYERS)
		return 0;
	return failx("an image of more than %d layers", LAYERS);
}

int import_oci(struct import *im, struct source *s, struct import_config *c)
{
	autojson *m = manifest(s), *conf = NULL;
	json_object *layers = m ? get(m, "layers", json_type_array) : NULL;
	char name[128];
	const char *hex;

	c->kind = "oci";
	if (!m)
		return -1;
	hex = blob(get(m, "config", json_type_object), name);
	conf = hex ? load(s, name, hex) : NULL;
	if (!conf || config(conf, c) < 0 || count_ok(layers) < 0)
		return -1;
	for (size_t i = 0; i < json_object_array_length(layers); i++) {
		json_object *layer = json_object_array_get_idx(layers, i);
		const char *type = text(layer, "mediaType");

		if (type && strstr(type, "encrypted"))
			return failx("layer %zu is encrypted", i + 1);
		hex = blob(layer, name);
		if (!hex || oci_layer(im, s, c, name, hex) < 0)
			return fail_more("layer %zu", i + 1);
	}
	return 0;
}

static int docker_layers(struct import *im, struct source *s, struct import_config *c,
			 json_object *layers, json_object *conf)
{
	json_object *rootfs = get(conf, "rootfs", json_type_object);
	json_object *ids = get(rootfs, "diff_ids", json_type_array);

	for (size_t i = 0; i < json_object_array_length(layers); i++) {
		json_object *name = json_object_array_get_idx(layers, i);
		json_object *id = ids ? json_object_array_get_idx(ids, i) : NULL;
		const char *hex = id ? json_object_get_string(id) : NULL;

		if (!json_object_is_type(name, json_type_string))
			return failx("layer %zu has no name", i + 1);
		if (hex && (strncmp(hex, "sha256:", 7) != 0 || !sha_valid(hex + 7)))
			return failx("layer %zu has a digest that is no sha256", i + 1);
		if (docker_layer(im, s, c, json_object_get_string(name), hex ? hex + 7 : NULL) < 0)
			return fail_more("layer %zu", i + 1);
	}
	return 0;
}

int import_docker(struct import *im, struct source *s, struct import_config *c)
{
	autojson *list = load(s, "manifest.json", NULL), *conf = NULL;
	json_object *one, *layers;
	const char *name;

	c->kind = "docker";
	if (!list)
		return -1;
	if (!json_object_is_type(list, json_type_array) || !json_object_array_length(list))
		return failx("'manifest.json' names no image");
	if (json_object_array_length(list) > 1)
		return failx("the archive holds more than one image: save them one by one");
	one = json_object_array_get_idx(list, 0);
	name = text(one, "Config");
	layers = get(one, "Layers", json_type_array);
	if (!name || !layers)
		return failx("'manifest.json' names no configuration or no layers");
	conf = load(s, name, NULL);
	if (!conf || config(conf, c) < 0 || count_ok(layers) < 0)
		return -1;
	return docker_layers(im, s, c, layers, conf);
}
