/*
 * What a box made with --trace has read so far: its layers are mounted for it alone, so what of them
 * lies in the page cache is what it read (with what the kernel read ahead for it). Changes nothing.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/die.h"
#include "base/fd.h"
#include "base/opt.h"
#include "base/rec.h"
#include "box/client.h"
#include "box/spec.h"

enum { LAYER, PATH, OFFSET, BYTES, PAGE = 4096 };

static struct rec_opts recs;

static const struct opt opts[] = {
	REC_OPTIONS(recs),
	{0},
};

static const struct opt_tool tool = {
	.usage = "ID",
	.purpose = "Lists what a box made with sbx-create --trace has read of its layers so far.",
	.opts = opts,
	.operands = -1,
	.operand = "ID",
};

static const struct rec_col cols[] = {
	{"layer", REC_TEXT, 0},
	{"path", REC_TEXT, 0},
	{"offset", REC_NUM, 0},
	{"bytes", REC_NUM, 0},
	{0},
};

struct walk {
	struct rec *rec;
	const char *layer;
	struct buf path;
};

static void put(struct walk *w, uint64_t off, uint64_t bytes)
{
	rec_text(w->rec, LAYER, w->layer);
	rec_text(w->rec, PATH, w->path.p);
	rec_num(w->rec, OFFSET, off);
	rec_num(w->rec, BYTES, bytes);
	rec_end(w->rec);
}

/* cachestat(2), Linux 6.5: most files have nothing, and need no look at each page. */
static int untouched(int fd)
{
	struct {
		uint64_t off, len;
	} range = {0, 0};
	uint64_t stat[5] = {1, 0, 0, 0, 0};

	return !syscall(451, fd, &range, stat, 0) && !stat[0];
}

static int look_file(struct walk *w, int fd, uint64_t size)
{
	uint64_t pages = (size + PAGE - 1) / PAGE, from = 0;
	autofree unsigned char *in = NULL;
	void *p;
	int r;

	if (!size || untouched(fd))
		return 0;
	p = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		return fail("cannot map '%s'", w->path.p);
	in = xcalloc(pages + 1, 1);
	r = mincore(p, size, in);
	munmap(p, size);
	if (r < 0)
		return fail("cannot look at '%s'", w->path.p);
	in[pages] = 0;
	for (uint64_t i = 0; i <= pages; i++) {
		if (in[i] & 1)
			continue;
		if (i > from)
			put(w, from * PAGE, (i * PAGE < size ? i * PAGE : size) - from * PAGE);
		from = i + 1;
	}
	return 0;
}

static int look_dir(struct walk *w, int fd);

static int look(struct walk *w, int dir, const char *name)
{
	size_t len = w->path.len;
	struct stat sb;
	int r = 0;

	buf_chr(&w->path, '/');
	buf_str(&w->path, name);
	if (fstatat(dir, name, &sb, AT_SYMLINK_NOFOLLOW) < 0)
		return fail("cannot look at '%s'", w->path.p);
	if (S_ISDIR(sb.st_mode) || S_ISREG(sb.st_mode)) {
		int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);

		if (fd < 0)
			return fail("cannot open '%s'", w->path.p);
		if (S_ISDIR(sb.st_mode))
			return look_dir(w, fd) < 0 ? -1 : (w->path.p[w->path.len = len] = 0);
		r = look_file(w, fd, (uint64_t)sb.st_size);
		close(fd);
	}
	w->path.p[w->path.len = len] = 0;
	return r;
}

/* FD is closed. */
static int look_dir(struct walk *w, int fd)
{
	DIR *d = fdopendir(fd);
	struct dirent *e;
	int r = 0;

	if (!d) {
		close(fd);
		return fail("cannot read '%s'", buf_cstr(&w->path));
	}
	while (!r && (errno = 0, e = readdir(d)))
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			r = look(w, dirfd(d), e->d_name);
	if (!r && errno)
		r = fail("cannot read '%s'", buf_cstr(&w->path));
	closedir(d);
	return r;
}

/* The root of layer I of the box, as the keeper mounted it for the box alone. */
static int ask(int ctl, size_t i)
{
	int fds[SOCK_FDS], n = 0, fd;
	autobuf req = BUF_INIT;
	autokv answer = {0};

	kv_put_line(&req, "op", "root");
	kv_put_line(&req, "what", "layer");
	kv_put_num(&req, "layer", i);
	if (client_call(ctl, &req, &answer, fds, &n) < 0)
		return -1;
	fd = n == 1 ? openat(fds[0], ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	for (int k = 0; k < n; k++)
		close(fds[k]);
	return fd < 0 ? fail("cannot open a layer of the box") : fd;
}

int main(int argc, char **argv)
{
	int first = opt_parse(&tool, argc, argv), ctl;
	struct walk w = {0};
	char id[ID_MAX + 1];
	struct state st;
	struct spec spec;
	size_t at = 0, i = 0;

	if (argc - first != 1)
		opt_misuse("needs a box");
	w.rec = rec_open(stdout, cols, &recs);
	if (!w.rec || state_open(&st, 0) < 0 || state_resolve(&st, argv[first], id) < 0 ||
	    spec_load(&st, id, &spec) < 0)
		die();
	ctl = client_connect(&st, id);
	if (ctl < 0)
		die();
	while ((w.layer = spec_next(&spec, "layer", &at))) {
		int fd = ask(ctl, i++);

		if (fd < 0 || look_dir(&w, fd) < 0)
			die();
	}
	return rec_close(w.rec);
}
