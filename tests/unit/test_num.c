#include <inttypes.h>

#include "base/die.h"
#include "base/num.h"
#include "tap.h"

typedef int parser(const char *what, const char *s, uint64_t *out);

struct good {
	const char *s;
	uint64_t v;
};

static void accepts(const char *name, parser *parse, const struct good *g)
{
	for (; g->s; g++) {
		char what[80];
		uint64_t v = 12345;

		snprintf(what, sizeof(what), "%s '%s'", name, g->s);
		is_num(parse("x", g->s, &v), 0, what);
		is_num(v, g->v, what);
	}
}

static void refuses(const char *name, parser *parse, const char *const *s)
{
	for (; *s; s++) {
		char what[80];
		uint64_t v;

		snprintf(what, sizeof(what), "%s refuses '%s'", name, *s);
		is_num(parse("x", *s, &v), -1, what);
		ok(strstr(fail_text(), *s), "the message shows the text");
	}
}

static int whole(const char *what, const char *s, uint64_t *out)
{
	return num_u64(what, s, UINT64_MAX, out);
}

static void wholes(void)
{
	static const struct good g[] = {
		{"0", 0}, {"007", 7}, {"18446744073709551615", UINT64_MAX}, {NULL, 0}};
	static const char *const bad[] = {
		"", "-1", "+1", " 1", "1 ", "0x10", "1e3", "1.0", "18446744073709551616", NULL};
	uint64_t v;

	accepts("whole", whole, g);
	refuses("whole", whole, bad);
	is_num(num_u64("x", "10", 10, &v), 0, "the maximum itself");
	is_num(num_u64("x", "11", 10, &v), -1, "one more");
	ok(strstr(fail_text(), "at most 10"), "the message names the maximum");
}

static void sizes(void)
{
	static const struct good g[] = {{"0", 0},
					{"1", 1},
					{"512B", 512},
					{"1K", 1024},
					{"1k", 1024},
					{"1KiB", 1024},
					{"1KB", 1024},
					{"1.5G", 1610612736},
					{"0.5K", 512},
					{"8T", 8ull << 40},
					{"0.0001M", 104},
					{"9007199254740993", 9007199254740993},
					{"4194303T", 4194303ull << 40},
					{NULL, 0}};
	static const char *const bad[] = {"",
					  "K",
					  "-1",
					  "1X",
					  "1.",
					  ".5",
					  "1KK",
					  "1 K",
					  "1..5K",
					  "1.5.5",
					  "1KiBB",
					  "1Ki",
					  "99999999999T",
					  "99999999999999999999",
					  "16777216T",
					  NULL};

	accepts("size", num_size, g);
	refuses("size", num_size, bad);
}

static void durations(void)
{
	static const struct good g[] = {
		{"0", 0},	 {"5", 5000},	  {"250ms", 250},   {"30s", 30000},
		{"5m", 300000},	 {"2h", 7200000}, {"1d", 86400000}, {"1h30m", 5400000},
		{"1.5s", 1500},	 {"0.001", 1},	  {"1m30s", 90000}, {"1d1h1m1s1ms", 90061001},
		{"0.5m", 30000}, {NULL, 0}};
	static const char *const bad[] = {"",
					  "s",
					  "-1s",
					  "1x",
					  "1h30",
					  "1 s",
					  "ms",
					  "1.s",
					  "1sm",
					  "inf",
					  "99999999999999999999d",
					  "106751991168d106751991168d106751991168d",
					  NULL};

	accepts("duration", num_duration, g);
	refuses("duration", num_duration, bad);
}

static void cpus(void)
{
	static const struct good g[] = {{"1", 1000},	{"0.5", 500},	   {"0.001", 1},
					{"2.25", 2250}, {"1000", 1000000}, {NULL, 0}};
	static const char *const bad[] = {"0", "0.0001", "", "-1", "1001", "1c", "1,5", NULL};

	accepts("cpus", num_milli, g);
	refuses("cpus", num_milli, bad);
}

static void formats(void)
{
	char s[NUM_TEXT];

	is_str(num_fmt_size(s, 0), "0B", "0");
	is_str(num_fmt_size(s, 1023), "1023B", "1023");
	is_str(num_fmt_size(s, 1024), "1.0K", "1K");
	is_str(num_fmt_size(s, 1536ull << 20), "1.5G", "1.5G");
	is_str(num_fmt_size(s, 1048575), "1.0M", "just under 1M is not 1024K");
	is_str(num_fmt_size(s, UINT64_MAX), "16E", "the largest");
	is_str(num_fmt_duration(s, 999), "999ms", "ms");
	is_str(num_fmt_duration(s, 59999), "59.9s", "s");
	is_str(num_fmt_duration(s, 60000), "1m00s", "m");
	is_str(num_fmt_duration(s, 7500000), "2h05m", "h");
	is_str(num_fmt_duration(s, 90000000), "1d01h", "d");
	ok(strlen(num_fmt_duration(s, UINT64_MAX)) < NUM_TEXT, "the longest fits");
	is_str(num_fmt_time(s, 0), "1970-01-01T00:00:00.000Z", "the epoch");
	is_str(num_fmt_time(s, 1770091506789ull), "2026-02-03T04:05:06.789Z", "a time");
	is_str(num_fmt_time(s, UINT64_MAX), "-", "no time");
}

int main(void)
{
	wholes();
	sizes();
	durations();
	cpus();
	formats();
	ok(num_now_ms() > 1700000000000ull, "the clock");
	ok(num_mono_us() <= num_mono_us(), "monotonic");
	return done();
}
