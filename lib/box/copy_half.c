#include "box/copy_half.h"

#include <archive.h>
#include <errno.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/die.h"
#include "box/copy_put.h"
#include "box/copy_walk.h"
#include "box/user.h"
#include "kern/caps.h"
#include "kern/ns.h"

enum { BLOCK = 256 * 1024 };
/* CHOWN, DAC_OVERRIDE, FOWNER, FSETID: of what the box's root has, the part that files need. */
#define CAPS_FILES (0x1bull & CAPS_DEFAULT)

static struct archive *open_stream(const struct half *h)
{
	struct archive *a = archive_read_new();
	int r = a ? archive_read_support_format_tar(a) : ARCHIVE_FATAL;

	/* Our own stream is never compressed: less code to feed hostile bytes to. */
	if (r == ARCHIVE_OK && h->direct) {
		archive_read_support_filter_gzip(a);
		archive_read_support_filter_bzip2(a);
		archive_read_support_filter_xz(a);
		archive_read_support_filter_zstd(a);
	}
	if (r != ARCHIVE_OK || archive_read_open_fd(a, h->data, BLOCK) != ARCHIVE_OK) {
		failx("cannot read the tar stream: %s",
		      a && archive_error_string(a) ? archive_error_string(a) : "?");
		errno = EPIPE;
		archive_read_free(a);
		return NULL;
	}
	return a;
}

static int receive(const struct half *h, struct put *p)
{
	struct archive *a = open_stream(h);
	int r = a ? copy_receive(p, a) : -1, err = errno;

	archive_read_free(a);
	put_free(p);
	errno = err;
	return r;
}

int half_host(const struct half *h, int *code)
{
	struct side s;
	struct put p;
	int r;

	if (side_host(&s, h->c) < 0)
		return -1;
	put_init(&p, &s);
	r = h->c->into ? copy_send(&s, h->data, 1) : receive(h, &p);
	*code = s.code;
	return r;
}

static int fill_box(const struct half *h, struct side *s)
{
	struct user u;
	struct put p;

	put_init(&p, s);
	p.stream = h->direct;
	p.owner = p.stream && !h->c->owner ? PUT_STREAM : PUT_GIVEN;
	if (p.owner == PUT_GIVEN) {
		if (user_find_in(h->root, h->owner, &u) < 0)
			return -1;
		p.uid = u.uid;
		p.gid = u.gid;
	}
	return receive(h, &p);
}

static int by_number(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

/* Every other descriptor of the node is closed, not left to an exec that never comes. */
static int close_others(const struct half *h, const struct side *s)
{
	int keep[] = {2, h->root, h->pid1, h->data, s->proc};
	unsigned from = 0;

	qsort(keep, sizeof(keep) / sizeof(keep[0]), sizeof(keep[0]), by_number);
	for (size_t i = 0; i < sizeof(keep) / sizeof(keep[0]); i++) {
		if ((unsigned)keep[i] > from &&
		    syscall(SYS_close_range, from, (unsigned)keep[i] - 1, 0) < 0)
			return fail("cannot close descriptors");
		from = (unsigned)keep[i] + 1;
	}
	return syscall(SYS_close_range, from, ~0u, 0) < 0 ? fail("cannot close descriptors") : 0;
}

/*
 * The rights of the box's root and nothing of its world: the node's mount, pid and network
 * namespaces stay, and no root directory changes, so that no library of the box can be loaded
 * (CVE-2019-14271) and nobody in the box sees this process. It must not be traced either.
 */
static int become_root_of_box(const struct half *h, int parent)
{
	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		return fail("cannot hide the copy's memory");
	if (ns_enter(h->pid1, CLONE_NEWUSER, "user namespace") < 0 || caps_bound(CAPS_FILES) < 0)
		return -1;
	if (setgroups(0, NULL) < 0 || setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0)
		return fail("cannot become root of the box");
	/* These two are undone by a change of user (prctl(2)). */
	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 || prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
		return fail("cannot hide the copy's memory");
	if (caps_set(CAPS_FILES) < 0)
		return -1;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return fail("cannot set no_new_privs");
	umask(0);
	return getppid() == parent ? 0 : failx("the copy's other half has ended");
}

_Noreturn void half_box(const struct half *h, int parent)
{
	struct side s;
	int r = -1;

	if (!side_box(&s, h->c, h->root, h->pid1) && !close_others(h, &s) &&
	    !become_root_of_box(h, parent)) {
		errno = 0;
		r = h->c->into ? fill_box(h, &s) : copy_send(&s, h->data, !h->direct);
	}
	if (r < 0 && (h->direct || errno != EPIPE))
		h->c->say();
	_exit(r < 0 ? fail_code() : s.code);
}
