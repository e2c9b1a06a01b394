#include "store/export.h"

#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/fd.h"
#include "base/num.h"
#include "store/arch.h"
#include "store/digest.h"

/* https://github.com/opencontainers/image-spec: manifest.md, config.md, layer.md */
#define OCI "application/vnd.oci.image."

struct export
{
	struct image_tree *it;
	const struct image *img;
	const char *ref;
	enum export_format format;
	enum export_compress compress;
	struct export_out *out;
	struct export_blob *layer;
};

static void free_object(json_object **j)
{
	json_object_put(*j);
}
#define autojson __attribute__((cleanup(free_object))) json_object

static void put(json_object *j, const char *key, json_object *val)
{
	json_object_object_add(j, key, val);
}

static void put_text(json_object *j, const char *key, const char *s)
{
	if (s && *s)
		put(j, key, json_object_new_string(s));
}

static void put_list(json_object *j, const char *key, char **v)
{
	json_object *list;

	if (!v || !*v)
		return;
	list = json_object_new_array();
	for (; *v; v++)
		json_object_array_add(list, json_object_new_string(*v));
	put(j, key, list);
}

static json_object *sha(const char *hex)
{
	autofree char *s = xasprintf("sha256:%s", hex);

	return json_object_new_string(s);
}

static const char *text(json_object *j)
{
	return json_object_to_json_string_ext(j, JSON_C_TO_STRING_PLAIN |
							 JSON_C_TO_STRING_NOSLASHESCAPE);
}

static json_object *descriptor(const char *type, const char *hex, uint64_t size)
{
	json_object *j = json_object_new_object();

	put(j, "mediaType", json_object_new_string(type));
	put(j, "digest", sha(hex));
	put(j, "size", json_object_new_int64((int64_t)size));
	return j;
}

/* A document as a member named by its digest. */
static int put_blob(struct export *x, json_object *j, const char *before, const char *behind,
		    char hex[SHA_HEX + 1])
{
	const char *s = text(j);
	autofree char *path = NULL;

	if (sha_hex(s, strlen(s), hex) < 0)
		return -1;
	path = xasprintf("%s%s%s", before, hex, behind);
	return export_out_put(x->out, path, s, strlen(s));
}

static json_object *history(const struct export *x, const char *created)
{
	json_object *list = json_object_new_array();

	for (size_t i = 0; i < x->img->nlayers; i++) {
		json_object *j = json_object_new_object();
		autofree char *by = xasprintf("sbx layer %s (%s)", x->it->layer[i].digest,
					      x->it->layer[i].kind);

		put_text(j, "created", created);
		put_text(j, "created_by", by);
		json_object_array_add(list, j);
	}
	return list;
}

static json_object *config(const struct export *x)
{
	json_object *j = json_object_new_object(), *run = json_object_new_object();
	json_object *rootfs = json_object_new_object(), *ids = json_object_new_array();
	char created[NUM_TEXT];

	num_fmt_time(created, x->img->created_ms);
	put_text(run, "User", x->img->user);
	put_list(run, "Env", x->img->env);
	put_list(run, "Entrypoint", x->img->entrypoint);
	put_list(run, "Cmd", x->img->cmd);
	put_text(run, "WorkingDir", x->img->workdir);
	for (size_t i = 0; i < x->img->nlayers; i++)
		json_object_array_add(ids, sha(x->layer[i].diff));
	put_text(rootfs, "type", "layers");
	put(rootfs, "diff_ids", ids);
	put_text(j, "created", created);
	put_text(j, "architecture", arch_node());
	put_text(j, "os", "linux");
	put(j, "config", run);
	put(j, "rootfs", rootfs);
	put(j, "history", history(x, created));
	return j;
}

static int put_config(struct export *x, const char *before, const char *behind,
		      char hex[SHA_HEX + 1], uint64_t *size)
{
	autojson *j = config(x);

	*size = strlen(text(j));
	return put_blob(x, j, before, behind, hex);
}

static json_object *manifest(const struct export *x, const char *config_hex, uint64_t config_size)
{
	static const char *const types[] = {[EXPORT_NONE] = OCI "layer.v1.tar",
					    [EXPORT_GZIP] = OCI "layer.v1.tar+gzip",
					    [EXPORT_ZSTD] = OCI "layer.v1.tar+zstd"};
	json_object *j = json_object_new_object(), *layers = json_object_new_array();

	for (size_t i = 0; i < x->img->nlayers; i++)
		json_object_array_add(layers, descriptor(types[x->compress], x->layer[i].digest,
							 x->layer[i].size));
	put(j, "schemaVersion", json_object_new_int(2));
	put_text(j, "mediaType", OCI "manifest.v1+json");
	put(j, "config", descriptor(OCI "config.v1+json", config_hex, config_size));
	put(j, "layers", layers);
	return j;
}

static json_object *index_of(const struct export *x, const char *hex, uint64_t size)
{
	json_object *j = json_object_new_object(), *list = json_object_new_array();
	json_object *m = descriptor(OCI "manifest.v1+json", hex, size), *notes, *platform;

	platform = json_object_new_object();
	put_text(platform, "architecture", arch_node());
	put_text(platform, "os", "linux");
	put(m, "platform", platform);
	if (x->ref) {
		notes = json_object_new_object();
		put_text(notes, "org.opencontainers.image.ref.name", x->ref);
		put(m, "annotations", notes);
	}
	json_object_array_add(list, m);
	put(j, "schemaVersion", json_object_new_int(2));
	put_text(j, "mediaType", OCI "index.v1+json");
	put(j, "manifests", list);
	return j;
}

static int describe_oci(struct export *x)
{
	static const char layout[] = "{\"imageLayoutVersion\":\"1.0.0\"}";
	autojson *m = NULL, *index = NULL;
	char hex[SHA_HEX + 1];
	uint64_t size;

	if (put_config(x, "blobs/sha256/", "", hex, &size) < 0)
		return -1;
	m = manifest(x, hex, size);
	if (put_blob(x, m, "blobs/sha256/", "", hex) < 0)
		return -1;
	index = index_of(x, hex, strlen(text(m)));
	if (export_out_put(x->out, "index.json", text(index), strlen(text(index))) < 0)
		return -1;
	return export_out_put(x->out, "oci-layout", layout, strlen(layout));
}

/* As docker save writes it: https://github.com/moby/moby, image/spec/v1.2.md */
static int describe_docker(struct export *x)
{
	autojson *list = json_object_new_array();
	json_object *j = json_object_new_object(), *tags = json_object_new_array();
	json_object *layers = json_object_new_array();
	char hex[SHA_HEX + 1];
	autofree char *name = NULL;
	uint64_t size;

	json_object_array_add(list, j);
	put(j, "RepoTags", tags);
	put(j, "Layers", layers);
	if (put_config(x, "", ".json", hex, &size) < 0)
		return -1;
	name = xasprintf("%s.json", hex);
	put_text(j, "Config", name);
	if (x->ref)
		json_object_array_add(tags, json_object_new_string(x->ref));
	for (size_t i = 0; i < x->img->nlayers; i++) {
		autofree char *layer = xasprintf("%s.tar", x->layer[i].digest);

		json_object_array_add(layers, json_object_new_string(layer));
	}
	return export_out_put(x->out, "manifest.json", text(list), strlen(text(list)));
}

static int write_layer(struct export *x, const struct tree *delta, int root, struct export_blob *b)
{
	autofd fd = export_out_new(x->out);
	autofree char *name = NULL;

	if (fd < 0 || export_tar(x->it, delta, root, x->compress, fd, b) < 0)
		return -1;
	name = x->format == EXPORT_OCI ? xasprintf("blobs/sha256/%s", b->digest)
				       : xasprintf("%s.tar", b->digest);
	return export_out_take(x->out, fd, name, b->size);
}

/* The lowest layer is the tree itself. */
static int next_layer(struct export *x, struct export_blob *b)
{
	int first = !x->it->laid, r = -1, root;
	struct tree *before = first ? tree_new() : tree_copy(x->it->tree), *delta = NULL;

	if (before && image_tree_next(x->it) >= 0)
		delta = first ? x->it->tree : tree_delta(before, x->it->tree);
	if (delta) {
		root = !tree_same_attrs(tree_root(before), tree_root(x->it->tree));
		r = write_layer(x, delta, root, b);
	}
	if (!first)
		tree_free(delta);
	tree_free(before);
	return r;
}

int export_image(struct image_tree *it, const struct image *img, const char *ref,
		 enum export_format format, enum export_compress compress, struct export_out *out)
{
	struct export x = {it, img, ref, format, compress, out, NULL};
	int r = 0;

	x.layer = xcalloc(img->nlayers, sizeof(*x.layer));
	for (size_t i = 0; !r && i < img->nlayers; i++)
		if (next_layer(&x, &x.layer[i]) < 0)
			r = fail_more("layer '%.12s'", it->layer[i].digest);
	if (!r)
		r = format == EXPORT_OCI ? describe_oci(&x) : describe_docker(&x);
	free(x.layer);
	return r;
}
