#include <stdio.h>
#include <string.h>

#include "csv.h"

static void test(const char *name, const char *line, int n, int room, int want, const char *text)
{
	struct {
		char out[64], guard[64];
	} m;
	int got;

	memset(&m, 'G', sizeof(m));
	got = csv_field(line, n, m.out + sizeof(m.out) - room, room);
	printf("%s %s\n",
	       got == want && (want < 0 || !strcmp(m.out + sizeof(m.out) - room, text)) &&
			       m.guard[0] == 'G' ?
		       "ok" :
		       "not ok",
	       name);
	fflush(stdout);
}

int main(void)
{
	test("the first", "a,b,c", 0, 8, 1, "a");
	test("the last", "a,b,c", 2, 8, 1, "c");
	test("none such", "a,b,c", 3, 8, -1, "");
	test("empty", "a,,c", 1, 8, 0, "");
	test("an empty line", "", 0, 8, 0, "");
	test("quotes", "\"a\",b", 0, 8, 1, "a");
	test("a comma in quotes", "\"a,b\",c", 1, 8, 1, "c");
	test("a quote in quotes", "\"a\"\"b\"", 0, 8, 3, "a\"b");
	test("just room", "abcdefg", 0, 8, 7, "abcdefg");
	test("no room", "abcdefgh", 0, 8, -1, "");
	return 0;
}
