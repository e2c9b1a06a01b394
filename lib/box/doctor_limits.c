/* Sysctls and limits of the node against the boxes it is configured for. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/buf.h"
#include "base/fd.h"
#include "box/doctor.h"
#include "box/spec.h"

/* The number in a file of /proc/sys; 0 if it cannot be read. */
static uint64_t sysctl(const char *name)
{
	autofree char *path = xasprintf("/proc/sys/%s", name);
	autobuf b = BUF_INIT;

	for (char *p = path + strlen("/proc/sys/"); *p; p++)
		if (*p == '.')
			*p = '/';
	return fd_read_file(AT_FDCWD, path, 4096, &b) < 0 ? 0 : strtoull(buf_cstr(&b), NULL, 10);
}

static void at_least(const struct doctor *d, const char *need, const char *name, uint64_t want,
		     uint64_t set)
{
	uint64_t have = sysctl(name);
	char cure[128];

	snprintf(cure, sizeof(cure), "sysctl -w %s=%llu", name, (unsigned long long)set);
	if (!have)
		need_say(d, NEED_MISSING, need, cure, "%s is 0 or absent", name);
	else if (have < want)
		need_say(d, NEED_WARN, need, cure, "%s is %llu; max_boxes = %llu wants %llu", name,
			 (unsigned long long)have, (unsigned long long)d->conf->max_boxes,
			 (unsigned long long)want);
	else
		need_say(d, NEED_OK, need, NULL, "%s is %llu", name, (unsigned long long)have);
}

/* A box has one of each; net is made per box too, unless it has the node's. */
static void namespace_counts(const struct doctor *d)
{
	static const char *const kinds[] = {"user", "mnt", "pid", "net", "ipc", "uts", "cgroup"};
	const char *lowest = kinds[0];
	char name[64];

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		char low[64];

		snprintf(name, sizeof(name), "user.max_%s_namespaces", kinds[i]);
		snprintf(low, sizeof(low), "user.max_%s_namespaces", lowest);
		if (sysctl(name) < sysctl(low))
			lowest = kinds[i];
	}
	snprintf(name, sizeof(name), "user.max_%s_namespaces", lowest);
	at_least(d, "max-namespaces", name, d->conf->max_boxes + 64, 2 * d->conf->max_boxes + 1024);
}

/* sbx-wait and sbx-stop hold one connection a box. */
static void open_files(const struct doctor *d)
{
	uint64_t want = d->conf->max_boxes + 64;
	struct rlimit r;
	char cure[64];

	snprintf(cure, sizeof(cure), "ulimit -Hn %llu", 2ull * want);
	if (getrlimit(RLIMIT_NOFILE, &r) < 0 || r.rlim_max < want)
		need_say(d, NEED_WARN, "open-files", cure,
			 "the hard limit of open files is %llu; waiting for %llu boxes wants %llu",
			 (unsigned long long)r.rlim_max, (unsigned long long)d->conf->max_boxes,
			 (unsigned long long)want);
	else
		need_say(d, NEED_OK, "open-files", NULL, "the hard limit of open files is %llu",
			 (unsigned long long)r.rlim_max);
}

/* NAME:START:COUNT a line (subuid(5)). Says the first range that shares an id with ours. */
static int overlaps(const struct doctor *d, const char *path)
{
	uint64_t from = d->conf->id_base, to = from + d->conf->max_boxes * SPEC_IDS;
	autobuf b = BUF_INIT;

	if (fd_read_file(AT_FDCWD, path, 1 << 20, &b) < 0)
		return 0;
	for (char *line = b.p, *next; line && *line; line = next) {
		unsigned long long start, count;
		char *nl = strchr(line, '\n');

		next = nl ? nl + 1 : NULL;
		if (nl)
			*nl = 0;
		if (*line == '#' || sscanf(line, "%*[^:]:%llu:%llu", &start, &count) != 2)
			continue;
		if (start >= to || start + count <= from)
			continue;
		need_say(d, NEED_WARN, "ids", "set id_base in sbx.conf to a free range",
			 "%s: '%s' shares ids with the boxes' %llu to %llu", path, line,
			 (unsigned long long)from, (unsigned long long)(to - 1));
		return 1;
	}
	return 0;
}

void doctor_limits(const struct doctor *d)
{
	const struct conf *c = d->conf;

	namespace_counts(d);
	/* A keeper, a pid 1 and some processes of a command in each. */
	at_least(d, "pid-max", "kernel.pid_max", c->max_boxes * 16, 4194304);
	/* Counted in each mount namespace: a box has about forty, the node one for each layer. */
	at_least(d, "mount-max", "fs.mount-max", 10000, 100000);
	at_least(d, "file-max", "fs.file-max", c->max_boxes * 64, c->max_boxes * 256);
	open_files(d);
	if (!overlaps(d, "/etc/subuid") && !overlaps(d, "/etc/subgid"))
		need_say(d, NEED_OK, "ids", NULL, "host ids %llu to %llu are the boxes' alone",
			 (unsigned long long)c->id_base,
			 (unsigned long long)(c->id_base + c->max_boxes * SPEC_IDS - 1));
}
