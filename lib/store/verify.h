/* Do layers hold what their digests say? */
#ifndef STORE_VERIFY_H
#define STORE_VERIFY_H
#include "store/layer.h"

/* What was looked at: a blob that many layers share is read once. */
struct verify;
struct verify *verify_open(const struct state *st, void (*bad)(void));
/* All of a layer; BAD is called after fail() for each thing that is damaged. 1 if so, else 0. */
int verify_layer(struct verify *v, const char *digest);
void verify_close(struct verify *v);
#endif
