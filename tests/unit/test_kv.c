#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/die.h"
#include "base/kv.h"
#include "tap.h"

static int file(struct kv *kv, const char *text)
{
	return kv_parse_file(kv, "f", text, strlen(text));
}

static int line(struct kv *kv, const char *text)
{
	return kv_parse_line(kv, "l", text, strlen(text));
}

static void all_bytes(void)
{
	char in[256];
	autobuf b = BUF_INIT;
	autokv kv = {0};

	for (int i = 0; i < 256; i++)
		in[i] = (char)i;
	kv_put_bytes(&b, "k", in, sizeof(in));
	ok(!memchr(b.p, '\n', b.len) && !memchr(b.p, '\t', b.len) && !memchr(b.p, 0, b.len),
	   "escaped bytes end neither field nor record");
	is_num(kv_parse_line(&kv, "l", b.p, b.len), 0, "a line with all bytes");
	ok(kv.n == 1 && kv.pair[0].len == 256 && !memcmp(kv.pair[0].val, in, 256), "come back");
}

/* A value may begin or end with blanks, which a file's parser takes off. */
static void file_round_trip(void)
{
	static const char *const vals[] = {
		"",	"x",  " x ", "\tx\t", "a b = c", "# no comment", "\\",	  "\\n",
		"a\nb", "\r", "  ",  "=",     "a\\",	 "\\ x ",	 "x\\\t", "\xff\xfe"};

	for (size_t i = 0; i < sizeof(vals) / sizeof(vals[0]); i++) {
		autobuf b = BUF_INIT;
		autokv kv = {0};

		kv_put_file(&b, "key", vals[i]);
		is_num(file(&kv, b.p), 0, "a written pair parses");
		is_str(kv_get(&kv, "key"), vals[i], "and is the same");
	}
}

static void files(void)
{
	autokv kv = {0};

	is_num(file(&kv, "# c\n\n a = 1 \nb=2\r\na = 3\nlong = x = y\nempty =\n"), 0, "a file");
	is_num(kv.n, 5, "pairs");
	is_str(kv_get(&kv, "a"), "3", "the last wins");
	is_str(kv.pair[0].val, "1", "order is kept");
	is_num(kv.pair[0].line, 3, "its line");
	is_str(kv_get(&kv, "b"), "2", "without blanks, with CR");
	is_str(kv_get(&kv, "long"), "x = y", "the first = counts");
	is_str(kv_get(&kv, "empty"), "", "an empty value");
	ok(!kv_get(&kv, "none"), "an absent key");
	is_str(kv_str(&kv, "none", "d"), "d", "its default");
	is_num(file(&kv, ""), 0, "an empty file");
	is_num(kv.n, 0, "has no pairs");
	is_num(file(&kv, "a = 1"), 0, "no newline at the end");
	is_str(kv_get(&kv, "a"), "1", "its value");
	is_num(file(&kv, "a = 1\nnonsense\n"), -1, "a line without =");
	is_str(fail_text(), "f:2: expected 'key = value'", "is named");
	is_num(file(&kv, "= 1\n"), -1, "no key");
	is_num(file(&kv, "  = 1\n"), -1, "a blank key");
	is_num(file(&kv, "\r\t= 1\n"), -1, "a key of blanks alone");
	is_num(kv_parse_file(&kv, "f", "a = \0b\n", 7), -1, "a NUL byte");
}

static void lines(void)
{
	autokv kv = {0};
	autobuf b = BUF_INIT;

	is_num(line(&kv, "a=1\tb=x y\tc=\ta=\\t\\n\n"), 0, "a record");
	is_num(kv.n, 4, "pairs");
	is_str(kv_get(&kv, "a"), "\t\n", "escapes");
	is_str(kv_get(&kv, "b"), "x y", "a blank");
	is_str(kv_get(&kv, "c"), "", "an empty value");
	is_num(line(&kv, ""), 0, "an empty record");
	is_num(line(&kv, "a=1\t\tb=2"), -1, "an empty field");
	is_num(line(&kv, "a"), -1, "no =");
	is_num(line(&kv, "a=1\nb=2"), -1, "two records");
	is_num(line(&kv, "a=x\\"), 0, "a backslash at the end");
	is_str(kv_get(&kv, "a"), "x\\", "stands for itself");
	kv_put_line(&b, "a", "1");
	kv_put_num(&b, "b", UINT64_MAX);
	buf_chr(&b, '\n');
	kv_put_line(&b, "c", "2");
	is_str(b.p, "a=1\tb=18446744073709551615\nc=2", "tabs between pairs, none after a line");
}

static void numbers(void)
{
	autokv kv = {0};

	line(&kv, "a=12\tb=x\tc=-1\td=18446744073709551616\te=\tf=12x\tg=18446744073709551615");
	is_num(kv_u64(&kv, "a", 7), 12, "a number");
	is_num(kv_u64(&kv, "b", 7), 7, "a word");
	is_num(kv_u64(&kv, "c", 7), 7, "a negative number");
	is_num(kv_u64(&kv, "d", 7), 7, "too large");
	is_num(kv_u64(&kv, "e", 7), 7, "nothing");
	is_num(kv_u64(&kv, "f", 7), 7, "digits and a letter");
	ok(kv_u64(&kv, "g", 7) == UINT64_MAX, "the largest");
	is_num(kv_u64(&kv, "none", 7), 7, "absent");
}

static void many(void)
{
	autobuf b = BUF_INIT;
	autokv kv = {0};

	for (int i = 0; i < 5000; i++)
		buf_fmt(&b, "k%d = %d\n", i, i);
	is_num(kv_parse_file(&kv, "f", b.p, b.len), 0, "5000 pairs");
	is_num(kv_u64(&kv, "k4999", 0), 4999, "the last of them");
}

static void load(void)
{
	char path[] = "/tmp/test_kv.XXXXXX";
	int fd = mkstemp(path);
	autokv kv = {0};

	ok(fd >= 0 && write(fd, "a = 1\n", 6) == 6, "a file on disk");
	is_num(kv_load(&kv, AT_FDCWD, path), 0, "loads");
	ok(fd >= 0 && !ftruncate(fd, (1 << 20) + 1), "a file over 1 MiB");
	is_num(kv_load(&kv, AT_FDCWD, path), -1, "is refused");
	close(fd);
	unlink(path);
}

int main(void)
{
	all_bytes();
	file_round_trip();
	files();
	lines();
	numbers();
	many();
	load();
	return done();
}
