#include "box/many.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/die.h"
#include "base/fd.h"

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
	const struct many *m;
	struct worker *w;
	unsigned busy;
};

/* In the worker: one box, the same code as for one box alone. */
static _Noreturn void work(const struct many *m, struct command *cmd, const char *id, int fd)
{
	struct report rep = {0};
	autofree char *prefix = xasprintf("%s\t", id);
	struct running *r;

	if (m->prefix)
		cmd->prefix = prefix;
	r = run_begin(m->st, id, cmd);
	if (!r || run_command(r, &rep.o) < 0) {
		rep.failed = 1;
		rep.code = fail_code();
		snprintf(rep.text, sizeof(rep.text), "%s", fail_text());
	}
	_exit(fd_write_all(fd, &rep, sizeof(rep)) < 0);
}

static void take_report(struct pool *p, struct worker *w)
{
	struct report rep;
	ssize_t n = fd_read_all(w->fd, &rep, sizeof(rep));

	fd_close(&w->fd);
	waitpid(w->pid, NULL, 0);
	w->pid = 0;
	p->busy--;
	if (n != sizeof(rep))
		failx("the process for box '%s' died", w->id);
	else if (rep.failed)
		fail_as(rep.code, "%s", rep.text);
	p->m->done(p->m->arg, w->id, n != sizeof(rep) || rep.failed ? NULL : &rep.o);
}

/* Waits until one worker at least has reported. */
static void reap_some(struct pool *p)
{
	struct pollfd *fds = xcalloc(p->m->jobs, sizeof(*fds));

	for (unsigned i = 0; i < p->m->jobs; i++)
		fds[i] = (struct pollfd){.fd = p->w[i].pid ? p->w[i].fd : -1, .events = POLLIN};
	while (poll(fds, p->m->jobs, -1) < 0 && errno == EINTR)
		;
	for (unsigned i = 0; i < p->m->jobs; i++)
		if (p->w[i].pid && fds[i].revents)
			take_report(p, &p->w[i]);
	free(fds);
}

static void start_one(struct pool *p, const char *id)
{
	struct command mine = *p->m->cmd;
	struct worker *w = p->w;
	int fds[2];

	while (w->pid)
		w++;
	mine.in = -1;
	if (!p->m->prefix)
		mine.out = mine.err = -1;
	snprintf(w->id, sizeof(w->id), "%s", id);
	if (pipe2(fds, O_CLOEXEC) < 0 || (w->pid = fork()) < 0) {
		w->pid = 0;
		fail("box '%s': cannot start a process", id);
		p->m->done(p->m->arg, id, NULL);
		return;
	}
	if (w->pid == 0)
		work(p->m, &mine, id, fds[1]);
	close(fds[1]);
	w->fd = fds[0];
	p->busy++;
}

void many_run(const struct many *m)
{
	struct pool p = {.m = m, .w = xcalloc(m->jobs, sizeof(struct worker))};
	char id[ID_MAX + 1];

	while (m->next(m->arg, id) > 0) {
		while (p.busy == m->jobs)
			reap_some(&p);
		start_one(&p, id);
	}
	while (p.busy)
		reap_some(&p);
	free(p.w);
}
