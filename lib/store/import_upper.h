/* What a box has changed, as overlayfs left it in the box's upper directory, becomes a layer's tree. */
#ifndef STORE_IMPORT_UPPER_H
#define STORE_IMPORT_UPPER_H
#include <stdint.h>

#include "store/clean.h"
#include "store/import.h"

struct upper {
	uint32_t id_base, id_count;    /* the box's host ids: on disk they are shifted by these */
	const struct clean *clean;     /* what does not go in; NULL: all does */
	const char *const *mounted_on; /* paths of files that we made for mounts; ends with NULL */
};

/*
 * Reads the directory FD. Ids are those of the box: one outside its range becomes 65534, which a box
 * sees there, too. Whiteouts, trusted.overlay.opaque and trusted.overlay.redirect stay: over the same
 * layers they mean the same. -1 after fail().
 */
int import_upper(struct import *im, int fd, const struct upper *u);

/*
 * Attributes that hold ids, shifted in place; the new length, or -1: it means nothing to another box.
 * For import_upper() and the tests.
 */
int upper_capability(const struct upper *u, unsigned char *val, size_t len);
int upper_acl(const struct upper *u, unsigned char *val, size_t len);
#endif
