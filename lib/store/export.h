/* An image as others take it: an OCI layout or a docker archive, made of its layers' metadata and data. */
#ifndef STORE_EXPORT_H
#define STORE_EXPORT_H
#include "store/export_out.h"
#include "store/export_tar.h"
#include "store/image.h"

enum export_format { EXPORT_OCI, EXPORT_DOCKER };

/*
 * Writes IMG to OUT: one tar for each of its layers, lowest first, with what the layer changed; then
 * what describes them. The same image gives the same bytes. REF is the name that it bears there, or
 * NULL. -1 after fail().
 */
int export_image(struct image_tree *it, const struct image *img, const char *ref,
		 enum export_format format, enum export_compress compress, struct export_out *out);
#endif
