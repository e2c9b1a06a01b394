/* One static table per tool gives its parser, its --help and its completion words. */
#ifndef BASE_OPT_H
#define BASE_OPT_H
#include <stddef.h>
#include <stdint.h>

enum opt_kind {
	OPT_FLAG,     /* int: 1 when given */
	OPT_STR,      /* const char *: points into argv */
	OPT_LIST,     /* struct opt_list: every one given, in order */
	OPT_COUNT,    /* uint64_t: a whole number */
	OPT_SIZE,     /* uint64_t: bytes */
	OPT_DURATION, /* uint64_t: milliseconds */
	OPT_CPUS,     /* uint64_t: thousandths of a CPU */
};

struct opt_list {
	const char **v; /* points into argv; never freed (it lives as long as the tool) */
	size_t n;
};

/* ARG is the argument's word in --help; completions know ID IMAGE FILE DIR and a|b|c. */
struct opt {
	char letter;	  /* 0: long only */
	const char *name; /* without the dashes; NULL: letter only */
	const char *arg;  /* NULL for flags */
	enum opt_kind kind;
	void *to;
	const char *help;
};

struct opt_verb {
	const char *name; /* NULL ends the list */
	const char *help;
};

struct opt_tool {
	const char *usage;	/* operands, as "-i IMAGE [-n N]" */
	const char *purpose;	/* one line */
	const struct opt *opts; /* ends with {0}; -h --help --version --opts are added */
	int operands;		/* options may follow this many operands; -1: any number */
	const char *operand;	/* kind of operand for completions: ID IMAGE FILE COMMAND or "" */
	const struct opt_verb *verbs; /* what the first operand may be; NULL: none */
};

/*
 * Parses ARGV and moves the operands to its end; returns the index of the first. "--" ends options.
 * After tool->operands operands everything is left alone (a command and its own options).
 * --help, --version and --opts print and exit; an error is one line and exit 125.
 */
int opt_parse(const struct opt_tool *tool, int argc, char **argv);

/*
 * -e as in docker: K alone takes the caller's value, one that is not set is left out. The list is
 * made whole in place and returned as an array that ends with NULL.
 */
const char *const *opt_env(struct opt_list *list);

/* The error of a missing or surplus operand: one line that points to --help. */
_Noreturn void opt_misuse(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
#endif
