/* No text makes a parser of numbers overrun or answer out of its bounds. */
#include <stdlib.h>
#include <string.h>

#include "base/num.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char s[256], text[NUM_TEXT];
	uint64_t v;

	if (size >= sizeof(s))
		return 0;
	memcpy(s, data, size);
	s[size] = 0;
	if (!num_u64("x", s, 1000, &v) && v > 1000)
		abort();
	if (!num_size("x", s, &v)) {
		if (v > INT64_MAX)
			abort();
		num_fmt_size(text, v);
	}
	if (!num_duration("x", s, &v)) {
		if (v > INT64_MAX)
			abort();
		num_fmt_duration(text, v);
		num_fmt_time(text, v);
	}
	if (!num_milli("x", s, &v) && (v < 1 || v > 1000000))
		abort();
	return 0;
}
