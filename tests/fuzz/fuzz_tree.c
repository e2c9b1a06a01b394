/*
 * Any bytes as a list of operations on a tree (add, link, whiteout, attribute, content, next layer),
 * then the image of it: the tree and the EROFS writer without an archive in between. A file system
 * that comes out must mount, so its sizes and places are checked here.
 * Links: libsbx, -lcrypto; build with -fsanitize=fuzzer,address,undefined.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/erofs_write.h"
#include "store/blob.h"

int LLVMFuzzerTestOneInput(const unsigned char *p, size_t n);

struct in {
	const unsigned char *p;
	size_t n;
};

static unsigned take(struct in *in)
{
	return in->n ? (in->n--, *in->p++) : 0;
}

/* Up to seven parts from a small alphabet, so that paths meet. */
static void path(struct in *in, char out[2048])
{
	static const char *const parts[] = {"a",     "b",      "c",	"l",
					    "..",    ".",      "",	"/",
					    ".wh.a", ".wh.b",  ".wh.l", ".wh..wh..opq",
					    "d/e",   "\xff\n", ".wh.",	"-"};
	unsigned count = take(in) % 8;

	*out = 0;
	for (unsigned i = 0; i < count; i++) {
		const char *slash = i + 1 < count ? "/" : "";
		size_t len = strlen(out);
		unsigned c = take(in);

		if (c >= 240)
			snprintf(out + len, 2048 - len, "%0*d%s", (int)(c - 239) * 16, 1, slash);
		else
			snprintf(out + len, 2048 - len, "%s%s", parts[c % 16], slash);
	}
}

static void content(struct in *in, struct blob *d, struct tree_inode *ino)
{
	static const char bytes[70000] = {1, 2, 3};
	uint64_t size = (uint64_t)take(in) << (take(in) % 36), off = 0;

	if (blob_begin(d, ino, size) < 0)
		return;
	for (unsigned i = take(in) % 5; i; i--) {
		size_t n = take(in) * 273u;

		off += (uint64_t)take(in) << (take(in) % 30);
		if (blob_write(d, off, bytes + take(in) % 4, n) < 0)
			break;
		off += n;
	}
	blob_end(d);
}

static void step(struct in *in, struct tree *t, struct blob *d)
{
	static const mode_t types[] = {S_IFREG, S_IFDIR, S_IFLNK, S_IFCHR,
				       S_IFIFO, S_IFDIR, S_IFREG, S_IFLNK};
	static char value[65536];
	char a[2048], b[2048];
	struct tree_inode *ino;
	unsigned op = take(in);

	path(in, a);
	switch (op % 6) {
	case 0:
	case 1:
		if (tree_whiteout(t, a))
			return;
		ino = tree_add(t, a, types[op / 6 % 8] | 0644);
		if (!ino)
			return;
		if (S_ISREG(ino->mode))
			content(in, d, ino);
		path(in, b);
		if (S_ISLNK(ino->mode))
			tree_set_target(ino, *b ? b : "x");
		return;
	case 2:
		path(in, b);
		tree_link(t, a, b);
		return;
	case 3:
		tree_next_layer(t);
		return;
	default:
		ino = tree_lookup(t, a);
		if (ino)
			tree_set_xattr(ino, op & 8 ? "user.x" : "security.y", value,
				       take(in) * 257u);
	}
}

int LLVMFuzzerTestOneInput(const unsigned char *p, size_t n)
{
	int data = memfd_create("data", MFD_CLOEXEC), meta = memfd_create("meta", MFD_CLOEXEC);
	struct tree *t = tree_new();
	struct blob *d = blob_open(data, t);
	struct in in = {p, n};
	struct erofs_stats stats;
	char sha[SHA_HEX + 1];
	struct stat st;
	uint32_t nblob;

	for (int i = 0; in.n && i < 200; i++)
		step(&in, t, d);
	if (!blob_finish(d, sha)) {
		if (fstat(data, &st) < 0 ||
		    (uint64_t)st.st_size != tree_blobs(t, &nblob)->blocks * TREE_BLOCK)
			abort();
		if (!erofs_write(meta, t, &stats) &&
		    (fstat(meta, &st) < 0 || (uint64_t)st.st_size != stats.bytes ||
		     stats.bytes % TREE_BLOCK))
			abort();
		free(stats.dev);
	}
	blob_close(d);
	tree_free(t);
	close(data);
	close(meta);
	return 0;
}
