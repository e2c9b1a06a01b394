/*
 * Where an export goes: a tar, or a directory of the same members. It is made under a temporary name
 * beside DEST and appears by rename; a tar has no name at all before, where the file system can do that.
 */
#ifndef STORE_EXPORT_OUT_H
#define STORE_EXPORT_OUT_H
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

struct export_out {
	const char *dest;
	const char *spool; /* directory for files without a name */
	char *parent;	   /* of DEST */
	char *tmp;	   /* the temporary name, or NULL */
	int dir;	   /* of a directory: it; otherwise -1 */
	int fd;		   /* of a tar */
	int named;	   /* the tar has its temporary name */
	struct archive *tar;
	struct buf names; /* members that are there, each with a NUL */
};

/*
 * DEST: "-" is a tar to stdout; what ends in "/" or is a directory is a directory, which must be empty;
 * all else a tar. SPOOL is where to hold back a member for stdout. -1 after fail(); close in any case.
 */
int export_out_open(struct export_out *o, const char *dest, const char *spool);
int export_out_is_dir(const struct export_out *o);

/* A new empty file for a member whose name and size are not known yet: an fd, or -1 after fail(). */
int export_out_new(struct export_out *o);
/* What was written to FD, SIZE bytes, is the member NAME. If there is one already, it is the same. */
int export_out_take(struct export_out *o, int fd, const char *name, uint64_t size);
int export_out_put(struct export_out *o, const char *name, const void *p, size_t n);

int export_out_finish(struct export_out *o); /* gives it its name, complete and on disk */
void export_out_close(struct export_out *o); /* what was not finished goes */
#endif
