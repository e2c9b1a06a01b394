/* What a box was asked to be: STATE/box/ID/spec, written once before the box is started. */
#ifndef BOX_SPEC_H
#define BOX_SPEC_H
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/kv.h"
#include "store/state.h"

struct spec {
	struct kv kv; /* owns every string below */
	const char *id;
	const char *name;   /* "" if none, likewise below */
	const char *parent; /* the box it is a fork of */
	const char *backend;
	const char *image, *image_digest;
	const char *user, *workdir, *hostname;
	const char *net;     /* none or host */
	const char *seccomp; /* profile, or "unconfined" is not a thing: always one */
	int no_new_privs;
	int trace; /* layers are mounted for this box alone, so that what it reads can be told */
	uint64_t mem_bytes, pids, cpu_milli;
	uint64_t ttl_ms, idle_ms; /* 0: none */
	uint64_t created_ms;
	uint64_t max_output;
	uint32_t slot, id_base, id_count;
};

enum { SPEC_IDS = 65536 };

/* Every pair with KEY in turn: layer, env (K=V), label (K=V). I starts at 0 and is moved on. */
const char *spec_next(const struct spec *s, const char *key, size_t *i);
const char *spec_label(const struct spec *s, const char *key); /* NULL if the box has none */

int spec_has_label(const struct spec *s, const char *label); /* K: any value, K=V: that one */

int spec_load(const struct state *st, const char *id, struct spec *s); /* ENOENT kept in errno */
void spec_free(struct spec *s);
#define autospec __attribute__((cleanup(spec_free))) struct spec
#endif
