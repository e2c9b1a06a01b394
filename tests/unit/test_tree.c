#include <stdlib.h>
#include <sys/stat.h>

#include "store/tree.h"
#include "tap.h"

static struct tree_inode *file(struct tree *t, const char *path)
{
	return tree_add(t, path, S_IFREG | 0644);
}

static void symlink_in(struct tree *t, const char *path, const char *target)
{
	tree_set_target(tree_add(t, path, S_IFLNK | 0777), target);
}

static void test_paths(void)
{
	struct tree *t = tree_new();
	struct tree_inode *f = file(t, "/../../a/./b//c");

	ok(f && tree_lookup(t, "a/b/c") == f, "a path is clamped at the root and made");
	ok(tree_lookup(t, "a/b/../../a/b/c") == f, "dots inside a path are followed");
	ok(!tree_lookup(t, "a/x/c"), "what is not there is not found");
	ok(tree_add(t, ".", S_IFDIR | 0700) == tree_root(t), "the root itself can be given");
	is_num(tree_root(t)->mode, S_IFDIR | 0700, "and takes its mode");
	ok(!tree_add(t, "..", S_IFREG), "but not as a file");
	ok(tree_add(t, "a/b", S_IFDIR | 0711) && tree_lookup(t, "a/b/c") == f,
	   "a directory given again keeps its children");
	ok(file(t, "a/b") && !tree_lookup(t, "a/b/c"), "a file in its place does not");
	ok(file(t, "a/b/d") && S_ISDIR(tree_lookup(t, "a/b")->mode),
	   "a file gives way to a parent");
	tree_free(t);
}

static void test_links(void)
{
	struct tree *t = tree_new();
	struct tree_inode *f;

	symlink_in(t, "x", "/tmp/evil");
	f = file(t, "x/f");
	ok(f && tree_lookup(t, "tmp/evil/f") == f, "an absolute link is followed inside the tree");
	ok(S_ISLNK(tree_lookup(t, "x")->mode), "and stays");
	symlink_in(t, "up", "../../../tmp");
	ok(file(t, "up/g") && tree_lookup(t, "tmp/g"), "a relative one cannot climb out");
	symlink_in(t, "l1", "l2");
	symlink_in(t, "l2", "l1");
	ok(file(t, "l1/f"), "a circle of links ends");
	f = file(t, "one");
	ok(!tree_link(t, "d/two", "one") && tree_lookup(t, "d/two") == f && f->names == 2,
	   "a hard link shares the inode");
	ok(file(t, "one") != f && tree_lookup(t, "d/two") == f,
	   "which outlives the replacement of its first name");
	ok(tree_link(t, "z", "nothing") < 0, "a link to nothing is refused");
	ok(tree_link(t, "z", "d") < 0, "and one to a directory");
	ok(!tree_link(t, "d/two/three", "d/two") && tree_lookup(t, "d/two/three") == f,
	   "a link below its own target replaces it");
	tree_free(t);
}

static void test_whiteouts(void)
{
	struct tree *t = tree_new();
	struct tree_inode *f;

	f = file(t, "keep");
	tree_link(t, "hl", "keep");
	file(t, "b/old");
	file(t, "dir/low");
	file(t, "target/t");
	symlink_in(t, "lib", "target");
	tree_next_layer(t);
	is_num(tree_whiteout(t, "plain"), 0, "an ordinary name is none");
	is_num(tree_whiteout(t, ".wh.keep"), 1, "a whiteout is one");
	ok(!tree_lookup(t, "keep") && tree_lookup(t, "hl") == f,
	   "and takes the name, not the content");
	tree_whiteout(t, ".wh.b");
	ok(file(t, "b/c/d") && !tree_lookup(t, "b/old"), "removed, then made again in one layer");
	file(t, "dir/high");
	tree_whiteout(t, ".wh.dir");
	ok(tree_lookup(t, "dir/high") && !tree_lookup(t, "dir/low"),
	   "a whiteout spares what its own layer put there before");
	tree_whiteout(t, "lib/.wh..wh..opq");
	ok(tree_lookup(t, "target/t") && S_ISDIR(tree_lookup(t, "lib")->mode) &&
		   !tree_lookup(t, "lib")->n,
	   "an opaque directory reached through a lower link leaves the link's target");
	tree_next_layer(t);
	file(t, "b/new");
	tree_whiteout(t, "b/.wh..wh..opq");
	ok(tree_lookup(t, "b/new") && !tree_lookup(t, "b/c"), "opaque hides the lower layers only");
	is_num(tree_whiteout(t, ".wh..wh.plnk/x"), 0, "only the last part of a path counts");
	is_num(tree_whiteout(t, ".wh..wh.aufs"), 1, "aufs' own names are dropped");
	tree_free(t);
}

static void test_limits(void)
{
	struct tree *t = tree_new();
	struct tree_inode *f = file(t, "f");
	char *deep = calloc(1, 2 * TREE_DEPTH + 100), name[300];
	static char big[65536];
	int r = 0;

	memset(name, 'n', 299);
	name[255] = 0;
	ok(file(t, name), "a name of 255 bytes");
	name[255] = 'n';
	name[256] = 0;
	ok(!file(t, name), "one of 256 is refused");
	for (int i = 0; i < TREE_DEPTH; i++)
		strcpy(deep + 2 * i, "d/");
	ok(tree_add(t, deep, S_IFDIR), "the greatest depth");
	strcat(deep, "e/f");
	ok(!file(t, deep), "one more is refused");
	ok(tree_set_xattr(f, "user.a", big, 65536) < 0, "an attribute's value has a limit");
	for (int i = 0; i < 4 && !r; i++) {
		snprintf(name, sizeof(name), "user.%d", i);
		r = tree_set_xattr(f, name, big, 65000);
	}
	ok(r < 0, "and all of a file together");
	tree_clear_xattrs(f);
	tree_set_xattr(f, "user.b", "2", 1);
	tree_set_xattr(f, "user.a", "1", 1);
	tree_set_xattr(f, "user.b", "33", 2);
	is_str(f->xattr->bytes, "user.a", "attributes are sorted");
	is_num(f->xattr->next->vlen, 2, "the later value wins");
	free(deep);
	tree_free(t);
}

static void test_sink(void)
{
	struct tree *t = tree_new();
	struct tree_inode *f = file(t, "sub/f"), *top = tree_root(t);

	top->mode = S_IFDIR | 0700;
	top->uid = 7;
	top->mtime = 9;
	is_num(tree_sink(t, "/a/b/c"), 0, "a tree moves below a path");
	ok(tree_lookup(t, "a/b/c/sub/f") == f && !tree_lookup(t, "sub"), "with all that is in it");
	ok(tree_lookup(t, "a/b/c") == top && top->mode == (S_IFDIR | 0700) && top->uid == 7 &&
		   top->mtime == 9,
	   "its root becomes the last directory");
	ok(tree_root(t)->mode == (S_IFDIR | 0755) && tree_root(t)->up == tree_root(t) &&
		   tree_lookup(t, "a/b")->mode == (S_IFDIR | 0755) && !tree_lookup(t, "a")->mtime,
	   "those above are new");
	is_num(tree_lookup(t, "a/b/c/sub")->depth, 4, "depths are counted from the new root");
	ok(tree_lookup(t, "a/b/c/../../..") == tree_root(t), "and .. leads up to it");
	tree_free(t);
}

int main(void)
{
	test_sink();
	test_paths();
	test_links();
	test_whiteouts();
	test_limits();
	return done();
}
