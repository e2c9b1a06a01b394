/*
 * Images: a name and a tag stand for an image record, a record lists layers from the lowest up.
 *
 *   img/layer/DIGEST/{meta,data,info}   DIGEST = sha256 in hex over the two files' digests
 *   img/image/DIGEST                    the record: layer = DIGEST ..., env = K=V ..., workdir, user,
 *                                       entrypoint ..., cmd ..., created_ms, size_bytes (key = value)
 *   img/name/NAME/TAG                   a file that holds the image DIGEST
 */
#ifndef STORE_IMAGE_H
#define STORE_IMAGE_H
#include <stddef.h>
#include <stdint.h>

#include "store/state.h"

enum { IMAGE_DIGEST = 64, IMAGE_LAYERS = 64 };

struct image {
	char digest[IMAGE_DIGEST + 1];
	char (*layer)[IMAGE_DIGEST + 1]; /* lowest first */
	size_t nlayers;
	char **env;	   /* K=V, ends with NULL */
	char **entrypoint; /* ends with NULL; may be empty */
	char **cmd;
	char *workdir; /* "" if none */
	char *user;    /* "" if none: as -u takes it */
	uint64_t created_ms;
	uint64_t size_bytes; /* of all layers' files */
};

/* REF is NAME[:TAG] (tag "latest" if absent), or 8 or more digits of an image digest. */
int image_load(const struct state *st, const char *ref, struct image *img);
void image_free(struct image *img);
#endif
