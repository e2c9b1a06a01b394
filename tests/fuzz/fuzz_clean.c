/*
 * libFuzzer: any rules parse or are refused, and any path is answered in bounded time. Rules end at
 * the first NUL, the path follows. The answer does not depend on slashes that are doubled.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "store/clean.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *text = (const char *)data;
	size_t n = strnlen(text, size);
	autobuf path = BUF_INIT, twice = BUF_INIT;
	struct clean *c;

	if (clean_parse("fuzz", text, n, &c) < 0)
		return 0;
	if (n < size)
		buf_add(&path, text + n + 1, strnlen(text + n + 1, size - n - 1));
	for (size_t i = 0; i < path.len; i++) {
		buf_chr(&twice, path.p[i]);
		if (path.p[i] == '/')
			buf_chr(&twice, '/');
	}
	for (int dir = 0; dir < 2; dir++)
		if (clean_match(c, buf_cstr(&path), dir) != clean_match(c, buf_cstr(&twice), dir))
			abort();
	clean_free(c);
	return 0;
}
