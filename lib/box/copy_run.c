#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/die.h"
#include "base/fd.h"
#include "base/kv.h"
#include "box/client.h"
#include "box/copy_half.h"
#include "box/spec.h"
#include "kern/ns.h"

/* A box half that sees the end of its box ends by itself; one that waits for bytes is killed. */
enum { GONE_MS = 1000, PIPE_BYTES = 1 << 20, LOG_PATH_MAX = 4096 };

/* The box's root directory and its pid 1, from its keeper, which writes the copy into its log. */
static int ask_keeper(const struct state *st, const struct copy *c, struct half *h)
{
	autofd ctl = client_connect(st, c->id);
	const char *path = c->into ? c->dst : c->src[0];
	int fds[SOCK_FDS], nfds = 0, r;
	autobuf b = BUF_INIT;
	autokv answer = {0};

	if (ctl < 0)
		return -1;
	kv_put_line(&b, "op", "root");
	kv_put_line(&b, "what", c->into ? "in" : "out");
	kv_put_bytes(&b, "path", path, strnlen(path, LOG_PATH_MAX));
	kv_put_num(&b, "by", getuid());
	r = client_call(ctl, &b, &answer, fds, &nfds);
	if (r == 0 && nfds == 2) {
		h->root = fds[0];
		h->pid1 = fds[1];
		return 0;
	}
	while (nfds--)
		close(fds[nfds]);
	return r < 0 ? -1 : failx("the keeper of box '%s' gives no root directory", c->id);
}

/* The box half's exit code; EX_GONE after fail() if its box ended and it did not notice. */
static int wait_box_half(const struct half *h, pid_t pid, int pidfd)
{
	struct pollfd p[2] = {{pidfd, POLLIN, 0}, {h->pid1, POLLIN, 0}};
	int status, gone = 0;

	while (poll(p, 2, -1) < 0 && errno == EINTR)
		;
	if (!p[0].revents && poll(p, 1, GONE_MS) <= 0) {
		ns_pidfd_kill(pidfd, SIGKILL);
		gone = 1;
	}
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (WIFEXITED(status))
		return WEXITSTATUS(status);
	if (gone)
		fail_as(EX_GONE, "box '%s' has ended under the copy", h->c->id);
	else
		failx("the copy was killed by signal %d", WTERMSIG(status));
	h->c->say();
	return fail_code();
}

/* Both halves at work; DATA[0] is read, DATA[1] written; one of them is the caller's if direct. */
static int run_halves(struct half *h, int data[2])
{
	int mine = h->c->into ? 1 : 0, pidfd = -1, code = 0, r = 0, theirs;
	pid_t parent = getpid(), pid = ns_clone(0, &pidfd, -1);
	autofree char *unsaid = NULL; /* the other half's end explains it, or we have to */

	if (pid < 0) {
		fail("cannot start a process");
		h->c->say();
		return EX_SBX;
	}
	if (pid == 0) {
		h->data = data[!mine];
		half_box(h, parent);
	}
	if (!h->direct) {
		fd_close(&data[!mine]);
		h->data = data[mine];
		r = half_host(h, &code);
		if (r < 0 && errno == EPIPE)
			unsaid = xstrdup(fail_text());
		else if (r < 0)
			h->c->say();
		if (r < 0)
			code = fail_code();
		fd_close(&data[mine]);
	}
	theirs = wait_box_half(h, pid, pidfd);
	close(pidfd);
	if (unsaid && theirs <= EX_NO) {
		failx("%s", unsaid);
		h->c->say();
		return code;
	}
	if (r < 0 && !unsaid)
		return code;
	return theirs ? theirs : code;
}

int copy_run(const struct state *st, const struct copy *c)
{
	struct half h = {.c = c, .root = -1, .pid1 = -1, .owner = c->owner};
	int data[2] = {0, 1}, code = EX_SBX;
	autospec spec = {0};

	h.direct = !strcmp(c->into ? c->src[0] : c->dst, "-");
	if ((!h.owner && spec_load(st, c->id, &spec) < 0) || ask_keeper(st, c, &h) < 0) {
		c->say();
		return fail_code();
	}
	h.owner = h.owner ? h.owner : spec.user;
	if (!h.direct && pipe2(data, O_CLOEXEC) < 0) {
		fail("cannot make a pipe");
		c->say();
	} else {
		fcntl(data[0], F_SETPIPE_SZ, PIPE_BYTES); /* a wish: smaller works too */
		code = run_halves(&h, data);
	}
	close(h.root);
	close(h.pid1);
	return code;
}
