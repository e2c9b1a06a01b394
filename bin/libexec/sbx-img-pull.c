/*
 * Brings an image from a registry, or from anywhere else that skopeo reads, onto this node. skopeo
 * writes an OCI layout into a staging directory, which is then imported. If this dies half-way, skopeo
 * dies with it, and the directory, in STATE/img/tmp, is cleared by the next import, pull or removal.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/die.h"
#include "base/opt.h"
#include "kern/mnt.h"
#include "store/import.h"

enum { DIGITS = 12 }; /* of a digest, as a tag */

static const char *name;
static int quiet, insecure;
static uint64_t collapse = IMPORT_COLLAPSE;

static const struct opt opts[] = {
	{0, "name", "NAME[:TAG]", OPT_STR, &name, "the image's name (the last part of REFERENCE)"},
	{0, "collapse", "SIZE", OPT_SIZE, &collapse, "merge layers up to this (3G; 0: none)"},
	{0, "insecure", NULL, OPT_FLAG, &insecure, "allow http and certificates nobody knows"},
	{'q', "quiet", NULL, OPT_FLAG, &quiet, "nothing of skopeo's progress, and no notes"},
	{0},
};

static const struct opt_tool tool = {
	.usage = "[--name NAME[:TAG]] [--collapse SIZE] [--insecure] REFERENCE",
	.purpose =
		"Bring an image from a registry onto this node, by skopeo; prints its digest.\n"
		"REFERENCE is docker://HOST/NAME[:TAG], or another of skopeo's: "
		"docker-archive:FILE,\n"
		"oci-archive:FILE, oci:DIR, dir:DIR, docker-daemon:NAME, containers-storage:NAME.",
	.opts = opts,
	.operands = -1,
	.operand = "",
};

/*
 * What comes after the transport; NULL after fail(). A reference begins with one of these words, so it
 * can be no option of skopeo's.
 */
static const char *after_transport(const char *ref)
{
	static const char *const words[] = {
		"docker://", "docker-archive:", "docker-daemon:",      "oci:",
		"dir:",	     "oci-archive:",	"containers-storage:", "ostree:",
	};

	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
		if (!strncmp(ref, words[i], strlen(words[i])) && ref[strlen(words[i])])
			return ref + strlen(words[i]);
	failx("'%.200s' is no reference: write docker://HOST/NAME[:TAG], or docker-archive:FILE, "
	      "oci:DIR",
	      ref);
	return NULL;
}

/* NAME[:TAG] of the last part of what REST says; a digest's beginning stands for a tag. To free. */
static char *default_name(const char *rest)
{
	const char *end = *rest == '[' ? strchr(rest, ']') : NULL;
	const char *start = end ? end + 1 : rest;
	const char *at = strstr(start, "@sha256:");
	autofree char *copy =
		xasprintf("%.*s", (int)(at ? at - start : (long)strlen(start)), start);
	const char *slash = strrchr(copy, '/'), *last = slash ? slash + 1 : copy;
	const char *first = strchr(last, ':'), *colon = strrchr(last, ':');

	/* FILE:NAME:TAG */
	if (first != colon)
		last = first + 1;
	if (at && !colon)
		return xasprintf("%s:%.*s", last, DIGITS, at + strlen("@sha256:"));
	return xstrdup(last);
}

static void check_name(const char *rest)
{
	char part[IMAGE_NAME + 1], tag[IMAGE_TAG + 1];
	int given = name != NULL;

	if (!given)
		name = default_name(rest);
	if (image_split(name, part, tag) < 0) {
		if (!given)
			failx("cannot make a name of '%.200s': give one with --name", name);
		die();
	}
}

static _Noreturn void run_skopeo(pid_t parent, const char *ref, const char *to)
{
	const char *argv[12] = {"skopeo", "copy", "--dest-oci-accept-uncompressed-layers"};
	size_t n = 3;

	/* A download that nobody waits for must not go on into a directory that was cleared. */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent)
		_exit(EX_SBX);
	signal(SIGPIPE, SIG_DFL);
	/* Our standard output is for the digest. */
	dup2(STDERR_FILENO, STDOUT_FILENO);
	if (quiet || !isatty(STDERR_FILENO))
		argv[n++] = "--quiet";
	if (insecure)
		argv[n++] = "--src-tls-verify=false";
	argv[n++] = "--";
	argv[n++] = ref;
	argv[n++] = to;
	execvp(*argv, (char *const *)argv);
	_exit(errno == ENOENT ? EX_NOENT : EX_NOEXEC);
}

static int wait_for(pid_t pid)
{
	int status;

	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return fail("cannot wait for skopeo");
	if (WIFSIGNALED(status))
		return failx("skopeo was ended by signal %d", WTERMSIG(status));
	if (WEXITSTATUS(status) == EX_NOENT)
		return failx("cannot find skopeo: install the package 'skopeo'");
	if (WEXITSTATUS(status) == EX_NOEXEC)
		return failx("cannot run skopeo: it is no program for this node");
	return WEXITSTATUS(status)
		       ? failx("skopeo could not read it (exit code %d)", WEXITSTATUS(status))
		       : 0;
}

/* A colon ends the path in what skopeo is told. */
static int download(const char *ref, const char *layout)
{
	autofree char *to = xasprintf("oci:%s:image", layout);
	pid_t parent = getpid(), pid;

	if (strchr(layout, ':'))
		return failx("skopeo cannot write to '%s': its path has a colon", layout);
	pid = fork();
	if (!pid)
		run_skopeo(parent, ref, to);
	return pid < 0 ? fail("cannot start skopeo") : wait_for(pid);
}

static int pull(const struct state *st, const char *ref, char digest[IMAGE_DIGEST + 1])
{
	struct import im = {.unmount = mnt_unmount, .collapse = collapse, .source = ref};
	autobuf note = BUF_INIT;
	struct stage stage;
	int r = stage_open(&stage, st, mnt_unmount);
	autofree char *layout = xasprintf("%s/pulled", stage.path);

	if (!r && (r = download(ref, layout)) < 0)
		fail_more("cannot pull '%s'", ref);
	if (!r)
		r = import_run(st, &im, layout, name, digest);
	if (!r && !quiet && import_left_out(&im, &note))
		warnf("%s", buf_cstr(&note));
	return stage_close(&stage, r);
}

int main(int argc, char **argv)
{
	int i = opt_parse(&tool, argc, argv);
	char digest[IMAGE_DIGEST + 1];
	struct state st;
	const char *rest;

	if (i + 1 != argc)
		opt_misuse("one reference is needed");
	rest = after_transport(argv[i]);
	if (!rest)
		die();
	check_name(rest);
	if (state_open(&st, 1) < 0 || pull(&st, argv[i], digest) < 0)
		die();
	puts(digest);
	return finish(stdout);
}
