/* The least a unit test needs: TAP on stdout. A test file is one main: checks, then return done(). */
#ifndef TAP_H
#define TAP_H
#include <stdio.h>
#include <string.h>

static int tap_count, tap_failed;

static inline int tap_ok(int good, const char *what, const char *file, int line)
{
	printf("%sok %d %s\n", good ? "" : "not ", ++tap_count, what);
	if (!good) {
		tap_failed++;
		printf("# %s:%d\n", file, line);
	}
	fflush(stdout);
	return good;
}

static inline void tap_str(const char *got, const char *want, const char *what, const char *file,
			   int line)
{
	if (!tap_ok(got && !strcmp(got, want), what, file, line))
		printf("# got  '%s'\n# want '%s'\n", got ? got : "(null)", want);
}

static inline void tap_num(long long got, long long want, const char *what, const char *file,
			   int line)
{
	if (!tap_ok(got == want, what, file, line))
		printf("# got  %lld\n# want %lld\n", got, want);
}

#define ok(good, what)		tap_ok(!!(good), what, __FILE__, __LINE__)
#define is_str(got, want, what) tap_str(got, want, what, __FILE__, __LINE__)
#define is_num(got, want, what) \
	tap_num((long long)(got), (long long)(want), what, __FILE__, __LINE__)

static inline void skip(const char *what, const char *why)
{
	printf("ok %d %s # skip %s\n", ++tap_count, what, why);
}

static inline int done(void)
{
	printf("1..%d\n", tap_count);
	return tap_failed != 0;
}
#endif
