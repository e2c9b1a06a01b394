/* The steps of bare.c. All return -1 with errno and say nothing: some run on borrowed memory. */
#ifndef BENCH_BARE_H
#define BENCH_BARE_H
#include <sys/types.h>

int bare_layer(const char *meta, const char *data); /* detached mount of an EROFS layer */
int bare_userns(int pidfd, pid_t pid);		    /* the process's user namespace */
int bare_overlay(int lower, int upper, int work);   /* detached mount */

/* In the child: OVERLAY becomes /, with /proc, /tmp, /dev (NODES: devices too) and /dev/pts. */
int bare_root(int overlay, unsigned nodes);
int bare_lo_up(void);
int bare_filter(void); /* as many tests as docker's default profile has refusals */

/* One group per box: on v2 one directory, on v1 one per controller and one in the v2 tree. */
enum { GROUPS = 4 };
struct groups {
	int parent[GROUPS], box[GROUPS], n, v2;
};
int groups_open(struct groups *g); /* makes "bench-bare.PID" */
int groups_make(struct groups *g); /* the box's, with limits of memory, cpu and tasks */
int groups_enter(const struct groups *g, pid_t pid);
int groups_remove(struct groups *g);
void groups_close(struct groups *g);
#endif
