/* What a node needs to have boxes, tried rather than guessed where that can be. */
#ifndef BOX_DOCTOR_H
#define BOX_DOCTOR_H
#include "base/conf.h"

enum need_status {
	NEED_OK,
	NEED_MISSING, /* no box can be made, or none safely */
	NEED_WARN,    /* fewer boxes than configured, or a feature less */
	NEED_INFO,    /* nothing depends on it */
};
const char *need_status_name(enum need_status s);

struct need {
	enum need_status status;
	const char *name;
	const char *detail; /* one line: what is there, or what is not */
	const char *cure;   /* a command; NULL if there is none to give */
};

struct doctor {
	const struct conf *conf;
	void (*say)(void *arg, const struct need *n); /* gets each need in turn */
	void *arg;
};

void need_say(const struct doctor *d, enum need_status status, const char *name, const char *cure,
	      const char *fmt, ...) __attribute__((format(printf, 5, 6)));

/* Each says the needs of its part. Nothing they make for a trial is left behind. */
void doctor_kernel(const struct doctor *d); /* rights, mounts, namespaces, cgroups, seccomp */
void doctor_limits(const struct doctor *d); /* sysctls and limits against max_boxes, id ranges */
void doctor_files(const struct doctor *d);  /* state directory, space, programs, share */
void doctor_extras(const struct doctor *d); /* for information */
#endif
