/* The space a directory tree takes, counted without trusting what is in it. */
#ifndef STORE_USAGE_H
#define STORE_USAGE_H
#include <stdint.h>

struct usage {
	uint64_t bytes; /* allocated, hard links once for every name */
	uint64_t files; /* of every kind, directories too */
	int partial;	/* it stopped at the limit */
};

/*
 * Counts NAME in the directory AT and what is below, at most MAX_FILES of it. Never follows a link
 * nor crosses a mount, and depth costs neither stack nor descriptors: the tree may be hostile and
 * may change meanwhile. An absent tree is empty. -1 after fail().
 */
int usage_count(int at, const char *name, uint64_t max_files, struct usage *u);
#endif
