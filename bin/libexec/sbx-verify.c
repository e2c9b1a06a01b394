/*
 * Compares the metadata of layers with their digests, before they are mounted. Run by the tools that
 * make boxes, which are too small to have a SHA-256; what is wrong is said on standard output.
 */
#include <stdio.h>

#include "base/die.h"
#include "store/verify.h"

int main(int argc, char **argv)
{
	struct state st;

	die_init(argv[0]);
	if (state_open(&st, 0) < 0) {
		puts(fail_text());
		return EX_SBX;
	}
	for (int i = 1; i < argc; i++)
		if (verify_meta(&st, argv[i]) < 0) {
			puts(fail_text());
			return EX_NO;
		}
	return 0;
}
