/* The receiving part of a copy: a tar stream into a directory of a side. */
#ifndef BOX_COPY_PUT_H
#define BOX_COPY_PUT_H
#include <archive.h>

#include "base/buf.h"
#include "box/copy_side.h"

enum put_owner {
	PUT_CALLER, /* whoever runs this; set-id bits are dropped */
	PUT_GIVEN,  /* uid and gid below */
	PUT_STREAM, /* as each entry says */
};

/* A directory this copy made: its mode and times are set when all is in it. */
struct put_dir {
	char *path;
	struct stat sb; /* as it shall be; st_dev and st_ino as it was made */
};

struct put {
	struct side *s;
	enum put_owner owner;
	uid_t uid;
	gid_t gid;
	int stream; /* a tar of somebody's: any names, DST must be a directory */

	int base;	/* DST, or the directory DST is made in; -1 until the first entry */
	char top[256];	/* what the first part of every name becomes, "" if it stays */
	int made;	/* base itself was made by this copy */
	uint64_t bytes; /* of content so far */
	struct inodes files;
	struct put_dir *dir;
	size_t ndir, capdir;
	struct buf path, parent; /* of the entry; of parent_fd, below base */
	struct buf lost;	 /* what lies below it is left out without a word */
	int parent_fd;
};

void put_init(struct put *p, struct side *s);
void put_free(struct put *p);

/*
 * Unpacks everything from A, one entry after the other, and finishes the directories. What cannot
 * be made is said and left out. -1 after fail(): the copy is cut short. errno EPIPE means that the
 * stream ended too early.
 */
int copy_receive(struct put *p, struct archive *a);

/* What lib/box/copy_put.c and copy_file.c share; all fail(), with errno 0 if there is no cause. */
int put_map_name(struct put *p, const char *name, struct buf *out); /* a name of the stream */
int put_parent(struct put *p, const char **last);		    /* of path; the fd stays p's */
int put_file(struct put *p, struct archive *a, struct archive_entry *e);
int put_symlink(struct put *p, struct archive_entry *e);
int put_hardlink(struct put *p, const char *to);
void put_wanted(struct archive_entry *e, struct stat *sb);	   /* owner, mode, times */
int put_set(const struct put *p, int fd, const struct stat *want); /* gives them to FD */
int put_own(const struct put *p, int fd, const struct stat *want); /* owner only; NULL: made up */
void put_xattrs(int fd, struct archive_entry *e);
#endif
