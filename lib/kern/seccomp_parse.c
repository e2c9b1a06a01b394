#include "kern/seccomp_parse.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"

static const struct {
	const char *name;
	int err;
} errnos[] = {
	{"EPERM", EPERM},
	{"ENOSYS", ENOSYS},
	{"EACCES", EACCES},
	{"EINVAL", EINVAL},
	{"ENOENT", ENOENT},
	{"ENOTTY", ENOTTY},
	{"EOPNOTSUPP", EOPNOTSUPP},
	{"EAFNOSUPPORT", EAFNOSUPPORT},
	{"EPROTONOSUPPORT", EPROTONOSUPPORT},
};
enum { NERRNOS = sizeof(errnos) / sizeof(errnos[0]) };

static const struct {
	const char *name;
	uint32_t action;
} actions[] = {
	{"allow", SECCOMP_RET_ALLOW},
	{"log", SECCOMP_RET_LOG},
	{"errno", SECCOMP_RET_ERRNO},
	{"kill", SECCOMP_RET_KILL_PROCESS},
};
enum { NACTIONS = sizeof(actions) / sizeof(actions[0]) };

/* One line being read. */
struct line {
	const char *source;
	int no;
	char *rest;
};

void seccomp_free(struct seccomp_profile *p)
{
	free(p->text);
	free(p->rule);
	*p = (struct seccomp_profile){0};
}

/* The next word of the line, cut off in place; NULL at its end. */
static char *word(struct line *l)
{
	char *w = l->rest + strspn(l->rest, " \t\r");
	char *end = w + strcspn(w, " \t\r");

	if (!*w)
		return NULL;
	l->rest = *end ? end + 1 : end;
	*end = 0;
	return w;
}

static int wrong(const struct line *l, const char *what, const char *got)
{
	return failx("%s:%d: %s, not '%.64s'", l->source, l->no, what, got ? got : "");
}

/* Decimal or 0x: at most 32 bits. */
static int number(const struct line *l, const char *w, uint32_t *out)
{
	char *end = NULL;
	unsigned long long v = 0;

	*out = 0;
	errno = 0;
	if (w && *w >= '0' && *w <= '9')
		v = strtoull(w, &end, w[0] == '0' && w[1] == 'x' ? 16 : 10);
	if (!end || *end || errno || v > UINT32_MAX)
		return wrong(l, "expected a number of at most 32 bits", w);
	*out = (uint32_t)v;
	return 0;
}

static int action(struct line *l, const char *w, uint32_t *out)
{
	const char *err;

	for (size_t i = 0; w && i < NACTIONS; i++) {
		if (strcmp(w, actions[i].name) != 0)
			continue;
		*out = actions[i].action;
		if (*out != SECCOMP_RET_ERRNO)
			return 0;
		err = word(l);
		for (size_t k = 0; err && k < NERRNOS; k++)
			if (!strcmp(err, errnos[k].name)) {
				*out |= (uint32_t)errnos[k].err;
				return 0;
			}
		return wrong(l, "expected the name of an error, as EPERM or ENOSYS", err);
	}
	return wrong(l, "expected default, allow, log, errno or kill", w);
}

static int condition(struct line *l, struct seccomp_cond *c)
{
	const char *w = word(l);

	if (!w || strncmp(w, "arg", 3) != 0 || w[3] < '0' || w[3] > '5' || w[4])
		return wrong(l, "expected arg0 to arg5", w);
	c->arg = (unsigned)(w[3] - '0');
	c->mask = UINT32_MAX;
	w = word(l);
	if (w && !strcmp(w, "&")) {
		if (number(l, word(l), &c->mask) < 0)
			return -1;
		w = word(l);
	}
	if (!w || (strcmp(w, "==") != 0 && strcmp(w, "!=") != 0))
		return wrong(l, "expected == or !=", w);
	c->not = w[0] == '!';
	if (number(l, word(l), &c->value) < 0)
		return -1;
	if (c->value & ~c->mask)
		return failx("%s:%d: the value has bits that the mask has not", l->source, l->no);
	return 0;
}

/* What follows "if". */
static int conditions(struct line *l, struct seccomp_rule *r)
{
	for (;;) {
		const char *w;

		if (r->nconds == SECCOMP_CONDS)
			return failx("%s:%d: more than %d conditions", l->source, l->no,
				     SECCOMP_CONDS);
		if (condition(l, &r->cond[r->nconds++]) < 0)
			return -1;
		w = word(l);
		if (!w)
			return 0;
		if (strcmp(w, "and") != 0)
			return wrong(l, "expected 'and' or the end of the line", w);
	}
}

/* NAME or NAME=NUMBER. */
static int call_name(const struct line *l, char *w, struct seccomp_rule *r)
{
	char *eq = strchr(w, '=');
	uint32_t n;

	r->name = w;
	r->number = -1;
	if (eq) {
		*eq = 0;
		if (number(l, eq + 1, &n) < 0)
			return -1;
		/* From pidfd_send_signal (424) on, numbers are the same on all architectures. */
		if (n < 424 || n >= 4096)
			return wrong(l, "expected a number from 424 to 4095 after '='", eq + 1);
		r->number = (long)n;
	}
	if (!*w || w[strspn(w, "abcdefghijklmnopqrstuvwxyz0123456789_")])
		return wrong(l, "expected the name of a system call", w);
	return 0;
}

/* A rule that can never be reached is a mistake: say where the call was decided. */
static int add(struct seccomp_profile *p, const struct line *l, const struct seccomp_rule *r)
{
	for (size_t i = 0; i < p->n; i++)
		if (!p->rule[i].nconds && !strcmp(p->rule[i].name, r->name))
			return failx("%s:%d: '%.64s' is already decided on line %d", l->source,
				     l->no, r->name, p->rule[i].line);
	if (p->n == SECCOMP_RULES)
		return failx("%s:%d: more than %d rules", l->source, l->no, SECCOMP_RULES);
	if (!(p->n & (p->n - 1)))
		p->rule = xrealloc(p->rule, (p->n ? 2 * p->n : 1) * sizeof(*p->rule));
	p->rule[p->n++] = *r;
	return 0;
}

/* ACTION NAME... [if CONDITION [and CONDITION]...]: one rule for each name. */
static int rule_line(struct seccomp_profile *p, struct line *l, const char *first)
{
	struct seccomp_rule r = {.line = l->no};
	size_t from = p->n;
	char *w;

	if (action(l, first, &r.action) < 0)
		return -1;
	while ((w = word(l)) && strcmp(w, "if") != 0)
		if (call_name(l, w, &r) < 0 || add(p, l, &r) < 0)
			return -1;
	if (p->n == from)
		return failx("%s:%d: no system call is named", l->source, l->no);
	if (!w)
		return 0;
	if (conditions(l, &r) < 0)
		return -1;
	for (; from < p->n; from++) {
		p->rule[from].nconds = r.nconds;
		memcpy(p->rule[from].cond, r.cond, sizeof(r.cond));
	}
	return 0;
}

/* default = ACTION, once. */
static int default_line(struct seccomp_profile *p, struct line *l, int *seen)
{
	char *w = word(l);

	if (!w || strcmp(w, "=") != 0)
		return wrong(l, "expected '=' after default", w);
	if ((*seen)++)
		return failx("%s:%d: a second default", l->source, l->no);
	if (action(l, word(l), &p->fallback) < 0)
		return -1;
	w = word(l);
	return w ? wrong(l, "expected the end of the line", w) : 0;
}

int seccomp_parse(struct seccomp_profile *p, const char *source, const char *text)
{
	struct line l = {.source = source};
	char *next;
	int seen = 0, r;

	if (strlen(text) > SECCOMP_TEXT)
		return failx("%s: longer than %d bytes", source, SECCOMP_TEXT);
	next = p->text = xstrdup(text);
	while (next) {
		char *w;

		l.rest = next;
		l.no++;
		next = strchr(l.rest, '\n');
		if (next)
			*next++ = 0;
		l.rest[strcspn(l.rest, "#")] = 0;
		w = word(&l);
		if (!w)
			continue;
		r = strcmp(w, "default") ? rule_line(p, &l, w) : default_line(p, &l, &seen);
		if (r < 0)
			return -1;
	}
	return seen ? 0 : failx("%s: no 'default = ACTION' line", source);
}

void seccomp_action_text(struct buf *b, uint32_t act)
{
	for (size_t i = 0; i < NACTIONS; i++)
		if (actions[i].action == (act & SECCOMP_RET_ACTION_FULL))
			buf_str(b, actions[i].name);
	if ((act & SECCOMP_RET_ACTION_FULL) != SECCOMP_RET_ERRNO)
		return;
	for (size_t k = 0; k < NERRNOS; k++)
		if (errnos[k].err == (int)(act & SECCOMP_RET_DATA))
			buf_fmt(b, " %s", errnos[k].name);
}

void seccomp_cond_text(struct buf *b, const struct seccomp_rule *r)
{
	for (unsigned i = 0; i < r->nconds; i++) {
		const struct seccomp_cond *c = &r->cond[i];

		buf_fmt(b, "%sarg%u ", i ? " and " : "", c->arg);
		if (c->mask != UINT32_MAX)
			buf_fmt(b, "& 0x%x ", c->mask);
		buf_fmt(b, "%s 0x%x", c->not ? "!=" : "==", c->value);
	}
}
