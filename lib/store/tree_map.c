#include "store/tree_map.h"

#include <stdint.h>
#include <stdlib.h>

#include "base/buf.h"

void tree_map_free(struct tree_map *m)
{
	free(m->pair);
	*m = (struct tree_map){0};
}

/* The place of KEY, or the free one where it would go. */
static struct tree_map_pair *find(const struct tree_map *m, const void *key)
{
	size_t i = (size_t)((uint64_t)(uintptr_t)key * 0x9e3779b97f4a7c15ull >> 20);

	while (m->pair[i & (m->cap - 1)].key && m->pair[i & (m->cap - 1)].key != key)
		i++;
	return &m->pair[i & (m->cap - 1)];
}

void *tree_map_get(const struct tree_map *m, const void *key)
{
	return m->n ? find(m, key)->val : NULL;
}

static void grow(struct tree_map *m)
{
	struct tree_map old = *m;

	m->cap = old.cap ? old.cap * 2 : 64;
	m->pair = xcalloc(m->cap, sizeof(*m->pair));
	for (size_t i = 0; i < old.cap; i++)
		if (old.pair[i].key)
			*find(m, old.pair[i].key) = old.pair[i];
	free(old.pair);
}

void tree_map_set(struct tree_map *m, const void *key, void *val)
{
	struct tree_map_pair *p;

	if (m->n * 2 >= m->cap)
		grow(m);
	p = find(m, key);
	m->n += !p->key;
	*p = (struct tree_map_pair){key, val};
}
