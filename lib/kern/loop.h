/* Loop devices: files as block devices, for what the kernel mounts from block devices only. */
#ifndef KERN_LOOP_H
#define KERN_LOOP_H

struct loop {
	int fd;	       /* holds the device until something else, a mount, does */
	char path[32]; /* good in this process as long as that is open */
};

/*
 * Attaches the regular file FILE, read-only, to a free device. The kernel frees that by itself when
 * nobody has it open any more. Of a file that is not a multiple of LOOP_BLOCK long the rest is not
 * seen. 0, or -1 after fail().
 */
enum { LOOP_BLOCK = 4096 };
int loop_attach(const char *file, struct loop *l);
void loop_close(struct loop *l);
#endif
