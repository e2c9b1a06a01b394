/* Depots that have stopped to answer, and the FUSE connections to them that are given up. */
#ifndef BOX_SILENT_H
#define BOX_SILENT_H
#include "store/state.h"

/*
 * Asks each depot that a mounted layer of this node reads from. One that has been silent for
 * conf.depot_abort and is served through FUSE is cut off: what hangs on it gets an error. REPORT is
 * called for each with its path. RUN/silent/MINOR keeps since when it is silent. -1 after fail().
 */
int silent_abort(const struct state *st, int dry_run,
		 void (*report)(const char *what, const char *why));
#endif
