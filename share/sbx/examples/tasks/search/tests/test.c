#include <stdio.h>

#include "search.h"

static void test(const char *name, size_t got, size_t want)
{
	printf("%s %s\n", got == want ? "ok" : "not ok", name);
	fflush(stdout);
}

int main(void)
{
	static const int odd[] = {1, 3, 5, 7, 9}, same[] = {2, 2, 2, 2, 2, 2, 2}, one[] = {4};

	test("nothing", lower(odd, 0, 1), 0);
	test("one, less", lower(one, 1, 3), 0);
	test("one, equal", lower(one, 1, 4), 0);
	test("one, greater", lower(one, 1, 5), 1);
	test("found", lower(odd, 5, 7), 3);
	test("between", lower(odd, 5, 4), 2);
	test("before all", lower(odd, 5, 0), 0);
	test("after all", lower(odd, 5, 10), 5);
	test("the first of equals", lower(same, 7, 2), 0);
	test("just the last", lower(odd, 5, 9), 4);
	return 0;
}
