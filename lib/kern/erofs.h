/* EROFS layers, mounted straight from their files (Linux 6.12 on; no loop device). */
#ifndef KERN_EROFS_H
#define KERN_EROFS_H
#include <stddef.h>

/*
 * Mounts the metadata file META with the N data files DEV as its extra devices in order, read-only
 * and without device nodes. Returns a detached mount's fd (the caller's), or -1 after fail().
 */
int erofs_mount(const char *meta, const char *const *dev, size_t n);
#endif
