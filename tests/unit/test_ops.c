#include <sys/mman.h>
#include <unistd.h>

#include "base/die.h"
#include "store/erofs_read.h"
#include "store/erofs_write.h"
#include "store/tree_ops.h"
#include "tap.h"
#include "trees.h"

/* The same numbers at every run. */
static void chance(unsigned char *p, size_t n)
{
	static uint64_t x = 88172645463325252ull;

	for (size_t i = 0; i < n; i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		p[i] = (unsigned char)(x >> 24);
	}
}

static struct tree *random_tree(int overlay)
{
	static unsigned char p[4096];
	struct bytes in = {p, sizeof(p)};

	chance(p, sizeof(p));
	return make_tree(&in, p[0] % 120, overlay);
}

/* AFTER as a changed BEFORE, so that most of it is the same. */
static struct tree *changed_tree(const struct tree *before)
{
	static unsigned char p[400];
	struct bytes in = {p, sizeof(p)};
	struct tree *t = tree_copy(before);

	chance(p, sizeof(p));
	for (int i = p[0] % 20; i; i--)
		take_step(&in, t, 0);
	return t;
}

static int gives_back(struct tree *before, struct tree *after)
{
	struct tree *delta = tree_delta(before, after);
	struct tree *t = tree_copy(before);
	int r = tree_overlay(t, delta);
	autofree char *got = dump(t);
	autofree char *want = dump(after);
	int good = !r && !strcmp(got, want);

	if (!good)
		printf("# got\n%s# want\n%s", got, want);
	tree_free(t);
	tree_free(delta);
	return good;
}

static void test_delta(void)
{
	int bad = 0;

	for (int i = 0; i < 3000 && !bad; i++) {
		struct tree *before = random_tree(0);
		struct tree *after = i % 3 ? changed_tree(before) : random_tree(0);

		bad = !gives_back(before, after);
		tree_free(before);
		tree_free(after);
	}
	ok(!bad, "a delta laid over what was gives what is");
}

static int write_tree(const struct tree *t, struct erofs_stats *s)
{
	int fd = memfd_create("meta", MFD_CLOEXEC);

	if (erofs_write(fd, t, s) < 0)
		warn();
	return fd;
}

static int same_files(int a, int b)
{
	static char x[1 << 20], y[1 << 20];
	ssize_t n = pread(a, x, sizeof(x), 0), m = pread(b, y, sizeof(y), 0);

	return n == m && n > 0 && !memcmp(x, y, (size_t)n);
}

static void test_round(void)
{
	int bad = 0;

	for (int i = 0; i < 1000 && !bad; i++) {
		struct tree *t = random_tree(1), *u;
		struct erofs_stats s, v;
		int a = write_tree(t, &s), b;

		u = erofs_read(a, s.dev, s.ndev);
		if (!u)
			warn();
		b = u ? write_tree(u, &v) : -1;
		bad = b < 0 || !same_files(a, b);
		if (u)
			free(v.dev);
		free(s.dev);
		close(a);
		close(b);
		tree_free(t);
		tree_free(u);
	}
	ok(!bad, "what is written, read and written again is the same");
}

static int count(void *arg, enum tree_change how, const char *path, const struct tree_inode *a,
		 const struct tree_inode *b)
{
	buf_fmt(arg, "%c%s%s%s ", (char)how, path, a ? "" : "+", b ? "" : "-");
	return 0;
}

static void test_compare(void)
{
	struct tree *a = tree_new(), *b = tree_new();
	autobuf out = BUF_INIT;

	tree_add(a, "d/x", S_IFREG | 0644);
	tree_add(a, "same", S_IFREG | 0644);
	tree_add(a, "t/u", S_IFREG | 0644);
	tree_add(b, "d/y", S_IFREG | 0644);
	tree_add(b, "same", S_IFREG | 0644);
	tree_add(b, "t", S_IFREG | 0644);
	tree_add(b, "z", S_IFREG | 0600);
	tree_add(a, "z", S_IFREG | 0644);
	is_num(tree_compare(a, b, NULL, count, &out), 0, "two trees are compared");
	is_str(out.p, "D/d/x- A/d/y+ T/t D/t/u- M/z ", "names in order, with what became of them");
	tree_free(a);
	tree_free(b);
}

static void overlay_attr(struct tree *t, const char *path, const char *name, const char *val)
{
	char whole[64];

	snprintf(whole, sizeof(whole), "trusted.overlay.%s", name);
	tree_set_xattr(tree_lookup(t, path), whole, val, strlen(val));
}

static struct tree *base_tree(void)
{
	struct tree *t = tree_new();

	tree_add(t, "a/b/f", S_IFREG | 0600);
	tree_add(t, "a/g", S_IFREG | 0600);
	tree_add(t, "o/p", S_IFREG | 0600);
	tree_add(t, "w", S_IFREG | 0600);
	return t;
}

static void test_overlay(void)
{
	struct tree *t = base_tree(), *l = tree_new();

	tree_add(l, "w", S_IFCHR);
	tree_add(l, "o/q", S_IFREG | 0600);
	overlay_attr(l, "o", "opaque", "y");
	/* a and a/b have been exchanged for new places, one relative to its parent's old one. */
	tree_add(l, "a", S_IFCHR);
	tree_add(l, "n/c/h", S_IFREG | 0600);
	overlay_attr(l, "n", "redirect", "/a");
	overlay_attr(l, "n/c", "redirect", "b");
	tree_add(l, "n/b", S_IFCHR);
	is_num(tree_overlay(t, l), 0, "a layer is laid over a tree");
	ok(!tree_lookup(t, "w") && !tree_lookup(t, "a"), "whiteouts hide");
	ok(tree_lookup(t, "o/q") && !tree_lookup(t, "o/p"),
	   "an opaque directory hides what it had");
	ok(tree_lookup(t, "n/g") && tree_lookup(t, "n/c/f") && tree_lookup(t, "n/c/h"),
	   "a redirect brings along what was below");
	ok(!tree_lookup(t, "n/b") && !tree_lookup(t, "n/c")->xattr, "and leaves no trace");
	tree_free(t);
	tree_free(l);
}

/* Two redirects may name one place, one of them below what it came from. */
static void test_loops(void)
{
	struct tree *t = base_tree(), *l = tree_new();

	tree_add(l, "a/b/deep", S_IFDIR | 0755);
	overlay_attr(l, "a/b/deep", "redirect", "/");
	tree_add(l, "x", S_IFDIR | 0755);
	overlay_attr(l, "x", "redirect", "/a");
	tree_add(l, "bad", S_IFDIR | 0755);
	is_num(tree_overlay(t, l), 0, "a root below itself ends");
	ok(tree_lookup(t, "a/b/deep/a/b/f") && !tree_lookup(t, "a/b/deep/a/b/deep"),
	   "it has what was there before");
	ok(tree_lookup(t, "x/b/f") == tree_lookup(t, "a/b/f"), "files stay the same files");
	overlay_attr(l, "bad", "redirect", "x/y");
	ok(tree_overlay(t, l) < 0, "a redirect to a relative path is refused");
	tree_free(t);
	tree_free(l);
}

/* Copies of copies would grow without end. */
static void test_many(void)
{
	struct tree *t = tree_new(), *l = tree_new();
	char name[32];

	for (int i = 0; i < 1000; i++) {
		snprintf(name, sizeof(name), "d/%d", i);
		tree_add(t, name, S_IFREG | 0644);
		snprintf(name, sizeof(name), "n%d", i);
		tree_add(l, name, S_IFDIR | 0755);
		overlay_attr(l, name, "redirect", "/d");
	}
	ok(tree_overlay(t, l) < 0, "a thousand redirects to one directory are refused");
	tree_free(t);
	tree_free(l);
}

static void test_hostile(void)
{
	int refused = 0, crashed = 0;

	for (int i = 0; i < 400; i++) {
		struct tree *t = random_tree(1), *u;
		struct erofs_stats s;
		int fd = write_tree(t, &s);
		unsigned char p[64];

		/* Nothing behind the first block has a checksum: numbers there may say anything. */
		chance(p, sizeof(p));
		for (int k = 0; k < 4; k++)
			if (pwrite(fd, p + k, 1 + k % 2,
				   (off_t)((p[k + 8] * 256u + p[k + 4]) % (s.bytes - 2))) < 0)
				crashed = 1;
		u = erofs_read(fd, s.dev, s.ndev);
		refused += !u;
		tree_free(u);
		tree_free(t);
		free(s.dev);
		close(fd);
	}
	ok(refused > 200 && !crashed, "damaged metadata are refused");
}

int main(void)
{
	test_overlay();
	test_loops();
	test_many();
	test_compare();
	test_delta();
	test_round();
	test_hostile();
	return done();
}
