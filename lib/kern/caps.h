/* Capabilities of the calling process. */
#ifndef KERN_CAPS_H
#define KERN_CAPS_H
#include <stdint.h>

/* What containers usually give root: no SYS_ADMIN, NET_ADMIN, SYS_PTRACE, SYS_MODULE ... */
#define CAPS_DEFAULT 0xa80425fbull

/* Lowers the bounding set to KEEP and clears the ambient set; needs CAP_SETPCAP, so: before a
 * change of user. */
int caps_bound(uint64_t keep);
/* Permitted and effective become KEEP (0: none), inheritable empty (CVE-2022-24769). */
int caps_set(uint64_t keep);
#endif
