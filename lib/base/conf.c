#include "base/conf.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/die.h"
#include "base/kv.h"
#include "base/num.h"

#ifndef SBX_SHAREDIR
#define SBX_SHAREDIR "/usr/local/share/sbx"
#endif
#ifndef SBX_LIBEXECDIR
#define SBX_LIBEXECDIR "/usr/local/libexec/sbx"
#endif
#ifndef SBX_SYSCONFDIR
#define SBX_SYSCONFDIR "/etc"
#endif

enum kind { PATH, NODE, COUNT, SIZE, DURATION, CPUS, WORD };

static const struct {
	const char *key, *env;
	enum kind kind;
	size_t at;
	uint64_t max;
} keys[] = {
	{"state", "SBX_STATE", PATH, offsetof(struct conf, state), 0},
	{"run", "SBX_RUN", PATH, offsetof(struct conf, run), 0},
	{"node", "SBX_NODE", NODE, offsetof(struct conf, node), 0},
	{"share", "SBX_SHARE", PATH, offsetof(struct conf, share), 0},
	{"libexec", "SBX_LIBEXEC", PATH, offsetof(struct conf, libexec), 0},
	{"seccomp", NULL, WORD, offsetof(struct conf, seccomp), 0},
	{"max_boxes", NULL, COUNT, offsetof(struct conf, max_boxes), 32768},
	{"id_base", NULL, COUNT, offsetof(struct conf, id_base), 0xfffe0000},
	{"mem", NULL, SIZE, offsetof(struct conf, mem), 0},
	{"pids", NULL, COUNT, offsetof(struct conf, pids), 4194304},
	{"cpus", NULL, CPUS, offsetof(struct conf, cpus), 0},
	{"ttl", NULL, DURATION, offsetof(struct conf, ttl_ms), 0},
	{"idle", NULL, DURATION, offsetof(struct conf, idle_ms), 0},
	{"depot_timeout", NULL, DURATION, offsetof(struct conf, depot_timeout_ms), 0},
	{"depot_abort", NULL, DURATION, offsetof(struct conf, depot_abort_ms), 0},
	{"max_output", NULL, SIZE, offsetof(struct conf, max_output), 0},
	{"mem_reserve", NULL, SIZE, offsetof(struct conf, mem_reserve), 0},
	{"disk_reserve", NULL, SIZE, offsetof(struct conf, disk_reserve), 0},
};

static int set(struct conf *c, size_t k, const char *what, const char *val)
{
	void *to = (char *)c + keys[k].at;

	switch (keys[k].kind) {
	case PATH:
		if (val[0] != '/')
			return failx("%s '%s' is not an absolute path", what, val);
		__attribute__((fallthrough));
	case WORD:
		*(const char **)to = xstrdup(val);
		return 0;
	case NODE:
		if (!id_node_valid(val))
			return failx("%s '%s' is not a node name (1-48 of a-z 0-9 - _)", what, val);
		snprintf(to, ID_NODE_MAX + 1, "%s", val);
		return 0;
	case COUNT:
		return num_u64(what, val, keys[k].max, to);
	case SIZE:
		return num_size(what, val, to);
	case DURATION:
		return num_duration(what, val, to);
	case CPUS:
		return num_milli(what, val, to);
	}
	return -1;
}

static int from_file(struct conf *c)
{
	const char *named = getenv("SBX_CONFIG");
	const char *path = named && *named ? named : SBX_SYSCONFDIR "/sbx/sbx.conf";
	const size_t nkeys = sizeof(keys) / sizeof(keys[0]);
	autokv kv = {0};

	if (kv_load(&kv, AT_FDCWD, path) < 0)
		return errno == ENOENT && !(named && *named) ? 0 : -1;
	for (size_t i = 0; i < kv.n; i++) {
		char what[512];
		size_t k = 0;

		snprintf(what, sizeof(what), "%s:%d: %s", path, kv.pair[i].line, kv.pair[i].key);
		while (k < nkeys && strcmp(keys[k].key, kv.pair[i].key) != 0)
			k++;
		if (k == nkeys)
			return failx("%s:%d: unknown key '%s'", path, kv.pair[i].line,
				     kv.pair[i].key);
		if (set(c, k, what, kv.pair[i].val) < 0)
			return -1;
	}
	return 0;
}

int conf_load(struct conf *c)
{
	*c = (struct conf){
		.state = "/var/lib/sbx",
		.run = "/run/sbx",
		/* 0x70000000 to 0x7fffffff: above what systemd-nspawn takes, below the sign bit. */
		.max_boxes = 4095,
		.id_base = 0x70000000,
		.mem = 2ull << 30,
		.pids = 1024,
		.max_output = 1 << 20,
		.mem_reserve = 256 << 20,
		.disk_reserve = 512 << 20,
		.depot_timeout_ms = 10000,
		.depot_abort_ms = 120000,
		.seccomp = "default",
		.share = SBX_SHAREDIR,
		.libexec = SBX_LIBEXECDIR,
	};
	if (id_this_node(c->node) < 0 || from_file(c) < 0)
		return -1;
	for (size_t k = 0; k < sizeof(keys) / sizeof(keys[0]); k++) {
		const char *val = keys[k].env ? getenv(keys[k].env) : NULL;

		if (val && *val && set(c, k, keys[k].env, val) < 0)
			return -1;
	}
	if (c->id_base < 65536 || c->id_base + c->max_boxes * 65536 > 0xffffffff)
		return failx("id_base and max_boxes: ids must lie between 65536 and 4294967294");
	return 0;
}
