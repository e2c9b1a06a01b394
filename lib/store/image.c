#include "store/image.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/die.h"
#include "base/fd.h"
#include "base/kv.h"
#include "store/image_dir.h"

enum { LIST_MAX = 4096 };

/* Room was made for all pairs and the final NULL. */
static void list_add(char **list, const char *val)
{
	while (*list)
		list++;
	*list = xstrdup(val);
}

static int fill(struct image *img, const struct kv *kv, const char *path)
{
	img->layer = xcalloc(kv->n + 1, sizeof(*img->layer));
	img->env = xcalloc(kv->n + 1, sizeof(char *));
	img->entrypoint = xcalloc(kv->n + 1, sizeof(char *));
	img->cmd = xcalloc(kv->n + 1, sizeof(char *));
	for (size_t i = 0; i < kv->n; i++) {
		const char *key = kv->pair[i].key, *val = kv->pair[i].val;

		if (!strcmp(key, "layer")) {
			if (!sha_valid(val) || img->nlayers >= IMAGE_LAYERS)
				return failx("%s:%d: bad layer", path, kv->pair[i].line);
			memcpy(img->layer[img->nlayers++], val, IMAGE_DIGEST + 1);
		} else if (!strcmp(key, "env")) {
			list_add(img->env, val);
		} else if (!strcmp(key, "entrypoint")) {
			list_add(img->entrypoint, val);
		} else if (!strcmp(key, "cmd")) {
			list_add(img->cmd, val);
		}
	}
	img->workdir = xstrdup(kv_str(kv, "workdir", ""));
	img->user = xstrdup(kv_str(kv, "user", ""));
	img->created_ms = kv_u64(kv, "created_ms", 0);
	img->size_bytes = kv_u64(kv, "size_bytes", 0);
	return img->nlayers ? 0 : failx("%s: no layer", path);
}

int image_load_digest(const struct state *st, const char *digest, struct image *img)
{
	char path[128];
	autokv kv = {0};

	memset(img, 0, sizeof(*img));
	snprintf(path, sizeof(path), "img/image/%.*s", IMAGE_DIGEST, digest);
	if (kv_load(&kv, st->state, path) < 0)
		return -1;
	memcpy(img->digest, digest, IMAGE_DIGEST);
	if (kv.n > LIST_MAX || fill(img, &kv, path) < 0) {
		image_free(img);
		return kv.n > LIST_MAX ? failx("%s: too many lines", path) : -1;
	}
	return 0;
}

static void free_list(char **list)
{
	for (char **p = list; p && *p; p++)
		free(*p);
	free(list);
}

void image_free(struct image *img)
{
	free(img->layer);
	free_list(img->env);
	free_list(img->entrypoint);
	free_list(img->cmd);
	free(img->workdir);
	free(img->user);
	memset(img, 0, sizeof(*img));
}

int image_split(const char *ref, char name[IMAGE_NAME + 1], char tag[IMAGE_TAG + 1])
{
	const char *slash = strrchr(ref, '/'), *colon = strchr(slash ? slash : ref, ':');
	size_t len = colon ? (size_t)(colon - ref) : strlen(ref), at = 0;
	size_t end = strlen(ref);

	*name = *tag = 0;
	/* A tag "x.new" is the name under which a tag "x" is being written. */
	if (len > IMAGE_NAME || (colon && !id_label_valid(colon + 1)) ||
	    (colon && end > 4 && !strcmp(ref + end - 4, ".new")))
		return failx("'%.200s' is no image name (NAME[:TAG])", ref);
	memcpy(name, ref, len);
	name[len] = 0;
	snprintf(tag, IMAGE_TAG + 1, "%s", colon ? colon + 1 : "latest");
	for (;; at++) {
		char part[64];
		size_t n = strcspn(name + at, "/");

		snprintf(part, sizeof(part), "%.*s", (int)n, name + at);
		if (n > 63 || !id_label_valid(part))
			return failx("'%.200s' is no image name (NAME[:TAG])", ref);
		at += n;
		if (!name[at])
			return 0;
	}
}

int image_name_path(const char *name, const char *tag, char path[IMAGE_PATH])
{
	size_t n = (size_t)snprintf(path, IMAGE_PATH, "img/name/");

	for (; *name && n < IMAGE_PATH - IMAGE_TAG - 6; name++)
		if (*name == '/')
			n += (size_t)snprintf(path + n, IMAGE_PATH - n, "%%2F");
		else
			path[n++] = *name;
	if (*name)
		return failx("an image name is too long");
	snprintf(path + n, IMAGE_PATH - n, "%s%s", tag ? "/" : "", tag ? tag : "");
	return 0;
}

/* The digest a name file holds. 1 found, 0 no such name, -1 after fail(). */
int image_read_name(const struct state *st, const char *path, char digest[IMAGE_DIGEST + 1])
{
	autobuf b = BUF_INIT;

	if (fd_read_file(st->state, path, 128, &b) < 0)
		return errno == ENOENT || errno == ENOTDIR ? 0 : -1;
	if (b.len && b.p[b.len - 1] == '\n')
		b.p[--b.len] = 0;
	if (!sha_valid(buf_cstr(&b)))
		return failx("'%s' holds no image digest", path);
	memcpy(digest, b.p, IMAGE_DIGEST + 1);
	return 1;
}

static int by_prefix(const struct state *st, const char *ref, char digest[IMAGE_DIGEST + 1])
{
	size_t len = strlen(ref);
	struct dirent *e;
	int found = 0;
	DIR *d;

	if (len < 8 || len > IMAGE_DIGEST || strspn(ref, "0123456789abcdef") != len)
		return 0;
	d = state_opendir(st, "img/image");
	if (!d)
		return errno == ENOENT ? 0 : -1;
	while ((e = readdir(d))) {
		if (!sha_valid(e->d_name) || strncmp(e->d_name, ref, len) != 0)
			continue;
		memcpy(digest, e->d_name, IMAGE_DIGEST + 1);
		found++;
	}
	closedir(d);
	if (found > 1)
		return failx("'%s' is the start of more than one image digest", ref);
	return found;
}

int image_resolve(const struct state *st, const char *ref, char digest[IMAGE_DIGEST + 1])
{
	char name[IMAGE_NAME + 1], tag[IMAGE_TAG + 1], path[IMAGE_PATH];
	char other[IMAGE_DIGEST + 1];
	int r;

	if (!strncmp(ref, "sha256:", 7) && sha_valid(ref + 7))
		ref += 7;
	if (sha_valid(ref)) {
		r = by_prefix(st, ref, digest);
	} else {
		if (image_split(ref, name, tag) < 0 || image_name_path(name, tag, path) < 0)
			return -1;
		r = image_read_name(st, path, digest);
		if (!r)
			r = by_prefix(st, ref, digest);
		else if (r > 0 && by_prefix(st, ref, other) == 1 && strcmp(other, digest) != 0)
			return failx("'%s' is an image's name and the start of another's digest: "
				     "write %s:%s, or more of the digest",
				     ref, name, tag);
	}
	if (r)
		return r < 0 ? -1 : 0;
	if (st->box < 0)
		return failx("no image '%.200s' in '%s' (see sbx-img ls --depot %s)", ref,
			     st->conf.state, st->conf.state);
	return failx("no image '%.200s' on this node (see sbx-img ls)", ref);
}

int image_load(const struct state *st, const char *ref, struct image *img)
{
	char digest[IMAGE_DIGEST + 1];

	memset(img, 0, sizeof(*img));
	if (image_resolve(st, ref, digest) < 0)
		return -1;
	return image_load_digest(st, digest, img);
}
