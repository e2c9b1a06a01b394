#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/die.h"
#include "store/erofs_write.h"
#include "store/blob.h"
#include "tap.h"

/* A layer in two memory files. */
struct made {
	int data, meta;
	uint64_t blocks;
	struct erofs_stats stats;
	char sha[SHA_HEX + 1];
};

static void put(struct blob *d, struct tree *t, const char *path, const char *text, size_t n)
{
	struct tree_inode *ino = tree_add(t, path, S_IFREG | 0644);

	blob_begin(d, ino, n);
	blob_write(d, 0, text, n);
	blob_end(d);
}

static void sample(struct tree *t, struct blob *d, int reversed)
{
	char name[32];

	put(d, t, "first", "hello", 5);
	for (int i = 0; i < 1000; i++) {
		snprintf(name, sizeof(name), "big/file-%d", reversed ? 999 - i : i);
		tree_add(t, name, S_IFREG | 0644);
	}
	put(d, t, "second", "hello", 5);
	tree_set_target(tree_add(t, "link", S_IFLNK | 0777), "first");
	tree_set_xattr(tree_lookup(t, "first"), "user.x", "1", 1);
}

static struct made make(int reversed)
{
	struct made m = {.data = memfd_create("data", 0), .meta = memfd_create("meta", 0)};
	struct tree *t = tree_new();
	struct blob *d = blob_open(m.data, t);

	sample(t, d, reversed);
	if (blob_finish(d, m.sha) < 0 || erofs_write(m.meta, t, &m.stats) < 0)
		warn();
	m.blocks = m.stats.ndev ? m.stats.dev->blocks : 0;
	free(m.stats.dev);
	blob_close(d);
	tree_free(t);
	return m;
}

static int same(int a, int b)
{
	struct stat x, y;
	char *p, *q;
	int r;

	fstat(a, &x);
	fstat(b, &y);
	if (x.st_size != y.st_size)
		return 0;
	p = mmap(NULL, (size_t)x.st_size, PROT_READ, MAP_SHARED, a, 0);
	q = mmap(NULL, (size_t)y.st_size, PROT_READ, MAP_SHARED, b, 0);
	r = !memcmp(p, q, (size_t)x.st_size);
	munmap(p, (size_t)x.st_size);
	munmap(q, (size_t)y.st_size);
	return r;
}

static void test_layer(void)
{
	struct made a = make(0), b = make(1);
	unsigned char sb[128];

	is_num(pread(a.meta, sb, sizeof(sb), 1024), 128, "there is a superblock");
	ok(!memcmp(sb, "\xe2\xe1\xf5\xe0", 4), "with EROFS' magic number");
	is_num(a.stats.inodes, 1005, "every inode is counted");
	is_num(a.stats.bytes % TREE_BLOCK, 0, "the metadata are whole blocks");
	is_num(a.blocks, 1, "equal contents lie there once");
	ok(same(a.meta, b.meta) && same(a.data, b.data), "the order of the names does not matter");
	is_num(lseek(a.data, 0, SEEK_END), TREE_BLOCK, "the data file has the length told");
	close(a.meta), close(a.data), close(b.meta), close(b.data);
}

static void test_holes(void)
{
	int fd = memfd_create("data", 0);
	struct tree *t = tree_new();
	struct blob *d = blob_open(fd, t);
	struct tree_inode *ino = tree_add(t, "sparse", S_IFREG | 0644);
	char sha[SHA_HEX + 1];
	uint32_t n;

	blob_begin(d, ino, 1 << 20);
	blob_write(d, 10000, "x", 1);
	blob_write(d, 500000, "y", 1);
	ok(blob_write(d, 400000, "z", 1) < 0, "pieces must ascend");
	ok(blob_write(d, 1 << 20, "z", 1) < 0, "and end with the file");
	blob_end(d);
	is_num(ino->n, 2, "two pieces, two extents");
	is_num(ino->ext[0].lblk, 2, "the first in its block");
	is_num(ino->ext[1].lblk, 122, "the second in its own");
	ok(!blob_finish(d, sha), "the data are finished");
	is_num((long long)tree_blobs(t, &n)->blocks, 2, "and hold no holes");
	is_str(tree_blobs(t, &n)->sha, sha, "the tree knows the blob by its name");
	blob_close(d);
	tree_free(t);
	close(fd);
}

/* What a later layer replaced leaves no trace in the data. */
static void test_replaced(void)
{
	static char big[5000], block[TREE_BLOCK];
	int fd = memfd_create("data", 0);
	struct tree *t = tree_new();
	struct blob *d = blob_open(fd, t);
	struct tree_inode *ino;
	char sha[SHA_HEX + 1];
	uint32_t n;

	memset(big, 'a', sizeof(big));
	put(d, t, "gone", big, sizeof(big));
	put(d, t, "stays", "stays", 5);
	put(d, t, "gone", "new", 3);
	blob_finish(d, sha);
	is_num((long long)tree_blobs(t, &n)->blocks, 2, "the replaced content is dropped");
	ino = tree_lookup(t, "stays");
	ok(pread(fd, block, sizeof(block), ino->ext->dblk * (off_t)TREE_BLOCK) == TREE_BLOCK &&
		   !memcmp(block, "stays", 6),
	   "what is kept was moved with its file");
	blob_close(d);
	tree_free(t);
	close(fd);
}

int main(void)
{
	test_layer();
	test_holes();
	test_replaced();
	return done();
}
