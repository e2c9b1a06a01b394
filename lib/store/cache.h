/*
 * Data of a fetched layer that are here because a box once read them. The layer's metadata stay as
 * they are; beside them lie derived ones, which refer to a local blob for what is here and to the
 * depot's blobs for the rest:
 *
 *   img/cache/DIGEST/{meta,info}   as img/layer/DIGEST has them, of the layer DIGEST
 */
#ifndef STORE_CACHE_H
#define STORE_CACHE_H
#include <stdio.h>

#include "store/depot.h"
#include "store/layer.h"

/*
 * Brings what a trace says (records of sbx-img trace: layer, path, offset, bytes) of JOB's image;
 * it joins what earlier traces brought. -1 after fail().
 */
int cache_trace(struct depot_job *job, FILE *trace);
#endif
