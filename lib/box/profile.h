/*
 * Seccomp profiles of boxes, compiled once:
 *   RUN/seccomp/NAME-SIZE-MTIME-INODE-DEVICE-COMPILER-VERSION.bpf   a filter as the kernel takes it
 */
#ifndef BOX_PROFILE_H
#define BOX_PROFILE_H
#include "base/buf.h"
#include "store/state.h"

/*
 * The filter of profile NAME, a word (a file in SHARE/seccomp) or an absolute path, into BPF
 * (replacing it). Compiles it first if this content was not compiled on this node since boot; many
 * at once are safe. fail() if there is no such profile (the text says which there are) or it has a
 * mistake (the text says where).
 */
int profile_open(const struct state *st, const char *name, struct buf *bpf);
#endif
