#include <stdlib.h>

#include "base/buf.h"
#include "tap.h"

int main(void)
{
	autobuf b = BUF_INIT;
	autofree char *s = NULL;

	is_str(buf_cstr(&b), "", "an empty buffer");
	buf_add(&b, NULL, 0);
	is_num(b.len, 0, "nothing added");
	buf_str(&b, "ab");
	buf_chr(&b, 0);
	buf_fmt(&b, "%d-%s", 7, "x");
	is_num(b.len, 6, "lengths");
	ok(!memcmp(b.p,
		   "ab\0"
		   "7-x",
		   7),
	   "bytes, with a NUL after them");
	buf_clear(&b);
	is_str(buf_cstr(&b), "", "cleared");
	for (int i = 0; i < 100000; i++)
		buf_chr(&b, 'y');
	ok(b.len == 100000 && strlen(b.p) == 100000, "grows");
	memcpy(buf_room(&b, 3), "abc", 3);
	b.len += 3;
	is_str(b.p + 99999, "yabc", "room");
	s = xasprintf("%s", b.p);
	is_num(strlen(s), 100003, "xasprintf");
	return done();
}
