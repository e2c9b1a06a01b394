/* Do layers hold what their digests say? */
#ifndef STORE_VERIFY_H
#define STORE_VERIFY_H
#include "store/layer.h"

/*
 * Metadata and info of one layer: cheap, and enough before a mount. DERIVED, the layer's copy that
 * refers to cached pieces, is looked at as well if there is one. -1 after fail().
 */
int verify_meta(const struct state *st, const char *digest);

/* What was looked at: a blob that many layers share is read once. */
struct verify;
struct verify *verify_open(const struct state *st, void (*bad)(void));
/* All of a layer; BAD is called after fail() for each thing that is damaged. 1 if so, else 0. */
int verify_layer(struct verify *v, const char *digest);
int verify_close(struct verify *v); /* 1 if anything was damaged */
#endif
