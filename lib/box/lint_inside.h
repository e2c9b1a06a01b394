/* The part of lint that runs in the box. It says what it finds as kv lines on fd 1. */
#ifndef BOX_LINT_INSIDE_H
#define BOX_LINT_INSIDE_H
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum {
	LINT_PATH = 1500,  /* bytes of a path that are told: a record fits in PIPE_BUF, so that */
	LINT_DETAIL = 300, /* the end of its writer does not cut it */
	LINT_LINE = 8192,
	LINT_DEPTH = 256,
	LINT_FILES = 5000000,
	LINT_REPOS = 1000,
	LINT_OBJECTS = 2000000,
};

struct lint_repo {
	char *path;  /* of the directory with HEAD, objects and refs; or that with a .git file */
	char *shown; /* the same without /.git: people know work trees */
	dev_t dev;
	ino_t ino;
	int linked;  /* it is the latter */
	int special; /* a FIFO, socket or device lies in it */
};

struct lint {
	uint64_t end_us; /* of CLOCK_MONOTONIC */
	struct lint_repo *repo;
	size_t nrepo;
};

/* For run_command(); ARG points to the time limit, a uint64_t of milliseconds. */
int lint_inside(void *arg);

void lint_say(const char *kind, const char *path, uint64_t count, const char *detail);
int lint_late(const struct lint *l);

/* Says what lies in files, and collects the repositories. */
void lint_walk(struct lint *l);

/* Before the box is entered: libgit2 reads no file of its own afterwards. -1 after fail(). */
int lint_git_init(void);
/* Says what a repository has that its HEAD does not lead to. */
void lint_git(const struct lint *l, const struct lint_repo *repo);
#endif
