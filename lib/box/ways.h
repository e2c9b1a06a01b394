/*
 * Ways to subtrees. A layer imported with --at holds the directories above its subtree only because
 * it must, as 0755 of root; overlayfs shows a merged directory with the attributes of its topmost
 * layer (Documentation/filesystems/overlayfs.rst), so /tmp would lose its 1777 by a layer at /tmp/x.
 * Here is found what each box's upper has to say again: "dir = MODE UID GID PATH" lines of the spec.
 */
#ifndef BOX_WAYS_H
#define BOX_WAYS_H
#include "base/buf.h"
#include "box/spec.h"
#include "store/compose.h"
#include "store/state.h"

/*
 * The lines for a box of C, parents first, into B (replacing it); usually none. All layers are mounted
 * (node_mount_layer). fail() if a subtree lies where the other images have no directory.
 */
int ways_find(const struct state *st, const struct compose *c, struct buf *b);

/* Carries the lines out: makes the directories in UPPER with the owners in the box's ids. */
int ways_make(const struct spec *s, int upper);
#endif
