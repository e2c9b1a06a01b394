/* A place that images lie in, opened: the node's state, or a depot that may hang. */
#ifndef BOX_REACH_H
#define BOX_REACH_H
#include "store/state.h"

/*
 * The depot at PATH as depot_open() has it, asked first with the time limit of probe_depot(). -1 after
 * fail().
 */
int reach_depot(struct state *depot, const struct conf *conf, const char *path, int make);
/* That depot to read from, or with DEPOT NULL the node's state as state_open() has it. */
int reach_images(struct state *st, const char *depot, int make);
#endif
