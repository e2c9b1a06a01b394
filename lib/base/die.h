/* Errors: libraries remember one sentence, tools print it. */
#ifndef BASE_DIE_H
#define BASE_DIE_H
#include <stdio.h>

/* Exit codes that mean the same in every tool; anything else is the command's own. */
enum {
	EX_NO = 1,	  /* the answer is no, or some operands failed */
	EX_AGAIN = 75,	  /* no capacity, quota or node now: try again later */
	EX_GONE = 123,	  /* the box has ended, or ended under the command */
	EX_TIMEOUT = 124, /* a time limit ended it */
	EX_SBX = 125,	  /* sbx failed or was misused */
	EX_NOEXEC = 126,  /* found, cannot be run */
	EX_NOENT = 127,	  /* command not found */
};

extern const char *prog; /* the tool's name, for messages */

/* Takes the tool's name from argv[0], ignores SIGPIPE and makes sure fds 0-2 are open. */
void die_init(const char *argv0);

/*
 * fail: remember "FMT: strerror(errno)"; failx: without a cause; fail_as: without a cause and with
 * the exit code that die() shall use (EX_SBX otherwise). All return -1 and keep errno.
 */
int fail(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
int failx(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
int fail_as(int code, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Puts "FMT: " before the remembered sentence: a caller that knows the object names it. */
int fail_more(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

const char *fail_text(void); /* never NULL; valid until the next fail */
int fail_code(void);	     /* exit code of the last fail */

/* The last failure, to be reported in spite of what fails while it is cleaned up after. */
struct failure {
	char text[1024];
	int code, err;
};
void fail_save(struct failure *f);
int fail_again(const struct failure *f); /* -1, and errno is as it was then */

/* For tools only. die prints the remembered sentence and exits with its code. */
_Noreturn void die(void);
_Noreturn void dief(int code, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void warn(void);
void warnf(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Flushes OUT; an error (a full disk, a closed pipe) is reported and gives EX_SBX, else 0. */
int finish(FILE *out);
#endif
