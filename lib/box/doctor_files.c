/* Directories, programs and space a node needs, and what is only worth knowing. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <linux/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/num.h"
#include "box/doctor.h"

/* A directory of ours as state_open() wants it; absent is fine, it will be made. */
static void top_dir(const struct doctor *d, const char *need, const char *path)
{
	autofree char *cure = xasprintf("chown root:root '%s' && chmod 700 '%s'", path, path);
	struct stat st;

	if (stat(path, &st) < 0 && errno == ENOENT)
		need_say(d, NEED_OK, need, NULL, "'%s' will be made", path);
	else if (stat(path, &st) < 0 || !S_ISDIR(st.st_mode))
		need_say(d, NEED_MISSING, need, cure, "'%s' is not a directory", path);
	else if (st.st_uid != geteuid() || (st.st_mode & 022))
		need_say(d, NEED_MISSING, need, cure, "others can write in '%s'", path);
	else
		need_say(d, NEED_OK, need, NULL, "'%s'", path);
}

static void space(const struct doctor *d)
{
	autofree char *up = xstrdup(d->conf->state);
	char have[NUM_TEXT], need[NUM_TEXT];
	struct statvfs v;
	uint64_t free_bytes;

	while (statvfs(up, &v) < 0) {
		if (strrchr(up, '/') <= up) {
			need_say(d, NEED_MISSING, "space", NULL, "cannot ask for the space of '%s'",
				 up);
			return;
		}
		*strrchr(up, '/') = 0;
	}
	free_bytes = (uint64_t)v.f_bavail * v.f_frsize;
	num_fmt_size(have, free_bytes);
	num_fmt_size(need, d->conf->disk_reserve);
	if (free_bytes < d->conf->disk_reserve)
		need_say(d, NEED_MISSING, "space", "sbx-reap; sbx-img gc",
			 "%s free for '%s', %s are kept (disk_reserve)", have, d->conf->state,
			 need);
	else
		need_say(d, NEED_OK, "space", NULL, "%s free for '%s'", have, d->conf->state);
}

static uint64_t meminfo(const char *key)
{
	autobuf b = BUF_INIT;
	const char *p;

	if (fd_read_file(AT_FDCWD, "/proc/meminfo", 65536, &b) < 0)
		return 0;
	p = strstr(buf_cstr(&b), key);
	return p ? strtoull(p + strlen(key), NULL, 10) * 1024 : 0;
}

static void memory(const struct doctor *d)
{
	uint64_t avail = meminfo("MemAvailable:"), swap = meminfo("SwapTotal:");
	char have[NUM_TEXT], need[NUM_TEXT];

	num_fmt_size(have, avail);
	num_fmt_size(need, d->conf->mem_reserve);
	if (avail < d->conf->mem_reserve)
		need_say(d, NEED_MISSING, "memory", "sbx-stop boxes that are not needed",
			 "%s available, %s are kept (mem_reserve)", have, need);
	else
		need_say(d, NEED_OK, "memory", NULL, "%s available", have);
	if (!swap)
		need_say(d, NEED_WARN, "swap",
			 "zramctl -f -s 4G && mkswap /dev/zram0 && swapon /dev/zram0",
			 "no swap: what a box does not touch stays in memory");
	else
		need_say(d, NEED_OK, "swap", NULL, "%s", num_fmt_size(have, swap));
}

/* What runs as root for every box must be nobody else's to change. */
static void program(const struct doctor *d, const char *name)
{
	autofree char *path = xasprintf("%s/%s", d->conf->libexec, name);
	autofree char *chmod = xasprintf("chown root:root '%s' && chmod 755 '%s'", path, path);
	struct stat st;

	if (stat(path, &st) < 0)
		need_say(d, NEED_MISSING, name, "make install, or libexec = DIR in sbx.conf",
			 "cannot find '%s': %s", path, strerror(errno));
	else if (!S_ISREG(st.st_mode) || !(st.st_mode & 0100))
		need_say(d, NEED_MISSING, name, chmod, "'%s' is not a program", path);
	else if ((st.st_uid != 0 && st.st_uid != geteuid()) || (st.st_mode & 022))
		need_say(d, NEED_MISSING, name, chmod, "others can write '%s'", path);
	else
		need_say(d, NEED_OK, name, NULL, "'%s'", path);
}

static void share(const struct doctor *d)
{
	autofree char *path =
		d->conf->seccomp[0] == '/'
			? xstrdup(d->conf->seccomp)
			: xasprintf("%s/seccomp/%s", d->conf->share, d->conf->seccomp);

	if (access(path, R_OK) < 0)
		need_say(d, NEED_MISSING, "share", "make install, or share = DIR in sbx.conf",
			 "cannot read the seccomp profile '%s': %s", path, strerror(errno));
	else
		need_say(d, NEED_OK, "share", NULL, "'%s'", d->conf->share);
}

void doctor_files(const struct doctor *d)
{
	top_dir(d, "state", d->conf->state);
	top_dir(d, "run", d->conf->run);
	space(d);
	memory(d);
	program(d, "sbx-keep");
	program(d, "sbx-init");
	program(d, "sbx-seccomp");
	share(d);
}

void doctor_extras(const struct doctor *d)
{
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, 1 /* ..._VERSION */);
	autobuf lsm = BUF_INIT;
	unsigned long cookie = 0;
	int cookie_known;

	if (abi > 0)
		need_say(d, NEED_INFO, "landlock", NULL, "version %ld", abi);
	else
		need_say(d, NEED_INFO, "landlock", NULL, "not there");
	fd_read_file(AT_FDCWD, "/sys/kernel/security/lsm", 4096, &lsm);
	need_say(d, NEED_INFO, "apparmor", NULL, "%s",
		 strstr(buf_cstr(&lsm), "apparmor") ? "active" : "not active");
	/* Asks for the cookie of this very process: fails only where the kernel has none. */
	cookie_known = !syscall(SYS_prctl, PR_SCHED_CORE, PR_SCHED_CORE_GET, 0, 0, &cookie);
	need_say(d, NEED_INFO, "core-scheduling", NULL, "%s",
		 cookie_known ? "there" : "not there: boxes share the threads of a core");
	need_say(d, NEED_INFO, "kvm", NULL, "%s",
		 access("/dev/kvm", R_OK | W_OK) == 0 ? "there"
						      : "no /dev/kvm: VMs would be emulated");
}
