#include <stddef.h>

/* The place of the first of N sorted numbers that is not less than KEY; N if there is none. */
size_t lower(const int *v, size_t n, int key);
