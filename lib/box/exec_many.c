#include "box/exec_many.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/die.h"
#include "base/fd.h"

enum { C_ID, C_END, C_EXIT, C_CODE, C_SIGNAL, C_WALL, C_CPU, C_MEM, C_OUT, C_ERR, C_CUT, C_SEQ };

static const struct rec_col cols[] = {
	{"id", REC_TEXT, 0},
	{"end", REC_TEXT, 0},
	{"exit", REC_NUM, 0},
	{"code", REC_NUM, 0},
	{"signal", REC_NUM, 0},
	{"wall_ms", REC_MS, 0},
	{"cpu_ms", REC_MS, 0},
	{"mem_peak_bytes", REC_BYTES, 0},
	{"stdout_bytes", REC_BYTES, 0},
	{"stderr_bytes", REC_BYTES, 0},
	{"truncated", REC_NUM, 0},
	{"seq", REC_NUM, 0},
	{NULL, REC_TEXT, 0},
};

/* What a worker sends its parent: small enough for a pipe to take it whole. */
struct report {
	int failed; /* there is no outcome: CODE and TEXT say why */
	int code;
	struct outcome o;
	char text[512];
};

struct worker {
	pid_t pid; /* 0: free */
	int fd;
	char id[ID_MAX + 1];
};

struct pool {
	const struct exec_many *m;
	struct worker *w;
	struct rec *rec;
	uint64_t busy;
	int bad;
};

/* In the worker: one box, the same code as for one box alone. */
static _Noreturn void work(const struct state *st, struct command *cmd, const char *id, int fd)
{
	struct report rep = {0};
	autofree char *prefix = xasprintf("%s\t", id);
	struct running *r;

	if (cmd->out >= 0)
		cmd->prefix = prefix;
	r = run_begin(st, id, cmd);
	if (!r || run_command(r, &rep.o) < 0) {
		rep.failed = 1;
		rep.code = fail_code();
		snprintf(rep.text, sizeof(rep.text), "%s", fail_text());
	}
	_exit(fd_write_all(fd, &rep, sizeof(rep)) < 0);
}

static void print_record(struct pool *p, const char *id, const struct report *rep)
{
	struct rec *rec = p->rec;
	const struct outcome *o = &rep->o;

	if (!rec)
		return;
	rec_text(rec, C_ID, id);
	rec_text(rec, C_END, rep->failed ? "failed" : outcome_end_name(o->end));
	rec_num(rec, C_EXIT, (uint64_t)(rep->failed ? rep->code : outcome_exit_code(o)));
	if (!rep->failed) {
		rec_num(rec, C_CODE, (uint64_t)o->code);
		rec_num(rec, C_SIGNAL, (uint64_t)o->signal);
		rec_num(rec, C_WALL, o->wall_ms);
		rec_num(rec, C_CPU, o->cpu_ms);
		rec_num(rec, C_MEM, o->mem_peak);
		rec_num(rec, C_OUT, o->stdout_bytes);
		rec_num(rec, C_ERR, o->stderr_bytes);
		rec_num(rec, C_CUT, (uint64_t)o->truncated);
		rec_num(rec, C_SEQ, o->seq);
	}
	rec_end(rec);
	fflush(stdout); /* a reader may act on each as it comes */
}

static void take_report(struct pool *p, struct worker *w)
{
	struct report rep;
	ssize_t n = fd_read_all(w->fd, &rep, sizeof(rep));

	fd_close(&w->fd);
	waitpid(w->pid, NULL, 0);
	w->pid = 0;
	p->busy--;
	if (n != sizeof(rep)) {
		memset(&rep, 0, sizeof(rep));
		rep.failed = 1;
		rep.code = EX_SBX;
		snprintf(rep.text, sizeof(rep.text), "the process for box '%s' died", w->id);
	}
	if (rep.failed)
		warnf("%s", rep.text);
	if (rep.failed || outcome_exit_code(&rep.o))
		p->bad = 1;
	print_record(p, w->id, &rep);
}

/* Waits until one worker at least has reported. */
static void reap_some(struct pool *p)
{
	struct pollfd *fds = xcalloc(p->m->jobs, sizeof(*fds));

	for (uint64_t i = 0; i < p->m->jobs; i++)
		fds[i] = (struct pollfd){.fd = p->w[i].pid ? p->w[i].fd : -1, .events = POLLIN};
	while (poll(fds, (nfds_t)p->m->jobs, -1) < 0 && errno == EINTR)
		;
	for (uint64_t i = 0; i < p->m->jobs; i++)
		if (p->w[i].pid && fds[i].revents)
			take_report(p, &p->w[i]);
	free(fds);
}

static void start_one(struct pool *p, const struct state *st, const struct command *cmd,
		      const char *id)
{
	struct command mine = *cmd;
	struct worker *w = p->w;
	int fds[2];

	while (w->pid)
		w++;
	mine.in = -1;
	mine.tty = 0;
	if (!p->m->prefix)
		mine.out = mine.err = -1;
	snprintf(w->id, sizeof(w->id), "%s", id);
	if (pipe2(fds, O_CLOEXEC) < 0 || (w->pid = fork()) < 0) {
		w->pid = 0;
		p->bad = 1;
		warnf("box '%s': cannot start a process: %s", id, strerror(errno));
		return;
	}
	if (w->pid == 0)
		work(st, &mine, id, fds[1]);
	close(fds[1]);
	w->fd = fds[0];
	p->busy++;
}

int exec_many(const struct exec_many *m, const struct state *st, const struct command *cmd)
{
	struct pool p = {.m = m};
	autofree char *line = NULL;
	size_t room = 0;
	ssize_t n;
	int r = 0;

	if (m->jobs < 1 || m->jobs > 4096 || cmd->tty || cmd->detach)
		dief(EX_SBX, "with '-', -j must be 1 to 4096, and neither -T nor -d can be given");
	p.w = xcalloc(m->jobs, sizeof(*p.w));
	if (!m->prefix && !(p.rec = rec_open(stdout, cols, &m->rec)))
		die();
	while ((n = getline(&line, &room, stdin)) > 0) {
		char id[ID_MAX + 1];

		line[strcspn(line, "\t\r\n")] = 0; /* records of other tools begin with the ID */
		if (!*line)
			continue;
		if (state_resolve(st, line, id) < 0) {
			warn();
			p.bad = 1;
			continue;
		}
		while (p.busy == m->jobs)
			reap_some(&p);
		start_one(&p, st, cmd, id);
	}
	while (p.busy)
		reap_some(&p);
	free(p.w);
	if (p.rec)
		r = rec_close(p.rec);
	return r ? r : p.bad ? EX_NO : 0;
}
