/* seccomp filters. Compiling needs libseccomp and is for sbx-seccomp only; loading needs nothing.
 */
#ifndef KERN_SECCOMP_H
#define KERN_SECCOMP_H
#include <stddef.h>

enum { SECCOMP_MAX = 4096 * 8 }; /* bytes: BPF_MAXINSNS instructions */

/* Loads a compiled filter (N bytes of struct sock_filter) into the calling thread. */
int seccomp_load_bpf(const void *bpf, size_t n);

/*
 * Compiles a profile (see sbx-seccomp(5)) and writes the filter to FD. SOURCE names the profile in
 * messages, which have the line.
 */
int seccomp_compile(const char *source, const char *text, int fd);
#endif
