#include "box/lint_inside.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/die.h"
#include "base/fd.h"
#include "box/lint_marks.h"

enum { TEXT_MAX = 16 << 20, COMMITS_READ = 100000, LOGS_DEEP = 16, LOGS_MAX = 10000 };

/* A repository under examination. */
struct repo {
	const char *path; /* as it is told */
	git_repository *git;
	const char *dir; /* what its work trees share: objects, refs, logs */
	struct marks marks;
	uint64_t logs;
};

/* Names between blanks, as many as fit, and how many there were. */
struct names {
	struct buf text;
	uint64_t n;
};

int lint_git_init(void)
{
	if (git_libgit2_init() < 0)
		return failx("cannot start libgit2");
	/* No configuration but the repository's own. Its owner may be anyone: it runs nothing. */
	for (int level = GIT_CONFIG_LEVEL_PROGRAMDATA; level <= GIT_CONFIG_LEVEL_GLOBAL; level++)
		git_libgit2_opts(GIT_OPT_SET_SEARCH_PATH, level, "");
	git_libgit2_opts(GIT_OPT_SET_OWNER_VALIDATION, 0);
	git_libgit2_opts(GIT_OPT_ENABLE_STRICT_HASH_VERIFICATION, 0);
	git_libgit2_opts(GIT_OPT_ENABLE_CACHING, 0);
	/* Of the box's memory, which others need too. */
	git_libgit2_opts(GIT_OPT_SET_MWINDOW_SIZE, (size_t)4 << 20);
	git_libgit2_opts(GIT_OPT_SET_MWINDOW_MAPPED_LIMIT, (size_t)64 << 20);
	return 0;
}

static void unchecked(const struct repo *r, uint64_t n, const char *what)
{
	const git_error *e = git_error_last();
	autofree char *text = xasprintf("%s%s%s", what, e ? ": " : "", e ? e->message : "");

	lint_say("unchecked", r->path, n, text);
}

static void add_name(struct names *s, const char *name)
{
	s->n++;
	if (s->text.len < LINT_DETAIL)
		buf_fmt(&s->text, "%s%s", s->text.len ? " " : "", name);
}

static void say_names(const struct repo *r, const char *kind, struct names *s)
{
	if (s->n)
		lint_say(kind, r->path, s->n, buf_cstr(&s->text));
	buf_free(&s->text);
}

/* A file of the repository, in whole; 0 if there is none. What cannot be read is told. */
static int read_text(const struct repo *r, const char *path, struct buf *b)
{
	autofd fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	struct stat st;
	ssize_t n;

	buf_clear(b);
	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return 0;
	if (st.st_size > TEXT_MAX) {
		git_error_clear();
		unchecked(r, 1, "a log or list is too large");
		return 0;
	}
	n = fd_read_all(fd, buf_room(b, (size_t)st.st_size), (size_t)st.st_size);
	b->len = n > 0 ? (size_t)n : 0;
	buf_room(b, 1)[0] = 0;
	return b->len > 0;
}

/* Lines of an ID each, or with TWO of "OLD NEW ...": those that name something not reached. */
static uint64_t count_beyond(struct repo *r, const struct buf *b, int two)
{
	uint64_t n = 0;

	for (const char *p = b->p, *end = p + b->len; p < end;) {
		const char *nl = memchr(p, '\n', (size_t)(end - p));
		int beyond = 0;

		for (int i = 0; i <= two; i++) {
			const char *hex = p + i * (GIT_OID_HEXSZ + 1);
			git_oid id;

			if (end - hex < GIT_OID_HEXSZ ||
			    git_oid_fromstrn(&id, hex, GIT_OID_HEXSZ) < 0)
				break;
			beyond |= !git_oid_is_zero(&id) && !marks_reached(&r->marks, &id);
		}
		n += (uint64_t)beyond;
		p = nl ? nl + 1 : end;
	}
	return n;
}

/* What is staged was put there by whoever prepared the box: its files are seen anyway. */
static void reach_index(struct repo *r)
{
	autofree char *path = xasprintf("%s/index", r->dir);
	git_index *index;

	if (git_index_open(&index, path) < 0)
		return;
	for (size_t i = 0; i < git_index_entrycount(index); i++)
		marks_reach(&r->marks, &git_index_get_byindex(index, i)->id);
	git_index_free(index);
}

/* 0 if there is something to compare with. */
static int reach_head(struct repo *r)
{
	git_reference *head = NULL;
	int e = git_repository_head(&head, r->git);
	git_object_t type;
	size_t len;

	if (e == GIT_EUNBORNBRANCH)
		return 0;
	if (e < 0) {
		unchecked(r, 1, "its HEAD cannot be read");
		return -1;
	}
	e = git_odb_read_header(&len, &type, r->marks.db, git_reference_target(head));
	if (e < 0)
		unchecked(r, 1, "its HEAD's commit cannot be read");
	else
		marks_reach(&r->marks, git_reference_target(head));
	git_reference_free(head);
	return e < 0 ? -1 : 0;
}

static void look_at_refs(struct repo *r, struct names *found)
{
	git_reference_iterator *it;
	git_reference *ref;
	git_oid id;

	if (git_reference_iterator_new(&it, r->git) < 0) {
		unchecked(r, 1, "its refs cannot be read");
		return;
	}
	while (!git_reference_next(&ref, it)) {
		const char *name = git_reference_name(ref);

		if (!git_reference_name_to_id(&id, r->git, name) && !marks_reached(&r->marks, &id))
			add_name(found, name);
		git_reference_free(ref);
	}
	git_reference_iterator_free(it);
}

static void look_at_heads(struct repo *r, struct names *found)
{
	static const char *const names[] = {"ORIG_HEAD",	"FETCH_HEAD",  "MERGE_HEAD",
					    "CHERRY_PICK_HEAD", "REVERT_HEAD", "REBASE_HEAD",
					    "AUTO_MERGE",	"BISECT_HEAD"};
	autobuf text = BUF_INIT;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		autofree char *path = xasprintf("%s/%s", r->dir, names[i]);

		if (read_text(r, path, &text) && count_beyond(r, &text, 0))
			add_name(found, names[i]);
	}
}

/* Every file below logs/; a log may outlive its ref. */
static void look_at_logs(struct repo *r, const char *dir, size_t skip, int depth,
			 struct names *found)
{
	DIR *d = opendir(dir);
	const struct dirent *e;
	autobuf text = BUF_INIT;

	while (d && (e = readdir(d)) && r->logs < LOGS_MAX) {
		autofree char *path = xasprintf("%s/%s", dir, e->d_name);

		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
			continue;
		r->logs++;
		if (e->d_type == DT_DIR && depth < LOGS_DEEP) {
			look_at_logs(r, path, skip, depth + 1, found);
		} else if (read_text(r, path, &text)) {
			uint64_t n = count_beyond(r, &text, 1);

			if (n) {
				add_name(found, path + skip);
				found->n += n - 1;
			}
		}
	}
	if (d)
		closedir(d);
}

/*
 * The other work trees' own HEADs and logs. git_worktree_list() wants the trees to be where they were
 * made, which a copied repository has not.
 */
static void look_at_trees(struct repo *r, struct names *refs, struct names *logs)
{
	autofree char *dir = xasprintf("%s/worktrees", r->dir);
	DIR *d = opendir(dir);
	const struct dirent *e;
	autobuf text = BUF_INIT;

	while (d && (e = readdir(d)) && r->logs < LOGS_MAX) {
		autofree char *path = xasprintf("%s/%s/HEAD", dir, e->d_name),
			      *log = xasprintf("%s/%s/logs", dir, e->d_name);
		git_oid id;

		if (*e->d_name == '.' || !read_text(r, path, &text))
			continue;
		text.p[strcspn(text.p, "\n")] = 0;
		if (!strncmp(text.p, "ref: ", 5)
			    ? !git_reference_name_to_id(&id, r->git, text.p + 5) &&
				      !marks_reached(&r->marks, &id)
			    : count_beyond(r, &text, 0) > 0)
			add_name(refs, path + strlen(r->dir) + 1);
		look_at_logs(r, log, strlen(r->dir) + 1, 0, logs);
	}
	if (d)
		closedir(d);
}

static void look_at_alternates(struct repo *r)
{
	autofree char *path = xasprintf("%s/objects/info/alternates", r->dir);
	struct names found = {BUF_INIT, 0};
	autobuf text = BUF_INIT;

	if (!read_text(r, path, &text))
		return;
	for (char *line = strtok(text.p, "\n"); line; line = strtok(NULL, "\n"))
		if (*line != '#')
			add_name(&found, line);
	say_names(r, "git-alternate", &found);
}

/* The committer's time, and where the subject begins; 0 if P is no commit. */
static long long commit_time(const char *p, size_t n, const char **subject)
{
	const char *blank = memmem(p, n, "\n\n", 2), *by, *angle;
	char text[24];

	by = blank ? memmem(p, (size_t)(blank - p), "\ncommitter ", 11) : NULL;
	angle = by ? memchr(by, '>', (size_t)(blank - by)) : NULL;
	if (!angle)
		return 0;
	*subject = blank + 2;
	snprintf(text, sizeof(text), "%.*s", (int)(blank - angle < 20 ? blank - angle - 1 : 20),
		 angle + 1);
	return strtoll(text, NULL, 10);
}

struct newest {
	long long time;
	char text[LINT_DETAIL];
};

static void look_at_commit(struct repo *r, const git_oid *id, struct newest *newest)
{
	git_object_t type;
	git_odb_object *o = marks_read(&r->marks, id, &type);
	const char *data, *subject = "";
	size_t n;
	long long when;

	if (!o)
		return;
	data = git_odb_object_data(o);
	n = git_odb_object_size(o);
	when = commit_time(data, n, &subject);
	if (!newest->text[0] || when > newest->time) {
		size_t left = when ? n - (size_t)(subject - data) : 0, len = 0;

		while (len < left && subject[len] && subject[len] != '\n')
			len++;
		newest->time = when;
		snprintf(newest->text, sizeof(newest->text), "%s %.*s", git_oid_tostr_s(id),
			 (int)(len < 200 ? len : 200), subject);
	}
	git_odb_object_free(o);
}

static void look_at_objects(struct repo *r)
{
	uint64_t commits = 0, others = 0;
	struct newest newest = {.time = 0};
	autofree char *text = NULL;

	for (size_t i = 0; i < r->marks.cap; i++) {
		const struct mark *k = &r->marks.v[i];
		git_object_t type = GIT_OBJECT_INVALID;
		size_t len;

		if (!k->used || k->reached)
			continue;
		if (git_odb_read_header(&len, &type, r->marks.db, &k->id) < 0)
			r->marks.broken++;
		others += type != GIT_OBJECT_COMMIT;
		if (type == GIT_OBJECT_COMMIT && ++commits <= COMMITS_READ)
			look_at_commit(r, &k->id, &newest);
	}
	if (!commits && !others)
		return;
	text = xasprintf("%llu commits%s%s", (unsigned long long)commits,
			 commits ? ", newest " : "", newest.text);
	lint_say("git-unreachable", r->path, commits + others, text);
}

static void examine(struct repo *r)
{
	struct names refs = {BUF_INIT, 0}, logs = {BUF_INIT, 0};
	autofree char *dir = xasprintf("%s/logs", r->dir);

	if (reach_head(r) < 0)
		return;
	reach_index(r);
	look_at_refs(r, &refs);
	look_at_heads(r, &refs);
	look_at_logs(r, dir, strlen(dir) + 1, 0, &logs);
	look_at_trees(r, &refs, &logs);
	look_at_objects(r);
	say_names(r, "git-ref", &refs);
	say_names(r, "git-reflog", &logs);
	if (r->marks.broken)
		unchecked(r, r->marks.broken, "objects cannot be read");
}

/* A linked work tree whose repository is looked at by itself. */
static int seen(const struct lint *l, const char *dir)
{
	struct stat st;

	if (stat(dir, &st) < 0)
		return 0;
	for (size_t i = 0; i < l->nrepo; i++)
		if (!l->repo[i].linked && l->repo[i].dev == st.st_dev &&
		    l->repo[i].ino == st.st_ino)
			return 1;
	return 0;
}

static void open_and_examine(const struct lint *l, const struct lint_repo *repo, struct repo *r)
{
	/* BARE: where core.worktree points to does not matter. */
	unsigned flags = repo->linked ? GIT_REPOSITORY_OPEN_NO_SEARCH
				      : GIT_REPOSITORY_OPEN_NO_SEARCH | GIT_REPOSITORY_OPEN_BARE |
						GIT_REPOSITORY_OPEN_NO_DOTGIT;
	git_odb *db = NULL;
	int e = git_repository_open_ext(&r->git, repo->path, flags, NULL);

	if (e == GIT_ENOTFOUND && repo->linked)
		return; /* what its .git file names is not in the box */
	if (e < 0) {
		unchecked(r, 1, "it cannot be opened");
		return;
	}
	r->dir = git_repository_commondir(r->git);
	if (repo->linked && seen(l, r->dir))
		return;
	look_at_alternates(r);
	if (git_repository_odb(&db, r->git) < 0 || marks_load(&r->marks, db) < 0)
		unchecked(r, 1, "its objects cannot be listed");
	else
		examine(r);
	marks_free(&r->marks);
	git_odb_free(db);
}

void lint_git(const struct lint *l, const struct lint_repo *repo)
{
	struct repo r = {.path = repo->shown};

	open_and_examine(l, repo, &r);
	git_repository_free(r.git);
}
