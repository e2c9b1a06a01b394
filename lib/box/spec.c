#include "box/spec.h"

#include <stdio.h>
#include <string.h>

#include "base/die.h"

const char *spec_next(const struct spec *s, const char *key, size_t *i)
{
	while (*i < s->kv.n) {
		const struct kv_pair *p = &s->kv.pair[(*i)++];

		if (!strcmp(p->key, key))
			return p->val;
	}
	return NULL;
}

const char *spec_label(const struct spec *s, const char *key)
{
	size_t i = 0, len = strlen(key);
	const char *l;

	while ((l = spec_next(s, "label", &i)))
		if (!strncmp(l, key, len) && l[len] == '=')
			return l + len + 1;
	return NULL;
}

int spec_has_label(const struct spec *s, const char *label)
{
	const char *eq = strchr(label, '=');
	autofree char *key = xstrdup(label);
	const char *val;

	key[strcspn(key, "=")] = 0;
	val = spec_label(s, key);
	return val && (!eq || !strcmp(val, eq + 1));
}

void spec_free(struct spec *s)
{
	kv_free(&s->kv);
}

int spec_load(const struct state *st, const char *id, struct spec *s)
{
	char path[ID_MAX + 8];
	const struct kv *kv = &s->kv;

	memset(s, 0, sizeof(*s));
	snprintf(path, sizeof(path), "%s/spec", id);
	if (kv_load(&s->kv, st->box, path) < 0)
		return fail_more("box '%s'", id);
	s->id = kv_str(kv, "id", "");
	s->name = kv_str(kv, "name", "");
	s->parent = kv_str(kv, "parent", "");
	s->backend = kv_str(kv, "backend", "container");
	s->image = kv_str(kv, "image", "");
	s->image_digest = kv_str(kv, "image_digest", "");
	s->user = kv_str(kv, "user", "");
	s->workdir = kv_str(kv, "workdir", "");
	s->hostname = kv_str(kv, "hostname", "");
	s->net = kv_str(kv, "net", "none");
	s->seccomp = kv_str(kv, "seccomp", "default");
	s->no_new_privs = kv_u64(kv, "no_new_privs", 0) != 0;
	s->trace = kv_u64(kv, "trace", 0) != 0;
	s->mem_bytes = kv_u64(kv, "mem_bytes", 0);
	s->pids = kv_u64(kv, "pids", 0);
	s->cpu_milli = kv_u64(kv, "cpu_milli", 0);
	s->ttl_ms = kv_u64(kv, "ttl_ms", 0);
	s->idle_ms = kv_u64(kv, "idle_ms", 0);
	s->created_ms = kv_u64(kv, "created_ms", 0);
	s->max_output = kv_u64(kv, "max_output", 0);
	s->slot = (uint32_t)kv_u64(kv, "slot", UINT32_MAX);
	s->id_base = (uint32_t)kv_u64(kv, "id_base", 0);
	s->id_count = (uint32_t)kv_u64(kv, "id_count", 0);
	if (strcmp(s->id, id) != 0 || !s->id_base || s->id_count != SPEC_IDS) {
		spec_free(s);
		return failx("the spec of box '%s' is damaged: sbx-stop it", id);
	}
	return 0;
}
