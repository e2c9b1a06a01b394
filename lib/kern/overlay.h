/* overlayfs over read-only layers, by file descriptor. */
#ifndef KERN_OVERLAY_H
#define KERN_OVERLAY_H
#include <stddef.h>

/*
 * A detached overlay mount. LOWER: mount fds from the lowest up; UPPER and WORK: directory fds on
 * one file system, opened in the caller's mount namespace (overlayfs refuses others). Mounted
 * nodev: device nodes that an image brings must not open. Volatile: no fsync reaches the disk,
 * because a box does not outlive the node's crash. The fds stay the caller's.
 */
int overlay_mount(const int *lower, size_t n, int upper, int work);

/* Only to look at: at least two LOWER, as directory fds too, merged without a layer to write to. */
int overlay_view(const int *lower, size_t n);
#endif
