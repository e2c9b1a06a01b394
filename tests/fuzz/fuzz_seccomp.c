/* libFuzzer: the profile parser, and its rules as text. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "kern/seccomp_parse.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	autofree char *text = xmalloc(size + 1);
	autoprofile p = {0};

	memcpy(text, data, size);
	text[size] = 0;
	if (seccomp_parse(&p, "fuzz", text) < 0)
		return 0;
	for (size_t i = 0; i < p.n; i++) {
		autobuf b = BUF_INIT;

		seccomp_action_text(&b, p.rule[i].action);
		seccomp_cond_text(&b, &p.rule[i]);
	}
	return 0;
}
