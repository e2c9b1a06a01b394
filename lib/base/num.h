/* Numbers as people type and read them. Parsers fail() naming WHAT and the text. */
#ifndef BASE_NUM_H
#define BASE_NUM_H
#include <stdint.h>

/* Decimal digits only, no sign, no blanks, at most MAX. */
int num_u64(const char *what, const char *s, uint64_t max, uint64_t *out);
/* Bytes: a number, a fraction allowed before K M G T (1024^n; an optional B or iB after). */
int num_size(const char *what, const char *s, uint64_t *bytes);
/* Milliseconds: 250ms 30s 5m 2h 1d, sums such as 1h30m; bare is seconds; fractions allowed. */
int num_duration(const char *what, const char *s, uint64_t *ms);
/* CPUs as 0.5 or 2 to thousandths of a CPU, at least 1. */
int num_milli(const char *what, const char *s, uint64_t *milli);

/* Room every formatter below needs. */
enum { NUM_TEXT = 32 };
char *num_fmt_size(char out[NUM_TEXT], uint64_t bytes);	  /* 1.5G */
char *num_fmt_duration(char out[NUM_TEXT], uint64_t ms);  /* 2h05m */
char *num_fmt_time(char out[NUM_TEXT], uint64_t unix_ms); /* 2026-02-03T04:05:06.789Z */

uint64_t num_now_ms(void);  /* wall clock, milliseconds since 1970 */
uint64_t num_mono_us(void); /* CLOCK_MONOTONIC, microseconds */
#endif
