/*
 * Any bytes as the tar stream that comes out of a box, unpacked by the half that has the caller's
 * rights into a directory of its own. Nothing may appear beside that directory, and nothing under a
 * name that was not asked for. Half of the inputs are a tar as it stands, the other half name the
 * entries of one, so that its checksums are right. Build with -fsanitize=fuzzer,address,undefined.
 */
#include <archive.h>
#include <archive_entry.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "box/copy_put.h"

int LLVMFuzzerTestOneInput(const unsigned char *p, size_t n);

static char work[] = "/tmp/fuzz-copy.XXXXXX";

static void quiet(void)
{
}

static void clean_up(void)
{
	fd_rmtree(AT_FDCWD, work);
}

/* Exactly these names lie in DIR: at most ONE and TWO. */
static void check(const char *dir, const char *one, const char *two)
{
	DIR *d = opendir(dir);
	struct dirent *de;

	while (d && (de = readdir(d)))
		if (strcmp(de->d_name, ".") != 0 && strcmp(de->d_name, "..") != 0 &&
		    strcmp(de->d_name, one) != 0 && strcmp(de->d_name, two) != 0)
			abort();
	if (d)
		closedir(d);
}

static void begin(void)
{
	if (!mkdtemp(work) || chdir(work) < 0)
		abort();
	atexit(clean_up);
}

/* A path of up to four parts out of one byte each. */
static void make_path(const unsigned char *p, char *out)
{
	static const char *const parts[] = {"a", "b", "c", "..", ".", "/", "a/b", "etc"};

	*out = 0;
	for (int i = 0; i < 1 + (p[0] >> 6); i++) {
		strcat(out, i ? "/" : p[0] & 32 ? "a/" : "");
		strcat(out, parts[p[i] & 7]);
	}
}

enum { ENTRY = 9, ROOM = 1 << 20 };

/* ENTRY bytes for each entry: type, path, target. The size of the tar in OUT. */
static size_t make_tar(const unsigned char *p, size_t n, char *out)
{
	static const mode_t types[] = {AE_IFREG, AE_IFDIR, AE_IFLNK, AE_IFIFO};
	struct archive *a = archive_write_new();
	struct archive_entry *e = archive_entry_new();
	char path[64], to[64];
	size_t used = 0;

	archive_write_set_format_pax(a);
	archive_write_open_memory(a, out, ROOM, &used);
	for (; n >= ENTRY && used < ROOM / 2; p += ENTRY, n -= ENTRY) {
		make_path(p + 1, path);
		make_path(p + 5, to);
		archive_entry_clear(e);
		archive_entry_copy_pathname(e, path);
		archive_entry_set_mode(e, types[p[0] & 3] | (p[0] & 16 ? 06755 : 0));
		if (p[0] & 4)
			archive_entry_copy_hardlink(e, to);
		else if ((p[0] & 3) == 2)
			archive_entry_copy_symlink(e, to);
		else if ((p[0] & 3) == 0)
			archive_entry_set_size(e, ENTRY);
		if (archive_write_header(a, e) == ARCHIVE_OK)
			archive_write_data(a, p, ENTRY);
	}
	archive_write_close(a);
	archive_write_free(a);
	archive_entry_free(e);
	return used;
}

int LLVMFuzzerTestOneInput(const unsigned char *p, size_t n)
{
	static char tar[ROOM];
	static const char *const src[] = {"/data/a", "b"};
	struct copy c = {.id = "x", .src = src, .nsrc = 2, .dst = "in", .say = quiet};
	struct archive *a = archive_read_new();
	struct side s;
	struct put put;
	size_t size;
	int made;

	if (!strcmp(work + sizeof(work) - 7, "XXXXXX"))
		begin();
	c.max_size = 1 << 20;
	c.quiet = 1;
	if (n && *p & 1) { /* a new name for a single file */
		c.nsrc = 1;
		c.dst = "in/b";
	}
	if (mkdir("in", 0755) < 0 || side_host(&s, &c) < 0)
		abort();
	put_init(&put, &s);
	archive_read_support_format_tar(a);
	made = n > 1 && *p & 2;
	size = made ? make_tar(p + 1, n - 1, tar) : n ? n - 1 : 0;
	if (size &&
	    archive_read_open_memory(a, made ? (const void *)tar : p + 1, size) == ARCHIVE_OK)
		(void)copy_receive(&put, a);
	archive_read_free(a);
	put_free(&put);
	close(s.proc);
	check(".", "in", "in");
	check("in", c.nsrc == 1 ? "b" : "a", "b");
	fd_rmtree(AT_FDCWD, "in");
	return 0;
}
