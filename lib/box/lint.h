/*
 * Looks through a box's files for what gives answers away. A process in the box does it, with a
 * command's rights and less: what it reads is hostile. The caller's process only reads its records.
 */
#ifndef BOX_LINT_H
#define BOX_LINT_H
#include <stdint.h>

#include "store/state.h"

enum { LINT_FINDINGS_MAX = 10000 };

struct lint_finding {
	const char *kind; /* git-unreachable git-ref git-reflog git-alternate history backup core
			     unchecked */
	const char *path; /* in the box, any bytes; at most 1500 */
	uint64_t count;
	const char *detail; /* printable */
};

typedef void lint_found(void *arg, const struct lint_finding *f);

/*
 * Calls FOUND for each finding in box ID, as they come. Returns how many there were; -1 after
 * fail(), with those that came before it told: EX_TIMEOUT after LIMIT_MS, EX_GONE if the box has
 * ended. Only for a process without threads, which keeps no secret in its memory.
 */
int lint_box(const struct state *st, const char *id, uint64_t limit_ms, lint_found *found,
	     void *arg);
#endif
