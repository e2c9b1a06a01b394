/* The text of a seccomp profile as rules: see sbx-seccomp(5). Needs no library. */
#ifndef KERN_SECCOMP_PARSE_H
#define KERN_SECCOMP_PARSE_H
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

enum { SECCOMP_CONDS = 4, SECCOMP_RULES = 4096, SECCOMP_TEXT = 256 * 1024 };

/*
 * (argument & mask) == value, or != if NOT. Only the low 32 bits count, for the kernel takes no
 * more of an int: a comparison of all 64 is passed by a garbage high half (CVE-2019-7303,
 * CVE-2019-10063).
 */
struct seccomp_cond {
	unsigned arg; /* 0-5 */
	uint32_t mask, value;
	int not ;
};

struct seccomp_rule {
	const char *name; /* of the system call; lives as long as the profile */
	long number;	  /* after NAME=, the same on every architecture; -1: none */
	uint32_t action;  /* SECCOMP_RET_* with its data */
	unsigned nconds;  /* all must hold */
	struct seccomp_cond cond[SECCOMP_CONDS];
	int line;
};

/* For one call the rules are tried in order; FALLBACK if none holds. */
struct seccomp_profile {
	char *text;
	struct seccomp_rule *rule;
	size_t n;
	uint32_t fallback;
};

#define autoprofile __attribute__((cleanup(seccomp_free))) struct seccomp_profile
void seccomp_free(struct seccomp_profile *p);

/* Copies TEXT. Errors name SOURCE and the line. P must be zero, and is to be freed even on error.
 */
int seccomp_parse(struct seccomp_profile *p, const char *source, const char *text);

/* As a profile has them: "errno EPERM", "arg0 & 0x3 == 0x1 and arg1 != 0x2" ("" if none). */
void seccomp_action_text(struct buf *b, uint32_t action);
void seccomp_cond_text(struct buf *b, const struct seccomp_rule *r);
#endif
