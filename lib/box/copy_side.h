/* What both halves of a copy share: where a half's paths lead, what it has to say, names. */
#ifndef BOX_COPY_SIDE_H
#define BOX_COPY_SIDE_H
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "box/copy.h"

enum {
	COPY_PATH_MAX = 4095, /* of a path in the stream, and of a link's target */
	COPY_DEPTH_MAX = 500,
	COPY_ENTRIES_MAX = 20000000,
	COPY_EXTENTS_MAX = 65536, /* of one sparse file */
	COPY_XATTR_MAX = 65536,	  /* bytes of one file's names, or of one value */
};
#define COPY_FILE_MAX (16ull << 40)

struct side {
	const struct copy *c;
	int root;	  /* where an absolute path begins in a box; AT_FDCWD on the node */
	uint64_t resolve; /* how paths that a person typed are resolved: RESOLVE_* */
	int boxed;	  /* the files are hostile: kernel file systems are refused */
	int proc;	  /* this process's /proc/self/fd on the node */
	int watch;	  /* pidfd of the box's pid 1; -1: nobody to watch */
	int code;	  /* exit code so far */
	uint64_t entries;
};

/* The node's side, and a box's whose root directory is ROOT. side_open(2)s of theirs: fds of the
 * caller, -1 with errno and no message. */
int side_host(struct side *s, const struct copy *c);
int side_box(struct side *s, const struct copy *c, int root, int pid1);
int side_open(const struct side *s, const char *path, int flags);
/* Opens what an O_PATH fd of a regular file or directory stands for. */
int side_reopen(const struct side *s, int fd, int flags);
/* The last step of a path: whatever lies there, as O_PATH, a link as itself. */
int side_peek(int dir, const char *name, struct stat *sb);

/* fail()s if FD lies on procfs, sysfs and the like of a box; NAME is for the message. */
int side_fence(const struct side *s, int fd, const char *name);
/* Counts one more entry. fail()s if the box has ended or there are too many. */
int side_step(struct side *s);
/* Something was left out, for the reason of the last fail(): says so and goes on. */
void side_skip(struct side *s);
/* With -v: one line for NAME. */
void side_tell(const struct side *s, const char *name);
/* This errno will meet every further file too. */
int side_fatal(int err);

/* NAME with control characters as \ooo, cut to a line's length; valid until the 4th next call. */
const char *side_quote(const char *name);

/* The name SRC arrives under, in OUT; 0 if it means a directory's contents (/ /. . ..). */
int copy_name(const char *src, char out[256]);

/* A set of files by device and inode, each with a path if one was given. */
struct inode {
	uint64_t dev, ino;
	char *path;
};
struct inodes {
	struct inode *v;
	size_t n, cap;
};
struct inode *inodes_find(struct inodes *s, const struct stat *sb);
void inodes_add(struct inodes *s, const struct stat *sb, const char *path);
void inodes_free(struct inodes *s);
#endif
