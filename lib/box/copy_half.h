/* One half of a copy each; DATA is the end of the pipe, or stdin or stdout. */
#ifndef BOX_COPY_HALF_H
#define BOX_COPY_HALF_H
#include "box/copy.h"

struct half {
	const struct copy *c;
	int root, pid1; /* of the box: O_PATH directory, pidfd */
	int data;
	int direct;	   /* data is the caller's own stream: there is no other half */
	const char *owner; /* as user_find takes it */
};

/*
 * In a child: becomes root of the box, without its processes, network and mounts, and walks or
 * fills its files. Does not return. PARENT ends it by ending.
 */
_Noreturn void half_box(const struct half *h, int parent);
/* In the caller's own process. -1 after fail(), which is the other half's to explain if errno is
 * EPIPE; else *CODE is 0 or EX_NO. */
int half_host(const struct half *h, int *code);
#endif
