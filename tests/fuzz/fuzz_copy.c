/*
 * Any bytes as the tar stream that comes out of a box, unpacked by the half that has the caller's
 * rights into a directory of its own. Nothing may appear beside that directory, and nothing under a
 * name that was not asked for. Build with -fsanitize=fuzzer,address,undefined.
 */
#include <archive.h>
#include <dirent.h>
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
	chdir("/");
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
	closedir(d);
}

static void begin(void)
{
	if (!mkdtemp(work) || chdir(work) < 0)
		abort();
	atexit(clean_up);
}

int LLVMFuzzerTestOneInput(const unsigned char *p, size_t n)
{
	static const char *const src[] = {"/data/a", "b"};
	struct copy c = {.id = "x", .src = src, .nsrc = 2, .dst = "in", .say = quiet};
	struct archive *a = archive_read_new();
	struct side s;
	struct put put;

	if (!strchr(work, '/') || !strcmp(work + sizeof(work) - 7, "XXXXXX"))
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
	if (n > 1 && archive_read_open_memory(a, p + 1, n - 1) == ARCHIVE_OK)
		(void)copy_receive(&put, a);
	archive_read_free(a);
	put_free(&put);
	close(s.proc);
	check(".", "in", "in");
	check("in", c.nsrc == 1 ? "b" : "a", "b");
	fd_rmtree(AT_FDCWD, "in");
	return 0;
}
