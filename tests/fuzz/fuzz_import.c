/*
 * Any bytes as a tar, merged over a small tree as a layer or taken as a root file system, then
 * written out as an EROFS image; every path that a hostile archive can take through the importer.
 * Links: libsbx, -larchive -lcrypto -ljson-c; build with -fsanitize=fuzzer,address,undefined.
 */
#include <archive.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/erofs_write.h"
#include "store/import.h"
#include "store/import_src.h"

int LLVMFuzzerTestOneInput(const unsigned char *p, size_t n);

/* What a lower layer may hold: links that lead out, in circles, and to directories. */
static void lower(struct tree *t)
{
	struct tree_inode *ino;

	tree_add(t, "a/b/c", S_IFDIR | 0755);
	tree_add(t, "a/b/f", S_IFREG | 0644);
	ino = tree_add(t, "l", S_IFLNK | 0777);
	tree_set_target(ino, "a/b");
	ino = tree_add(t, "out", S_IFLNK | 0777);
	tree_set_target(ino, "/../../tmp");
	ino = tree_add(t, "loop", S_IFLNK | 0777);
	tree_set_target(ino, "loop/x");
	tree_link(t, "h", "a/b/f");
	tree_next_layer(t);
}

static void take(struct import *im, const unsigned char *p, size_t n, int layer)
{
	int fd = memfd_create("tar", MFD_CLOEXEC);
	struct stream *s = stream_fd(im, fd, 1);
	struct archive *a;

	if (write(fd, p, n) != (ssize_t)n || lseek(fd, 0, SEEK_SET) < 0)
		abort();
	a = stream_reader(s, STREAM_TAR);
	if (a && layer)
		lower(im->tree);
	if (a)
		import_tar(im, a, layer);
	archive_read_free(a);
	stream_close(s);
}

int LLVMFuzzerTestOneInput(const unsigned char *p, size_t n)
{
	int data = memfd_create("data", MFD_CLOEXEC), meta = memfd_create("meta", MFD_CLOEXEC);
	struct import im = {.tree = tree_new()};
	struct erofs_stats stats;
	char sha[SHA_HEX + 1];

	im.data = blob_open(data, im.tree);
	if (n)
		take(&im, p + 1, n - 1, *p & 1);
	if (!blob_finish(im.data, sha)) {
		erofs_write(meta, im.tree, &stats);
		free(stats.dev);
	}
	blob_close(im.data);
	tree_free(im.tree);
	close(data);
	close(meta);
	return 0;
}
