/* sbx.conf and the environment that overrides it: option > environment > file > built in. */
#ifndef BASE_CONF_H
#define BASE_CONF_H
#include <stdint.h>

#include "base/id.h"

struct conf {
	const char *state;	    /* SBX_STATE, state = : absolute path of the state directory */
	const char *run;	    /* SBX_RUN, run = */
	char node[ID_NODE_MAX + 1]; /* SBX_NODE, node = */
	uint64_t max_boxes;	    /* at once on this node; each has one range of ids */
	uint64_t id_base;	    /* first host id of the first range; ranges are 65536 long */
	uint64_t mem;		    /* bytes a box gets unless -m says otherwise */
	uint64_t pids;		    /* likewise, tasks */
	uint64_t cpus;		    /* likewise, thousandths of a CPU; 0: all */
	uint64_t ttl_ms;	    /* likewise; 0: none */
	uint64_t idle_ms;
	uint64_t max_output;	   /* bytes kept of each stream of a command */
	uint64_t mem_reserve;	   /* bytes of MemAvailable that a creation must leave */
	uint64_t disk_reserve;	   /* bytes of free state disk that a creation must leave */
	uint64_t depot_timeout_ms; /* how long a depot may take to answer */
	uint64_t depot_abort_ms;   /* one that is silent so long is given up; 0: never */
	const char *seccomp;	   /* profile: a name in share/sbx/seccomp or a path */
	const char *share;	   /* SBX_SHARE: where share/sbx lies */
	const char *libexec;	   /* SBX_LIBEXEC: where sbx-keep lies */
};

/*
 * Reads SBX_CONFIG (default /etc/sbx/sbx.conf; its absence is fine unless it was named) and the
 * environment. An unknown key or a bad value is an error with file:line. Never freed.
 */
int conf_load(struct conf *c);
#endif
