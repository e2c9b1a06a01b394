/*
 * Rules for what does not go into a snapshot: one pattern a line, as gitignore(5) has them, see
 * sbx-clean.rules(5).
 */
#ifndef STORE_CLEAN_H
#define STORE_CLEAN_H
#include <stddef.h>

enum {
	CLEAN_TEXT = 1 << 20, /* bytes of a rule file */
	CLEAN_LINE = 1024,    /* bytes of a line */
	CLEAN_RULES = 4096,
};

struct clean;

/*
 * Reads a rule file; *C is the caller's. A mistake is a failure with file:line. clean_parse takes
 * its text instead, SOURCE is for messages.
 */
int clean_load(const char *path, struct clean **c);
int clean_parse(const char *source, const char *text, size_t len, struct clean **c);
void clean_free(struct clean *c); /* NULL is fine */

/*
 * 1 if PATH (from the box's root: "/root/.bash_history", any bytes) does not go in, else 0. The last
 * rule that matches decides. What is in a directory that does not go in is not asked about: as with
 * gitignore, nothing in it can be kept. Time is bounded by the lengths' product.
 */
int clean_match(const struct clean *c, const char *path, int is_dir);
#endif
