/* Several images as one root: a base, a workspace, toolkits; each lies over those before it. */
#ifndef STORE_COMPOSE_H
#define STORE_COMPOSE_H
#include <stddef.h>

#include "store/image.h"
#include "store/state.h"

/* Lower layers of one overlay: OVL_MAX_STACK in the kernel's fs/overlayfs/params.h. */
enum { COMPOSE_LAYERS = 500 };

struct compose_part {
	const char *key; /* of the spec: "image", "workspace" or "toolkit" */
	const char *ref; /* as it was given; the caller's */
	char digest[IMAGE_DIGEST + 1];
};

struct compose {
	/*
	 * What a box is made from. Layers of all parts, a layer that occurs twice only at its topmost place.
	 * env of all, a later part's value in place of an earlier one's; user and workdir the workspace's if
	 * it has them; the rest is the base's, the digest too.
	 */
	struct image img;
	unsigned *from;		     /* for each layer of img, the part it comes from */
	char **at;		     /* for each layer, "" or the subtree that it alone holds */
	char root[IMAGE_DIGEST + 1]; /* the layer whose root directory is "/": the base decides */
	struct compose_part *part;   /* the base, the workspace if there is one, the toolkits */
	size_t nparts;
};

/*
 * Each reference as image_load takes it; WORKSPACE may be NULL. The caller holds image_hold().
 * -1 after fail().
 */
int compose_load(const struct state *st, const char *base, const char *workspace,
		 const char *const *toolkits, size_t n, struct compose *c);
void compose_free(struct compose *c);
#endif
