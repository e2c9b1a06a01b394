#include "base/opt.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/die.h"
#include "base/num.h"

#ifndef SBX_VERSION
#define SBX_VERSION "0"
#endif

_Noreturn void opt_misuse(const char *fmt, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	dief(EX_SBX, "%s (see %s --help)", text, prog);
}

static const struct opt common[] = {
	{'h', "help", NULL, OPT_FLAG, NULL, "show this help"},
	{0, "version", NULL, OPT_FLAG, NULL, "show the version"},
	{0, "opts", NULL, OPT_FLAG, NULL, "list options for completion scripts"},
	{0},
};

static void help(const struct opt_tool *t)
{
	const struct opt *lists[2] = {t->opts, common};

	printf("usage: %s %s\n%s\n", prog, t->usage, t->purpose);
	for (const struct opt_verb *v = t->verbs; v && v->name; v++)
		printf("%s%s%s", v == t->verbs ? "Verbs: " : " ", v->name, v[1].name ? "" : ".\n");
	putchar('\n');
	for (int i = 0; i < 2; i++)
		for (const struct opt *o = lists[i]; o->letter || o->name; o++) {
			char left[80];
			char letter[4] = {'-', o->letter, 0, 0};

			if (o->name && !strcmp(o->name, "opts"))
				continue;
			snprintf(left, sizeof(left), "%s%s%s%s%s%s", o->letter ? letter : "  ",
				 o->letter && o->name ? ", " : (o->name ? "  " : ""),
				 o->name ? "--" : "", o->name ? o->name : "", o->arg ? " " : "",
				 o->arg ? o->arg : "");
			printf("  %-26s %s\n", left, o->help);
		}
	printf("Manual: man %s\n", prog);
}

/*
 * letter TAB long TAB argument TAB help, then "verb TAB name TAB help" and "operand TAB kind": for
 * the completion scripts.
 */
static void list_opts(const struct opt_tool *t)
{
	const struct opt *lists[2] = {t->opts, common};

	for (int i = 0; i < 2; i++)
		for (const struct opt *o = lists[i]; o->letter || o->name; o++) {
			char letter[3] = {'-', o->letter, 0};

			printf("%s\t%s%s\t%s\t%s\n", o->letter ? letter : "-", o->name ? "--" : "-",
			       o->name ? o->name : "", o->arg ? o->arg : "-", o->help);
		}
	for (const struct opt_verb *v = t->verbs; v && v->name; v++)
		printf("verb\t%s\t%s\n", v->name, v->help);
	printf("operand\t%s\n", t->operand);
}

static int set(const struct opt *o, const char *shown, const char *val)
{
	struct opt_list *list;

	switch (o->kind) {
	case OPT_FLAG:
		*(int *)o->to = 1;
		return 0;
	case OPT_STR:
		*(const char **)o->to = val;
		return 0;
	case OPT_LIST:
		list = o->to;
		list->v = xrealloc(list->v, (list->n + 1) * sizeof(*list->v));
		list->v[list->n++] = val;
		return 0;
	case OPT_COUNT:
		return num_u64(shown, val, UINT32_MAX, o->to);
	case OPT_SIZE:
		return num_size(shown, val, o->to);
	case OPT_DURATION:
		return num_duration(shown, val, o->to);
	case OPT_CPUS:
		return num_milli(shown, val, o->to);
	}
	return -1;
}

static void found(const struct opt_tool *t, const struct opt *o, const char *shown, const char *val)
{
	if (!o->to) {
		if (o->letter == 'h')
			help(t);
		else if (!strcmp(o->name, "version"))
			printf("%s (sbx) %s\n", prog, SBX_VERSION);
		else
			list_opts(t);
		exit(finish(stdout));
	}
	if (set(o, shown, val) < 0)
		die();
}

static const struct opt *find(const struct opt_tool *t, char letter, const char *name, size_t len)
{
	const struct opt *lists[2] = {t->opts, common};

	for (int i = 0; i < 2; i++)
		for (const struct opt *o = lists[i]; o->letter || o->name; o++) {
			if (letter && o->letter == letter)
				return o;
			if (name && o->name && strlen(o->name) == len &&
			    !strncmp(o->name, name, len))
				return o;
		}
	return NULL;
}

/* One --word; returns how many argv elements it took. */
static int long_opt(const struct opt_tool *t, int argc, char **argv, int i)
{
	const char *name = argv[i] + 2, *eq = strchr(name, '=');
	size_t len = eq ? (size_t)(eq - name) : strlen(name);
	const struct opt *o = find(t, 0, name, len);
	char shown[64];

	if (!o)
		opt_misuse("no option '--%.*s'", (int)len, name);
	snprintf(shown, sizeof(shown), "--%s", o->name);
	if (!o->arg && eq)
		opt_misuse("option '%s' takes no argument", shown);
	if (!o->arg || eq) {
		found(t, o, shown, eq ? eq + 1 : NULL);
		return 1;
	}
	if (i + 1 >= argc)
		opt_misuse("option '%s' needs an argument: %s", shown, o->arg);
	found(t, o, shown, argv[i + 1]);
	return 2;
}

/* One -abc or -nVALUE; returns how many argv elements it took. */
static int short_opts(const struct opt_tool *t, int argc, char **argv, int i)
{
	for (const char *p = argv[i] + 1; *p; p++) {
		const struct opt *o = find(t, *p, NULL, 0);
		char shown[3] = {'-', *p, 0};

		if (!o)
			opt_misuse("no option '-%c'", *p);
		if (!o->arg) {
			found(t, o, shown, NULL);
			continue;
		}
		if (p[1]) {
			found(t, o, shown, p + 1);
			return 1;
		}
		if (i + 1 >= argc)
			opt_misuse("option '%s' needs an argument: %s", shown, o->arg);
		found(t, o, shown, argv[i + 1]);
		return 2;
	}
	return 1;
}

int opt_parse(const struct opt_tool *t, int argc, char **argv)
{
	char **rest = xcalloc((size_t)argc + 1, sizeof(*rest));
	int n = 0, i = 1;

	die_init(argv[0]);
	while (i < argc) {
		char *a = argv[i];

		if (t->operands >= 0 && n >= t->operands && (a[0] != '-' || !a[1]))
			break; /* the first word of somebody else's command */
		if (!strcmp(a, "--")) {
			i++;
			break;
		}
		if (a[0] == '-' && a[1] == '-')
			i += long_opt(t, argc, argv, i);
		else if (a[0] == '-' && a[1])
			i += short_opts(t, argc, argv, i);
		else
			rest[n++] = argv[i++];
	}
	/* The operands met on the way go right before what was left alone. */
	memmove(argv + i - n, rest, (size_t)n * sizeof(*rest));
	free(rest);
	return i - n;
}

const char *const *opt_env(struct opt_list *list)
{
	size_t n = 0;

	for (size_t i = 0; i < list->n; i++) {
		const char *e = list->v[i];

		if (!*e || *e == '=')
			opt_misuse("--env '%s' is not K=V", e);
		if (!strchr(e, '='))
			e = getenv(e) ? xasprintf("%s=%s", e, getenv(e)) : NULL;
		if (e)
			list->v[n++] = e;
	}
	list->n = n;
	list->v = xrealloc(list->v, (n + 1) * sizeof(*list->v));
	list->v[n] = NULL;
	return list->v;
}
