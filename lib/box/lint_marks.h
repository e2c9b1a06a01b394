/* The objects of a git repository, and which of them its HEAD leads to. */
#ifndef BOX_LINT_MARKS_H
#define BOX_LINT_MARKS_H
#include <git2.h>
#include <stddef.h>
#include <stdint.h>

struct mark {
	git_oid id;
	unsigned char used, reached;
};

struct marks {
	git_odb *db;
	struct mark *v; /* open addressing; cap is 0 or a power of two */
	size_t n, cap;
	uint32_t *todo; /* places in v whose own links are still to be followed */
	size_t ntodo, todo_cap;
	uint64_t broken; /* objects that are there and cannot be read */
};

/* All objects of DB, loose, packed and borrowed. 0, or -1: too many or DB cannot be listed. */
int marks_load(struct marks *m, git_odb *db);
void marks_free(struct marks *m);
/* Marks ID and all it leads to. What is not there (a shallow clone's past) is passed over. */
void marks_reach(struct marks *m, const git_oid *id);
/* 1 if ID is marked; a tag object that leads to something marked becomes so. */
int marks_reached(struct marks *m, const git_oid *id);
/* An object's content, which must be of TYPE; NULL if it cannot be read. git_odb_object_free(). */
git_odb_object *marks_read(struct marks *m, const git_oid *id, git_object_t *type);
#endif
