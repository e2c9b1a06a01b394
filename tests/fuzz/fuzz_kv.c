/* Any bytes parse or are refused; what parsed comes back the same when written and parsed again. */
#include <stdlib.h>
#include <string.h>

#include "base/kv.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void same(const struct kv *a, const struct kv *b)
{
	if (a->n != b->n)
		abort();
	for (size_t i = 0; i < a->n; i++)
		if (strcmp(a->pair[i].key, b->pair[i].key) != 0 ||
		    a->pair[i].len != b->pair[i].len ||
		    memcmp(a->pair[i].val, b->pair[i].val, a->pair[i].len) != 0)
			abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	autokv a = {0}, b = {0};
	autobuf text = BUF_INIT;

	if (!kv_parse_line(&a, "l", (const char *)data, size)) {
		for (size_t i = 0; i < a.n; i++)
			kv_put_bytes(&text, a.pair[i].key, a.pair[i].val, a.pair[i].len);
		if (kv_parse_line(&b, "l", buf_cstr(&text), text.len) < 0)
			abort();
		same(&a, &b);
	}
	buf_clear(&text);
	if (!kv_parse_file(&a, "f", (const char *)data, size)) {
		for (size_t i = 0; i < a.n; i++) {
			if (strlen(a.pair[i].val) != a.pair[i].len)
				return 0; /* kv_put_file takes texts */
			kv_put_file(&text, a.pair[i].key, a.pair[i].val);
		}
		if (kv_parse_file(&b, "f", buf_cstr(&text), text.len) < 0)
			abort();
		same(&a, &b);
	}
	return 0;
}
