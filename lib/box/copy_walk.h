/* The sending part of a copy: files and trees of a side into a tar stream. */
#ifndef BOX_COPY_WALK_H
#define BOX_COPY_WALK_H
#include "box/copy_side.h"

/*
 * Writes every SRC of the copy into FD as pax entries: NAME, NAME/..., or for a directory's
 * contents ./ and what is in it. RAW: names as they are, for our own reader. What cannot be read is
 * said and left out; -1 after fail() if the stream cannot go on (errno EPIPE: nobody reads it).
 */
int copy_send(struct side *s, int fd, int raw);
#endif
