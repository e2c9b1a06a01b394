/*
 * EROFS layers, mounted straight from their files (Linux 6.12 on), or else through loop devices: by an
 * older kernel, or from a file system that has no page cache to read through, such as tmpfs.
 */
#ifndef KERN_EROFS_H
#define KERN_EROFS_H
#include <stddef.h>

/*
 * Mounts the metadata file META with the data files DEV (NDEV of them, in the order of its device
 * table; may be 0), read-only and without device nodes. Returns a detached mount's fd (the
 * caller's), or -1 after fail().
 */
int erofs_mount(const char *meta, const char *const *dev, size_t ndev);

/* The two ways of it. From files: fails with ENOTBLK where only loop devices can do it. */
int erofs_mount_files(const char *meta, const char *const *dev, size_t ndev);
int erofs_mount_loop(const char *meta, const char *const *dev, size_t ndev);
#endif
