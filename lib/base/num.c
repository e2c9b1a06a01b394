#include "base/num.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/die.h"

int num_u64(const char *what, const char *s, uint64_t max, uint64_t *out)
{
	unsigned long long v;

	if (!*s || s[strspn(s, "0123456789")])
		return failx("%s '%s' is not a whole number", what, s);
	errno = 0;
	v = strtoull(s, NULL, 10);
	if (errno || v > max)
		return failx("%s '%s' is too large (at most %llu)", what, s,
			     (unsigned long long)max);
	*out = v;
	return 0;
}

/* Reads "12" or "1.25" as a multiple of UNIT; leaves *s behind it. -1: none, or too big. */
static int scaled(const char **s, uint64_t unit, uint64_t *out)
{
	uint64_t whole = 0, part = 0, div = 1;
	const char *p = *s;

	if (!isdigit((unsigned char)*p))
		return -1;
	for (; isdigit((unsigned char)*p); p++) {
		if (whole > (UINT64_MAX / 2 - 9) / 10)
			return -1;
		whole = whole * 10 + (uint64_t)(*p - '0');
	}
	if (*p == '.') {
		if (!isdigit((unsigned char)p[1]))
			return -1;
		for (p++; isdigit((unsigned char)*p); p++)
			if (div < 1000000) {
				part = part * 10 + (uint64_t)(*p - '0');
				div *= 10;
			}
	}
	if (unit && whole > INT64_MAX / unit)
		return -1;
	*out = whole * unit + (uint64_t)((double)part / (double)div * (double)unit);
	*s = p;
	return 0;
}

/* The unit comes after the number, the number must be read first: find the unit ahead of it. */
static const char *skip_number(const char *s)
{
	while (isdigit((unsigned char)*s) || *s == '.')
		s++;
	return s;
}

int num_size(const char *what, const char *s, uint64_t *bytes)
{
	static const char units[] = "KMGT";
	const char *p = s, *u = skip_number(s);
	const char *at = *u ? strchr(units, toupper((unsigned char)*u)) : NULL;
	uint64_t unit = at ? 1ull << (10 * (at - units + 1)) : 1;

	if (scaled(&p, unit, bytes) < 0)
		goto bad;
	if (at)
		p++;
	if (at && p[0] == 'i' && p[1] == 'B')
		p++;
	if (*p == 'B')
		p++;
	if (!*p)
		return 0;
bad:
	return failx("%s '%s' is not a size (such as 512M or 1.5G)", what, s);
}

int num_duration(const char *what, const char *s, uint64_t *ms)
{
	const char *p = s;
	uint64_t sum = 0;

	do {
		const char *u = skip_number(p);
		uint64_t unit = 1000, one;
		size_t len = 1;

		if (!strncmp(u, "ms", 2)) {
			unit = 1;
			len = 2;
		} else if (*u == 's') {
			unit = 1000;
		} else if (*u == 'm') {
			unit = 60 * 1000;
		} else if (*u == 'h') {
			unit = 3600 * 1000;
		} else if (*u == 'd') {
			unit = 86400 * 1000;
		} else if (!*u && p == s) {
			len = 0;
		} else {
			goto bad;
		}
		if (scaled(&p, unit, &one) < 0 || one > INT64_MAX / 4 - sum)
			goto bad;
		sum += one;
		p += len;
	} while (*p);
	*ms = sum;
	return 0;
bad:
	return failx("%s '%s' is not a duration (such as 250ms, 30s, 5m, 2h, 1d)", what, s);
}

int num_milli(const char *what, const char *s, uint64_t *milli)
{
	const char *p = s;

	if (scaled(&p, 1000, milli) < 0 || *p || !*milli || *milli > 1000000)
		return failx("%s '%s' is not a number of CPUs (such as 0.5 or 2)", what, s);
	return 0;
}

char *num_fmt_size(char out[NUM_TEXT], uint64_t bytes)
{
	static const char units[] = "BKMGTPE";
	double v = (double)bytes;
	int i = 0;

	/* From 1023.5 on, "1024K" would be printed. */
	for (; v >= (i ? 1023.5 : 1024) && units[i + 1]; i++)
		v /= 1024;
	snprintf(out, NUM_TEXT, i && v < 9.95 ? "%.1f%c" : "%.0f%c", v, units[i]);
	return out;
}

char *num_fmt_duration(char out[NUM_TEXT], uint64_t ms)
{
	uint64_t s = ms / 1000, m = s / 60, h = m / 60, d = h / 24;

	if (ms < 1000)
		snprintf(out, NUM_TEXT, "%dms", (int)ms);
	else if (s < 60)
		snprintf(out, NUM_TEXT, "%d.%ds", (int)s, (int)(ms % 1000 / 100));
	else if (m < 60)
		snprintf(out, NUM_TEXT, "%dm%02ds", (int)m, (int)(s % 60));
	else if (h < 24)
		snprintf(out, NUM_TEXT, "%dh%02dm", (int)h, (int)(m % 60));
	else
		snprintf(out, NUM_TEXT, "%llud%02dh", (unsigned long long)d, (int)(h % 24));
	return out;
}

char *num_fmt_time(char out[NUM_TEXT], uint64_t unix_ms)
{
	time_t t = (time_t)(unix_ms / 1000);
	struct tm tm;
	size_t n;

	if (!gmtime_r(&t, &tm) || tm.tm_year > 8099) {
		out[0] = '-';
		out[1] = 0;
		return out;
	}
	n = strftime(out, NUM_TEXT, "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(out + n, NUM_TEXT - n, ".%03dZ", (int)(unix_ms % 1000));
	return out;
}

uint64_t num_now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

uint64_t num_mono_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}
