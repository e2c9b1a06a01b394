#include "box/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/die.h"
#include "base/fd.h"
#include "base/num.h"
#include "base/sock.h"
#include "kern/ns.h"
#include "store/log.h"

/*
 * How long the end of a command by SIGKILL may turn out to be the end of the box: pid 1 takes its
 * processes down before it is gone itself.
 */
enum { SETTLE_US = 30000 };

/*
 * How long a box has to freeze. It takes microseconds, but a process that sleeps uninterruptibly
 * freezes when it wakes; the loop waits FREEZE_QUICK_MS for it, then goes round meanwhile.
 */
enum { FREEZE_MS = 10000, FREEZE_QUICK_MS = 5 };

static void answer(struct conn *c, struct buf *b, const int *fds, int nfds)
{
	/* A client that does not read its answer must not stop the box's keeper. */
	if (sock_send(c->fd, b->p, b->len, fds, nfds) < 0)
		shutdown(c->fd, SHUT_RDWR);
}

static void answer_error(struct conn *c, int code, const char *text)
{
	autobuf b = BUF_INIT;

	kv_put_line(&b, "err", text);
	kv_put_num(&b, "code", (uint64_t)code);
	answer(c, &b, NULL, 0);
}

static void answer_ok(struct conn *c)
{
	autobuf b = BUF_INIT;

	kv_put_line(&b, "ok", "1");
	answer(c, &b, NULL, 0);
}

/*
 * A slot nothing lives in, or a new one; NULL after fail(). A group that was killed once is not used
 * again: since Linux 6.14 a process cloned into it is killed on the spot (the kill counter it
 * compares is its parent group's).
 */
static struct slot *take_slot(struct keeper *k)
{
	struct slot *s;

	for (int i = 0; i < k->nslot; i++) {
		s = k->slot[i];
		if (s->used || cgroup_populated(&s->cg) != 0)
			continue;
		if (!s->killed)
			return s;
		cgroup_slot_remove(&k->run.cgroup, s->name, &s->cg);
		k->slot[i--] = k->slot[--k->nslot];
		free(s);
	}
	s = xcalloc(1, sizeof(*s));
	snprintf(s->name, sizeof(s->name), "%d", k->slots_made++);
	if (cgroup_slot(&k->run.cgroup, s->name, &s->cg) < 0) {
		free(s);
		return NULL;
	}
	k->slot = xrealloc(k->slot, (size_t)(k->nslot + 1) * sizeof(struct slot *));
	k->slot[k->nslot++] = s;
	return s;
}

static void copy_pairs(struct buf *b, const struct kv *from, const char *const *keys)
{
	for (; *keys; keys++)
		for (size_t i = 0; i < from->n; i++)
			if (!strcmp(from->pair[i].key, *keys))
				kv_put_bytes(b, *keys, from->pair[i].val, from->pair[i].len);
}

static void exec_begin(struct keeper *k, struct conn *c, const struct kv *req)
{
	static const char *const keys[] = {"argv", "argv_cut", "user", "cwd", "detach",
					   "tty",  "by",       "tool", NULL};
	autobuf b = BUF_INIT;
	struct slot *slot = take_slot(k);
	int fds[PROTO_FD_PIDS + 1], n;
	const struct cgroup *cg;

	if (!slot) {
		answer_error(c, EX_SBX, fail_text());
		return;
	}
	cg = &slot->cg;
	log_start(&b, k->seq + 1, "exec");
	copy_pairs(&b, req, keys);
	if (log_append(k->logfd, &b) < 0) {
		answer_error(c, errno == ENOSPC ? EX_AGAIN : EX_SBX, fail_text());
		return;
	}
	c->kind = CONN_EXEC;
	c->seq = ++k->seq;
	c->slot = slot;
	slot->used = 1;
	k->running++;
	fds[PROTO_FD_PID1] = k->run.pidfd;
	fds[PROTO_FD_V2] = cg->v2;
	fds[PROTO_FD_PTS] = k->run.pts;
	fds[PROTO_FD_MEM] = cg->mem;
	fds[PROTO_FD_CPU] = cg->cpu;
	fds[PROTO_FD_PIDS] = cg->pids;
	n = cg->mem < 0 ? PROTO_FD_MEM : PROTO_FD_PIDS + 1;
	buf_clear(&b);
	kv_put_line(&b, "ok", "1");
	kv_put_num(&b, "seq", c->seq);
	answer(c, &b, fds, n);
}

/* Tells everyone who waits for command SEQ (0: nobody waits for it by that). */
static void tell_waiters(struct keeper *k, uint64_t seq, const struct kv *end,
			 const char *const *keys)
{
	autobuf b = BUF_INIT;

	kv_put_line(&b, "ok", "1");
	kv_put_num(&b, "seq", seq);
	copy_pairs(&b, end, keys);
	for (int i = 0; i < k->nconn; i++)
		if (k->conn[i].fd >= 0 && k->conn[i].kind == CONN_WAIT && k->conn[i].seq == seq)
			answer(&k->conn[i], &b, NULL, 0);
}

static void exec_end(struct keeper *k, struct conn *c, const struct kv *end)
{
	static const char *const keys[] = {"end",	"code",	    "signal",	    "wall_ms",
					   "cpu_ms",	"mem_peak", "stdout_bytes", "stderr_bytes",
					   "truncated", NULL};
	autobuf b = BUF_INIT;

	log_start(&b, c->seq, "end");
	copy_pairs(&b, end, keys);
	log_append(k->logfd, &b); /* a full disk: the command has ended all the same */
	tell_waiters(k, c->seq, end, keys);
	if (!strcmp(kv_str(end, "end", ""), "timeout"))
		c->slot->killed = 1;
	c->slot->used = 0;
	c->kind = CONN_NEW;
	if (!--k->running)
		k->idle_since_us = num_mono_us();
}

static void exec_end_as(struct keeper *k, struct conn *c, const char *how)
{
	autokv end = {0};
	autobuf b = BUF_INIT;
	struct cgroup_usage u;

	cgroup_usage(&c->slot->cg, &u);
	kv_put_line(&b, "end", how);
	kv_put_num(&b, "mem_peak", u.mem_peak);
	if (!kv_parse_line(&end, "end", b.p, b.len))
		exec_end(k, c, &end);
}

void keeper_settle(struct keeper *k, struct conn *c, int died)
{
	autobuf b = BUF_INIT;

	c->settle_us = 0;
	kv_put_line(&b, "ok", "1");
	if (died) {
		kv_put_line(&b, "died", "1");
		exec_end_as(k, c, "box-died");
	} else {
		exec_end(k, c, &c->ended);
	}
	kv_free(&c->ended);
	answer(c, &b, NULL, 0);
}

static void exec_reported(struct keeper *k, struct conn *c, struct kv *req)
{
	const char *end = kv_str(req, "end", "");

	if (c->kind != CONN_EXEC || c->settle_us) {
		answer_error(c, EX_SBX, "no command was begun on this connection");
		return;
	}
	c->ended = *req;
	memset(req, 0, sizeof(*req));
	if (k->stopping)
		keeper_settle(k, c, !strcmp(end, "signal"));
	else if (!strcmp(end, "signal") && kv_u64(&c->ended, "signal", 0) == SIGKILL)
		c->settle_us = num_mono_us() + SETTLE_US;
	else
		keeper_settle(k, c, 0);
}

static void take_drains(struct keeper *k, int *fds, int nfds)
{
	for (int i = 0; i < nfds; i++) {
		int *fd = &fds[i];

		if (k->ndrain < (int)(sizeof(k->drain) / sizeof(k->drain[0])) &&
		    fcntl(*fd, F_SETFL, O_NONBLOCK) == 0)
			k->drain[k->ndrain++] = fd_take(fd);
	}
}

static void wait_for(struct keeper *k, struct conn *c, const struct kv *req)
{
	uint64_t seq = kv_u64(req, "seq", 0);

	for (int i = 0; seq && i < k->nconn; i++)
		if (k->conn[i].fd >= 0 && k->conn[i].kind == CONN_EXEC && k->conn[i].seq == seq)
			goto wait;
	if (seq) { /* over already, or never begun: the log knows */
		answer_ok(c);
		return;
	}
wait:
	c->kind = CONN_WAIT;
	c->seq = seq;
}

static void hand_root(struct keeper *k, struct conn *c, const struct kv *req)
{
	static const char *const keys[] = {"what", "path", "by", NULL};
	int fds[2] = {k->run.root, k->run.pidfd};
	autobuf b = BUF_INIT;

	if (k->run.root < 0) {
		answer_error(c, EX_SBX, "this kind of box has no root directory on the node");
		return;
	}
	log_start(&b, ++k->seq, "cp");
	copy_pairs(&b, req, keys);
	log_append(k->logfd, &b);
	buf_clear(&b);
	kv_put_line(&b, "ok", "1");
	answer(c, &b, fds, 2);
	k->idle_since_us = num_mono_us();
}

static void freeze_begin(struct keeper *k, struct conn *c)
{
	c->freeze_us = k->idle_since_us = num_mono_us();
	k->frozen = 1; /* of what fails half-way, too: nobody holds it, so it is thawed */
	if (cgroup_freeze(&k->run.cgroup, 1, FREEZE_QUICK_MS) < 0) {
		answer_error(c, EX_SBX, fail_text());
		return;
	}
	c->kind = CONN_FREEZE;
}

/* An answer to one who waits for the freeze, if there is one to give. */
static void freeze_answer(struct conn *c, int frozen)
{
	uint64_t took = num_mono_us() - c->freeze_us;
	autobuf b = BUF_INIT;

	if (frozen) {
		kv_put_line(&b, "ok", "1");
		kv_put_num(&b, "frozen_us", took);
		answer(c, &b, NULL, 0);
	} else if (took >= FREEZE_MS * 1000ull) {
		answer_error(c, EX_AGAIN,
			     "the box cannot be frozen: a process sleeps in the kernel");
		c->kind = CONN_NEW;
	} else {
		return;
	}
	c->freeze_us = 0;
}

int keeper_freeze(struct keeper *k)
{
	int frozen, held = 0, waited_for = 0;

	if (!k->frozen)
		return 0;
	frozen = cgroup_frozen(&k->run.cgroup) == 1;
	for (int i = 0; i < k->nconn; i++) {
		struct conn *c = &k->conn[i];

		if (c->fd < 0 || c->kind != CONN_FREEZE)
			continue;
		if (c->freeze_us)
			freeze_answer(c, frozen);
		held |= c->kind == CONN_FREEZE;
		waited_for |= c->freeze_us != 0;
	}
	if (!held && cgroup_freeze(&k->run.cgroup, 0, 0) >= 0)
		k->frozen = 0;
	return k->frozen && (!held || waited_for);
}

static void serve(struct keeper *k, struct conn *c, struct kv *req, int *fds, int nfds)
{
	const char *op = kv_str(req, "op", "");

	if (!strcmp(op, "end")) {
		take_drains(k, fds, nfds);
		exec_reported(k, c, req);
	} else if (!strcmp(op, "stop")) {
		c->kind = CONN_STOP;
		keeper_stop(k, !strcmp(kv_str(req, "cause", ""), "reaped") ? "reaped" : "stopped");
	} else if (!strcmp(op, "wait")) {
		wait_for(k, c, req);
	} else if (k->stopping) {
		answer_error(c, EX_GONE, "the box is being stopped");
	} else if (c->kind != CONN_NEW) {
		answer_error(c, EX_SBX, "this connection serves another request");
	} else if (!strcmp(op, "exec")) {
		exec_begin(k, c, req);
	} else if (!strcmp(op, "root")) {
		hand_root(k, c, req);
	} else if (!strcmp(op, "freeze")) {
		freeze_begin(k, c);
	} else {
		answer_error(c, EX_SBX, "unknown request");
	}
}

void keeper_request(struct keeper *k, struct conn *c)
{
	static char msg[SOCK_MAX]; /* bss: touched only as far as a message is long */
	int fds[SOCK_FDS], nfds;
	ssize_t n = sock_recv(c->fd, msg, sizeof(msg), fds, &nfds);
	autokv req = {0};

	if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
		return;
	if (n <= 0) {
		keeper_drop(k, c);
		return;
	}
	if (kv_parse_line(&req, "request", msg, (size_t)n) < 0)
		answer_error(c, EX_SBX, fail_text());
	else
		serve(k, c, &req, fds, nfds);
	for (int i = 0; i < nfds; i++)
		fd_close(&fds[i]);
}

void keeper_drop(struct keeper *k, struct conn *c)
{
	if (c->kind == CONN_EXEC && c->settle_us) {
		keeper_settle(k, c, 0);
	} else if (c->kind == CONN_EXEC) {
		c->slot->killed = 1;
		cgroup_kill(&c->slot->cg);
		exec_end_as(k, c, k->stopping ? "box-died" : "client-gone");
	}
	fd_close(&c->fd);
	fd_close(&c->peer);
	kv_free(&c->ended);
	memset(c, 0, sizeof(*c));
	c->fd = c->peer = -1;
}
