/*
 * Any bytes as two trees: the delta between them laid over the first must give the second; and as a
 * layer with overlayfs' attributes, which must leave none of them behind.
 * Links: libsbx; build with -fsanitize=fuzzer,address,undefined.
 */
#include "store/tree_ops.h"
#include "trees.h"

int LLVMFuzzerTestOneInput(const unsigned char *p, size_t n);

static void check_clean(const struct tree_inode *dir)
{
	for (const struct tree_dentry *d = dir->first; d; d = d->next) {
		if (S_ISCHR(d->ino->mode) && !d->ino->rdev)
			abort();
		for (const struct tree_xattr *x = d->ino->xattr; x; x = x->next)
			if (!strncmp(x->bytes, "trusted.overlay.", 16))
				abort();
		if (S_ISDIR(d->ino->mode)) {
			if (d->ino->up != dir || d->ino->depth != dir->depth + 1)
				abort();
			check_clean(d->ino);
		}
	}
}

static int ignore(void *arg, enum tree_change how, const char *path, const struct tree_inode *a,
		  const struct tree_inode *b)
{
	(void)arg, (void)how, (void)path, (void)a, (void)b;
	return 1;
}

int LLVMFuzzerTestOneInput(const unsigned char *p, size_t n)
{
	struct bytes in = {p, n / 3}, more = {p + n / 3, n / 3}, rest = {p + n / 3 * 2, n / 3};
	struct tree *before = make_tree(&in, 200, 0), *after = tree_copy(before), *layer, *delta,
		    *t;
	char *got, *want;

	while (more.n)
		take_step(&more, after, 0);
	delta = tree_delta(before, after);
	t = tree_copy(before);
	if (!delta || tree_overlay(t, delta) < 0 || tree_compare(t, after, NULL, ignore, NULL))
		abort();
	got = dump(t);
	want = dump(after);
	if (strcmp(got, want) != 0)
		abort();
	layer = make_tree(&rest, 200, 1);
	if (!tree_overlay(t, layer))
		check_clean(tree_root(t));
	free(got);
	free(want);
	tree_free(before);
	tree_free(after);
	tree_free(delta);
	tree_free(layer);
	tree_free(t);
	return 0;
}
