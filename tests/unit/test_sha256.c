/* SHA-256: the examples of FIPS 180-4, and OpenSSL's word for every length around the blocks' ends. */
#include <stdlib.h>
#include <string.h>

#include "base/sha256.h"
#include "store/digest.h"
#include "tap.h"

static int is_hash(const char *text, size_t n, const char *want)
{
	struct sha256 s;
	char hex[65];

	sha256_start(&s);
	sha256_add(&s, text, n);
	sha256_end(&s, hex);
	return !strcmp(hex, want);
}

/* In pieces of STEP bytes. */
static int same(const char *p, size_t n, size_t step)
{
	struct sha256 s;
	char hex[65], want[65];

	sha256_start(&s);
	for (size_t at = 0; at < n; at += step)
		sha256_add(&s, p + at, n - at < step ? n - at : step);
	sha256_end(&s, hex);
	return !sha_hex(p, n, want) && !strcmp(hex, want);
}

int main(void)
{
	static char data[1000];
	int good = 1;

	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (char)(i * 37 + i / 7);
	ok(is_hash("", 0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
	   "nothing");
	ok(is_hash("abc", 3, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
	   "one block");
	ok(is_hash("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 56,
		   "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"),
	   "two blocks");
	for (size_t n = 0; n < 300; n++)
		good = good && same(data, n, n + 1) && same(data, n, 1) && same(data, n, 63);
	ok(good, "all lengths, whole and in pieces");
	ok(same(data, sizeof(data), 64) && same(data, sizeof(data), 65), "a thousand bytes");
	return done();
}
