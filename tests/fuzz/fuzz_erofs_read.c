/*
 * Any bytes as a layer's metadata. Inputs are either a tree to write, of which some bytes are then
 * changed (the first bytes say where), or metadata as they are; the checksum is made right. What can
 * be read must come out the same when it is written and read again.
 * Links: libsbx; build with -fsanitize=fuzzer,address,undefined.
 */
#include <sys/mman.h>
#include <unistd.h>

#include "store/erofs_disk.h"
#include "store/erofs_read.h"
#include "store/erofs_write.h"
#include "trees.h"

int LLVMFuzzerTestOneInput(const unsigned char *p, size_t n);

static void seal(int fd)
{
	unsigned char first[EROFS_BLOCK];
	uint32_t sum;

	if (pread(fd, first, sizeof(first), 0) != (ssize_t)sizeof(first))
		return;
	sum = erofs_checksum(first + EROFS_SB_AT, EROFS_BLOCK - EROFS_SB_AT);
	if (pwrite(fd, &sum, sizeof(sum), EROFS_SB_AT + 4) < 0)
		abort();
}

static struct tree *round_trip(const struct tree *t, struct erofs_stats *s, int *fd)
{
	struct tree *u;

	*fd = memfd_create("meta", MFD_CLOEXEC);
	if (erofs_write(*fd, t, s) < 0)
		return NULL;
	u = erofs_read(*fd, s->dev, s->ndev);
	if (!u)
		abort();
	return u;
}

static void same(int a, int b)
{
	off_t n = lseek(a, 0, SEEK_END);
	char *x = malloc((size_t)n), *y = malloc((size_t)n);

	if (lseek(b, 0, SEEK_END) != n || pread(a, x, (size_t)n, 0) != n ||
	    pread(b, y, (size_t)n, 0) != n || memcmp(x, y, (size_t)n) != 0)
		abort();
	free(x);
	free(y);
}

/* T, written, read, written: the same bytes both times. */
static void check(const struct tree *t)
{
	struct erofs_stats s = {0}, v = {0};
	int a, b = -1;
	struct tree *u = round_trip(t, &s, &a), *w = u ? round_trip(u, &v, &b) : NULL;

	if (w)
		same(a, b);
	free(s.dev);
	free(v.dev);
	tree_free(u);
	tree_free(w);
	close(a);
	if (b >= 0)
		close(b);
}

static void damage(struct bytes *in, int fd, uint64_t size)
{
	for (unsigned k = take(in) % 8; k; k--) {
		uint64_t at = (take(in) << 16 | take(in) << 8 | take(in)) % size;
		unsigned char c = (unsigned char)take(in);

		if (pwrite(fd, &c, 1, (off_t)at) < 0)
			abort();
	}
	seal(fd);
}

int LLVMFuzzerTestOneInput(const unsigned char *p, size_t n)
{
	struct bytes head = {p, n < 34 ? n : 34}, rest = {p + head.n, n - head.n};
	int fd = memfd_create("any", MFD_CLOEXEC);
	struct erofs_stats s = {0};
	struct tree *t = NULL, *u;

	if (n && *p == 255) {
		if (write(fd, p + 1, n - 1) < 0 || ftruncate(fd, ((off_t)n + 4095) / 4096 * 4096))
			abort();
		seal(fd);
	} else {
		t = make_tree(&rest, 200, 1);
		check(t);
		if (erofs_write(fd, t, &s) < 0)
			abort();
		damage(&head, fd, s.bytes);
	}
	u = erofs_read(fd, s.dev, s.ndev);
	if (u)
		check(u);
	free(s.dev);
	tree_free(t);
	tree_free(u);
	close(fd);
	return 0;
}
