/* From pointers to pointers: what stands for an inode of one tree in another. */
#ifndef STORE_TREE_MAP_H
#define STORE_TREE_MAP_H
#include <stddef.h>

struct tree_map {
	struct tree_map_pair {
		const void *key;
		void *val;
	} * pair;
	size_t n, cap; /* cap: a power of two, or 0 */
};

void tree_map_free(struct tree_map *m);
void *tree_map_get(const struct tree_map *m, const void *key); /* NULL if there is none */
void tree_map_set(struct tree_map *m, const void *key, void *val);
#endif
