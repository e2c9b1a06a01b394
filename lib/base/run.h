/* Running a helper program of ours and reading what it says. */
#ifndef BASE_RUN_H
#define BASE_RUN_H
#include <stddef.h>

#include "base/buf.h"

/*
 * Runs PATH with ARGV, without input and with the caller's standard error; at most MAX bytes of its
 * standard output go into B, the rest is dropped. Its exit status, 128 and the signal if one ended it;
 * -1 after fail() if it could not be run.
 */
int run_output(const char *path, char *const *argv, size_t max, struct buf *b);
#endif
