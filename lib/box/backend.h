/* What sbx-keep needs of a kind of box, and all it knows about one. */
#ifndef BOX_BACKEND_H
#define BOX_BACKEND_H
#include <sys/types.h>

#include "box/spec.h"
#include "kern/cgroup.h"
#include "store/state.h"

/* A started box, as its keeper holds it. The fds are the keeper's. */
struct box_run {
	pid_t pid; /* the process whose end is the end of the box, a child of the keeper */
	int pidfd;
	int root; /* O_PATH: its root directory as it sees it; -1 if the host cannot see it */
	int pts;  /* O_PATH: its devpts, for terminals; -1 if it has none */
	int *layer; /* of a box that is traced: the roots of its own mounts of its layers; else NULL */
	size_t nlayer;
	struct cgroup cgroup; /* limits of all of it */
};

/* oom_score_adj of all that runs in a box. */
#define BOX_OOM_ADJ "500"

struct backend {
	const char *name;
	/*
	 * Starts the box: when it returns 0 a command can run in it. It may leave the caller's
	 * mount namespace for good: after it, paths mean nothing, only fds do. On -1 nothing is
	 * left but what box_remove() removes.
	 */
	int (*start)(const struct state *st, const struct spec *s, struct box_run *run);
};

extern const struct backend backend_container;
const struct backend *backend_find(const char *name); /* NULL if there is none */
#endif
