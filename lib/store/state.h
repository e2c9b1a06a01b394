/*
 * The state directory is the database: readers take no lock, writers publish by rename.
 *
 *   STATE/img/layer/DIGEST/{meta,info}  img/data/SHA  img/name/NAME/TAG  img/image/DIGEST  img/tmp/
 *   img/lock
 *   STATE/box/ID/{spec,upper,work,log/,end}  STATE/name/NAME -> ID   STATE/slot/N -> ID
 *   RUN/box/ID/{lock,state,ctl}  RUN/layer/DIGEST (mount)  RUN/dev (mount)  RUN/seccomp/
 */
#ifndef STORE_STATE_H
#define STORE_STATE_H
#include <dirent.h>

#include "base/conf.h"

struct state {
	struct conf conf;
	int state; /* directory fds; open for the life of the tool */
	int run;
	int box;     /* STATE/box */
	int run_box; /* RUN/box */
};

/*
 * Loads the configuration and opens both directories; with MAKE what is absent is made (safe for
 * many at once), without it their absence is an error that names the cure.
 */
int state_open(struct state *st, int make);

/* A directory below STATE; NULL after fail(), errno kept. */
DIR *state_opendir(const struct state *st, const char *path);

/*
 * Calls FN for each name in a directory below STATE, but for those that begin with a dot; DIR is its fd.
 * Ends when FN does not return 0, and returns that. An absent directory has no names. -1 after fail().
 */
int state_each(const struct state *st, const char *path,
	       int (*fn)(void *arg, int dir, const char *name), void *arg);

/* One reader of all boxes: each valid ID in STATE/box, in no order. 0 at the end, -1 on error. */
struct state_iter;
struct state_iter *state_boxes(const struct state *st);
int state_next(struct state_iter *it, const char **id);
void state_end(struct state_iter *it);

/*
 * What a person types (a whole ID, a unique prefix of a tail on this node, a --name) as a whole ID
 * of a box that has a directory. fail(): nothing or more than one fits (EX_GONE if nothing).
 */
int state_resolve(const struct state *st, const char *word, char id[ID_MAX + 1]);

/*
 * Removes the link STATE/DIR/NAME if it still says ID. Under the lock of DIR, so that a link which
 * another box has taken between the look and the step is not taken from it.
 */
void state_unlink_own(const struct state *st, const char *dir, const char *name, const char *id);
#endif
