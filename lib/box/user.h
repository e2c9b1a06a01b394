/* Users as the box's own /etc/passwd and /etc/group have them. */
#ifndef BOX_USER_H
#define BOX_USER_H
#include <sys/types.h>

enum { USER_GROUPS = 64, USER_HOME = 256 };

struct user {
	uid_t uid;
	gid_t gid;
	gid_t groups[USER_GROUPS];
	int ngroups;
	char home[USER_HOME];
	char name[64]; /* "" if the number has no name */
};

/*
 * Looks WORD (NAME|UID[:GROUP|GID], "" is root) up in the files below the current root directory.
 * Both files are the box's: opened without blocking, read up to 1 MiB, believed in nothing else.
 */
int user_find(const char *word, struct user *u);
/* Likewise below the directory ROOT, which no link leads out of. */
int user_find_in(int root, const char *word, struct user *u);
#endif
