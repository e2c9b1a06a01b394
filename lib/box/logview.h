/* A box's log as people read it: a command's beginning and end are one record. */
#ifndef BOX_LOGVIEW_H
#define BOX_LOGVIEW_H
#include <stddef.h>
#include <stdint.h>

#include "base/kv.h"
#include "base/rec.h"

extern const struct rec_col logview_cols[];

struct logview_command {
	struct kv begin, end;
};

struct logview {
	struct rec *rec; /* opened with logview_cols; the caller's */
	uint64_t only;	 /* this command alone; 0: all */
	int raw;	 /* every record of the log as it is */
	int at_once;	 /* a command is printed when it ends, not in the order of beginnings */
	struct logview_command *v;
	size_t first, n; /* those before first are printed */
};

/* Takes the next record of the log over, and prints what is complete by it. */
void logview_add(struct logview *p, struct kv *rec);
/* Prints commands in the order of their beginnings; ALL: those that have not ended too. */
void logview_flush(struct logview *p, int all);
#endif
