/* File descriptors: owned by the scope that opens them, always O_CLOEXEC, never raced by a path. */
#ifndef BASE_FD_H
#define BASE_FD_H
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"

void fd_close(int *fd); /* closes *fd if it is >= 0 and sets it to -1; errno kept */
#define autofd __attribute__((cleanup(fd_close))) int

int fd_take(int *fd); /* gives the fd away: returns it and leaves -1 behind */

/* openat2(2) with RESOLVE flags; adds O_CLOEXEC. -1 with errno, no message. */
int fd_openat2(int dir, const char *path, int flags, mode_t mode, uint64_t resolve);

/* Opens a directory (O_RDONLY|O_DIRECTORY); with MKDIR it is made first if absent, mode 0700. */
int fd_dir(int at, const char *path, int make);
/* mkdir -p of a path of ours, every new part with MODE. */
int fd_mkdirs(const char *path, mode_t mode);

/* All of N bytes or -1; EINTR and short counts are handled. read gives the count up to EOF. */
int fd_write_all(int fd, const void *p, size_t n);
ssize_t fd_read_all(int fd, void *p, size_t n);

/* The whole of a small file into B (replacing it): at most MAX bytes, more is EFBIG. */
int fd_read_file(int at, const char *path, size_t max, struct buf *b);

/*
 * Replaces a file as one step: writes PATH.new, then renames. With SYNC the data are on disk before
 * the name is. A reader sees the old or the new content, never a part.
 */
int fd_replace(int at, const char *path, const void *p, size_t n, int sync);

/* One write to an existing control file (cgroup, /proc). -1 with errno, no message. */
int fd_put(int at, const char *path, const char *text);

/*
 * Removes a tree that hostile code may have made: never follows a link, never crosses a mount, no
 * recursion (depth is bounded only by the disk). Absent is success.
 */
int fd_rmtree(int at, const char *name);
#endif
