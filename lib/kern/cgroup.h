/*
 * Control groups behind one interface: v2 alone, or the hybrid layout where v1 hierarchies have the
 * controllers and a v2 tree without any still has freeze, kill and cpu.stat.
 *
 * Below a prefix of ours each box has a group, with the limits; each command slot has a group in
 * it. On v1 only memory has slot groups (it counts kills and peaks by group); cpu and pids stop at
 * the box.
 */
#ifndef KERN_CGROUP_H
#define KERN_CGROUP_H
#include <stdint.h>

struct cgroup_tree {		/* directory fds of our prefix in each hierarchy */
	int v2, mem, cpu, pids; /* the last three hybrid only: -1 on v2 */
};

struct cgroup { /* the same of a group */
	int v2, mem, cpu, pids;
};
/* clang-format off */
#define CGROUP_INIT {-1, -1, -1, -1}
/* clang-format on */

struct cgroup_limits {
	uint64_t mem_bytes; /* 0: none */
	uint64_t pids;	    /* 0: none */
	uint64_t cpu_milli; /* thousandths of a CPU; 0: none */
};

struct cgroup_usage {
	uint64_t cpu_ms;
	uint64_t mem, mem_peak; /* bytes */
	uint64_t oom_kills;	/* processes killed for memory, ever; v1: of this very group */
	uint64_t tasks;
};

/* Finds the hierarchies and opens (makes) PREFIX in each; fail() says what the node lacks. */
int cgroup_tree_open(struct cgroup_tree *t, const char *prefix);
void cgroup_tree_close(struct cgroup_tree *t);

/* Makes the group NAME with its limits, or opens it. The fds are the caller's. */
int cgroup_make(const struct cgroup_tree *t, const char *name, const struct cgroup_limits *l,
		struct cgroup *cg);
int cgroup_open(const struct cgroup_tree *t, const char *name, struct cgroup *cg);
void cgroup_close(struct cgroup *cg);
int cgroup_set_limits(const struct cgroup *cg, const struct cgroup_limits *l);

/* Closes and removes an empty slot; one that is not empty after all goes with the box. */
void cgroup_slot_remove(const struct cgroup *box, const char *name, struct cgroup *slot);

/*
 * Where pid 1 of a box lives: on v1 the box's own group; on v2 a leaf, because processes may be
 * only in leaves once a group hands a controller down (cgroup-v2.rst). Call it before any
 * cgroup_slot.
 */
int cgroup_home(const struct cgroup *box, struct cgroup *home);

/* The command slot NAME inside a box's group, made if absent. */
int cgroup_slot(const struct cgroup *box, const char *name, struct cgroup *slot);

/* Moves process PID (0: the caller) in. V1_ONLY: it was cloned into the v2 group already. */
int cgroup_enter(const struct cgroup *cg, int pid, int v1_only);

int cgroup_kill(const struct cgroup *cg);      /* SIGKILL to all in it and below, frozen or not */
int cgroup_populated(const struct cgroup *cg); /* 1, 0, or -1 with errno */
/* Waits until nothing lives in it; 1 when so, 0 when TIMEOUT_MS went by. */
int cgroup_wait_empty(const struct cgroup *cg, int timeout_ms);

int cgroup_usage(const struct cgroup *cg, struct cgroup_usage *u);
uint64_t cgroup_home_oom_kills(const struct cgroup *box); /* of pid 1 and what it had forked */
uint64_t cgroup_oom_kills(const struct cgroup *box);	  /* of a box and its slots, ever */
void cgroup_reset_peak(const struct cgroup *cg);	  /* where the kernel can */

/* Freezes (ON) all in it and below, or thaws it: 1 when done, 0 when not yet after TIMEOUT_MS. */
int cgroup_freeze(const struct cgroup *cg, int on, int timeout_ms);
int cgroup_frozen(const struct cgroup *cg); /* 1, 0, or -1 with errno */

/* Removes the group and all groups below it, in every hierarchy. Absent is success, EBUSY waits. */
int cgroup_remove(const struct cgroup_tree *t, const char *name);
#endif
