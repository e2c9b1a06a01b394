#include "store/usage.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/die.h"
#include "base/fd.h"

/*
 * Directories still to be read, as paths from the top, in one buffer with a NUL after each: a path
 * is opened from the top with openat2(RESOLVE_BENEATH), so nothing that moves meanwhile leads out.
 */
enum { TODO_MAX = 32 << 20 }; /* bytes: wide directories below long paths */

struct walk {
	int top;
	dev_t dev;
	struct buf todo;
	uint64_t max;
	struct usage *u;
};

/* Takes the last path off into PATH. */
static int pop(struct walk *w, struct buf *path)
{
	size_t at = w->todo.len;

	if (!at)
		return 0;
	at--;
	while (at && w->todo.p[at - 1])
		at--;
	buf_clear(path);
	buf_str(path, w->todo.p + at);
	w->todo.len = at;
	return 1;
}

static void count_entry(struct walk *w, int dir, const char *path, const char *name)
{
	struct stat st;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || st.st_dev != w->dev)
		return;
	w->u->files++;
	w->u->bytes += (uint64_t)st.st_blocks * 512;
	if (!S_ISDIR(st.st_mode))
		return;
	if (w->todo.len > TODO_MAX) {
		w->u->partial = 1;
		return;
	}
	if (strcmp(path, ".") != 0) {
		buf_str(&w->todo, path);
		buf_chr(&w->todo, '/');
	}
	buf_add(&w->todo, name, strlen(name) + 1);
}

static void read_dir(struct walk *w, const char *path)
{
	int fd = fd_openat2(w->top, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0,
			    RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;

	if (!d) {
		/* Gone meanwhile, or deeper than a path can say: what is counted is a part. */
		if (errno != ENOENT)
			w->u->partial = 1;
		fd_close(&fd);
		return;
	}
	while ((e = readdir(d))) {
		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
			continue;
		if (w->u->files >= w->max) {
			w->u->partial = 1;
			w->todo.len = 0;
			break;
		}
		count_entry(w, fd, path, e->d_name);
	}
	closedir(d);
}

int usage_count(int at, const char *name, uint64_t max_files, struct usage *u)
{
	struct walk w = {.max = max_files, .u = u};
	autofd top = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	autobuf path = BUF_INIT;
	struct stat st;

	memset(u, 0, sizeof(*u));
	if (top < 0)
		return errno == ENOENT ? 0 : fail("cannot open '%s'", name);
	if (fstat(top, &st) < 0)
		return fail("cannot read '%s'", name);
	w.top = top;
	w.dev = st.st_dev;
	u->bytes = (uint64_t)st.st_blocks * 512;
	buf_add(&w.todo, ".", 2);
	while (pop(&w, &path))
		read_dir(&w, path.p);
	buf_free(&w.todo);
	return 0;
}
