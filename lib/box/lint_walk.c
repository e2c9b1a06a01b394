#include "box/lint_inside.h"

#include <dirent.h>
#include <elf.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "store/clean.h"

enum { HAS_HEAD = 1, HAS_OBJECTS = 2, HAS_REFS = 4, HAS_ALL = 7 };
enum { CLOCK_EVERY = 256, HISTORY_READ = 1 << 20, PIECE = 16384 };

struct level {
	DIR *d;
	size_t len; /* of the path up to here */
	struct stat st;
	int has, special;
};

struct walk {
	struct lint *l;
	struct buf path;
	struct level level[LINT_DEPTH];
	int depth;
	uint64_t files;
	struct clean *history, *backup;
};

static const char histories[] =
	".bash_history\n.zsh_history\n.zhistory\n.sh_history\n.ash_history\n"
	".ksh_history\nfish_history\n.histfile\n.python_history\n"
	".node_repl_history\n.psql_history\n.mysql_history\n.mariadb_history\n"
	".sqlite_history\n.rediscli_history\n.dbshell\n.irb_history\n"
	".irb-history\n.pry_history\n.php_history\n.Rhistory\n.octave_hist\n"
	".julia_history\n.gdb_history\n.lesshst\n.viminfo\n.netrwhist\n"
	"**/.ipython/profile_*/history.sqlite\n";

/* Those that come with programs are nobody's edits. */
static const char backups[] =
	"*~\n.*.sw[a-p]\n\\#*#\n.#*\n*.orig\n*.rej\n*.bak\n"
	"!/usr/**\n/usr/local/**/*~\n/usr/local/**/*.bak\n/usr/local/**/*.orig\n"
	"/usr/src/**/*~\n/usr/src/**/*.bak\n/usr/src/**/*.orig\n"
	"!/lib/**\n!/var/lib/**\n!/var/cache/**\n";

static const char *path_of(struct walk *w, const char *name)
{
	const struct level *lv = &w->level[w->depth - 1];

	w->path.len = lv->len;
	buf_fmt(&w->path, "/%s", name);
	return buf_cstr(&w->path);
}

/* O_NONBLOCK: a FIFO that has taken the file's place must not hold us. */
static int open_file(struct walk *w, const char *name, struct stat *st)
{
	autofd fd = openat(dirfd(w->level[w->depth - 1].d), name,
			   O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);

	if (fd < 0 || fstat(fd, st) < 0 || !S_ISREG(st->st_mode))
		return -1;
	return fd_take(&fd);
}

static void say_size(const char *kind, const char *path, uint64_t count, const struct stat *st)
{
	char text[64];

	snprintf(text, sizeof(text), "%llu bytes", (unsigned long long)st->st_size);
	lint_say(kind, path, count, text);
}

static void say_history(struct walk *w, const char *name, const char *path)
{
	struct stat st;
	autofd fd = open_file(w, name, &st);
	uint64_t lines = 0, bytes = 0;
	char piece[PIECE], last = '\n';
	ssize_t k;

	if (fd < 0 || !st.st_size)
		return;
	while (bytes < HISTORY_READ && (k = read(fd, piece, sizeof(piece))) > 0) {
		bytes += (uint64_t)k;
		for (ssize_t i = 0; i < k; i++)
			lines += piece[i] == '\n';
		last = piece[k - 1];
	}
	say_size("history", path, lines + (last != '\n'), &st);
}

static int is_core(int fd)
{
	unsigned char h[EI_NIDENT + 2];

	if (fd_read_all(fd, h, sizeof(h)) != sizeof(h) || memcmp(h, ELFMAG, SELFMAG) != 0)
		return 0;
	return h[EI_NIDENT + (h[EI_DATA] == ELFDATA2MSB)] == ET_CORE;
}

static void look_at_file(struct walk *w, const char *name)
{
	const char *path = path_of(w, name);

	if (clean_match(w->history, path, 0)) {
		say_history(w, name, path);
	} else if (clean_match(w->backup, path, 0)) {
		struct stat st;

		if (!fstatat(dirfd(w->level[w->depth - 1].d), name, &st, AT_SYMLINK_NOFOLLOW))
			say_size("backup", path, 1, &st);
	} else if (!strncmp(name, "core", 4) || !strncmp(name, "vgcore", 6)) {
		struct stat st;
		autofd fd = open_file(w, name, &st);

		if (fd >= 0 && is_core(fd))
			say_size("core", path, 1, &st);
	}
}

static void add_repo(struct walk *w, const struct level *lv, int linked)
{
	struct lint *l = w->l;
	char *path;
	size_t n;

	w->path.len = lv->len;
	w->path.p[lv->len] = 0;
	if (l->nrepo == LINT_REPOS) {
		lint_say("unchecked", buf_cstr(&w->path), 1, "too many repositories");
		return;
	}
	path = xstrdup(lv->len ? w->path.p : "/");
	n = strlen(path);
	if ((l->nrepo & (l->nrepo - 1)) == 0)
		l->repo = xrealloc(l->repo, (l->nrepo ? l->nrepo * 2 : 1) * sizeof(*l->repo));
	l->repo[l->nrepo++] = (struct lint_repo){
		.path = path,
		.shown = xasprintf("%.*s",
				   n > 5 && !strcmp(path + n - 5, "/.git") ? (int)n - 5 : (int)n,
				   path),
		.dev = lv->st.st_dev,
		.ino = lv->st.st_ino,
		.linked = linked,
		.special = lv->special && !linked,
	};
}

/* Views of the kernel, wherever a box may have mounted them. */
static int is_kernels(int fd)
{
	struct statfs fs;

	return fstatfs(fd, &fs) < 0 || fs.f_type == PROC_SUPER_MAGIC || fs.f_type == SYSFS_MAGIC ||
	       fs.f_type == CGROUP_SUPER_MAGIC || fs.f_type == CGROUP2_SUPER_MAGIC;
}

static void enter(struct walk *w, int at, const char *name)
{
	struct level *lv = &w->level[w->depth];
	autofd fd = -1;

	/* What begins at the root is named "" there: its children get the slash. */
	if (w->depth)
		path_of(w, name);
	if (w->depth == 1 &&
	    (!strcmp(name, "proc") || !strcmp(name, "sys") || !strcmp(name, "dev")))
		return;
	if (w->depth == LINT_DEPTH) {
		lint_say("unchecked", buf_cstr(&w->path), 1, "it is too deep");
		return;
	}
	fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	*lv = (struct level){.len = w->path.len};
	if (fd < 0 || fstat(fd, &lv->st) < 0)
		return; /* it has just gone */
	if (w->depth && lv->st.st_dev != lv[-1].st.st_dev && is_kernels(fd))
		return;
	lv->d = fdopendir(fd);
	if (!lv->d)
		return;
	fd_take(&fd);
	w->depth++;
}

static void leave(struct walk *w)
{
	struct level *lv = &w->level[--w->depth];

	if (lv->has == HAS_ALL)
		add_repo(w, lv, 0);
	else if (w->depth)
		lv[-1].special |= lv->special;
	closedir(lv->d);
}

static int type_of(const struct level *lv, const struct dirent *e)
{
	struct stat st;

	if (e->d_type != DT_UNKNOWN)
		return e->d_type;
	return fstatat(dirfd(lv->d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) ? DT_REG
									  : (int)IFTODT(st.st_mode);
}

static void look(struct walk *w, const struct dirent *e)
{
	struct level *lv = &w->level[w->depth - 1];
	int type = type_of(lv, e);
	const char *name = e->d_name;

	if (!strcmp(name, "HEAD"))
		lv->has |= HAS_HEAD;
	else if (!strcmp(name, "objects"))
		lv->has |= HAS_OBJECTS;
	else if (!strcmp(name, "refs"))
		lv->has |= HAS_REFS;
	if (type == DT_DIR)
		enter(w, dirfd(lv->d), name);
	else if (!strcmp(name, ".git") && (type == DT_REG || type == DT_LNK))
		add_repo(w, lv, 1);
	else if (type == DT_REG || type == DT_LNK)
		look_at_file(w, name);
	else
		lv->special = 1;
}

static int give_up(struct walk *w)
{
	const char *why = ++w->files > LINT_FILES ? "too many files"
			  : w->files % CLOCK_EVERY == 0 && lint_late(w->l)
				  ? "the time was over before all files were seen"
				  : NULL;

	if (why)
		lint_say("unchecked", "/", 1, why);
	return why != NULL;
}

void lint_walk(struct lint *l)
{
	struct walk *w = xcalloc(1, sizeof(*w));

	w->l = l;
	if (!clean_parse("histories", histories, strlen(histories), &w->history) &&
	    !clean_parse("backups", backups, strlen(backups), &w->backup)) {
		buf_str(&w->path, "");
		buf_room(&w->path, 1);
		enter(w, AT_FDCWD, "/");
	}
	while (w->depth) {
		const struct dirent *e = readdir(w->level[w->depth - 1].d);

		if (!e)
			leave(w);
		else if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0) {
			if (give_up(w))
				break;
			look(w, e);
		}
	}
	while (w->depth)
		closedir(w->level[--w->depth].d);
	clean_free(w->history);
	clean_free(w->backup);
	buf_free(&w->path);
	free(w);
}
