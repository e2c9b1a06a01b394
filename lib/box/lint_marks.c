#include "box/lint_marks.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "box/lint_inside.h"

enum { OBJECT_MAX = 64 << 20, TAGS_DEEP = 16, FIRST_CAP = 1024 };

/* IDs are hashes, but of content that a box chose: the worst it gets is the time limit. */
static struct mark *place(const struct marks *m, const git_oid *id)
{
	uint64_t h;
	size_t i;

	memcpy(&h, id->id, sizeof(h));
	i = (size_t)(h * 0xff51afd7ed558ccdull >> 20) & (m->cap - 1);
	while (m->v[i].used && git_oid_cmp(&m->v[i].id, id) != 0)
		i = (i + 1) & (m->cap - 1);
	return &m->v[i];
}

static struct mark *find(const struct marks *m, const git_oid *id)
{
	struct mark *k = m->cap ? place(m, id) : NULL;

	return k && k->used ? k : NULL;
}

static void grow(struct marks *m)
{
	struct marks bigger = {.cap = m->cap ? m->cap * 2 : FIRST_CAP};

	bigger.v = xcalloc(bigger.cap, sizeof(*bigger.v));
	for (size_t i = 0; i < m->cap; i++)
		if (m->v[i].used)
			*place(&bigger, &m->v[i].id) = m->v[i];
	free(m->v);
	m->v = bigger.v;
	m->cap = bigger.cap;
}

static int add(const git_oid *id, void *arg)
{
	struct marks *m = arg;
	struct mark *k;

	if (m->n * 2 >= m->cap)
		grow(m);
	k = place(m, id);
	if (k->used)
		return 0;
	if (m->n == LINT_OBJECTS) {
		git_error_set_str(GIT_ERROR_ODB, "too many objects");
		return -1;
	}
	*k = (struct mark){.id = *id, .used = 1};
	m->n++;
	return 0;
}

int marks_load(struct marks *m, git_odb *db)
{
	*m = (struct marks){.db = db};
	return git_odb_foreach(db, add, m) < 0 ? -1 : 0;
}

void marks_free(struct marks *m)
{
	free(m->v);
	free(m->todo);
}

git_odb_object *marks_read(struct marks *m, const git_oid *id, git_object_t *type)
{
	git_odb_object *o = NULL;
	size_t len;

	/* The size first: a small object may say that it unpacks to all memory there is. */
	if (git_odb_read_header(&len, type, m->db, id) < 0 || len > OBJECT_MAX ||
	    git_odb_read(&o, m->db, id) < 0) {
		m->broken++;
		return NULL;
	}
	return o;
}

static void push(struct marks *m, struct mark *k)
{
	if (m->ntodo == m->todo_cap) {
		m->todo_cap = m->todo_cap ? m->todo_cap * 2 : FIRST_CAP;
		m->todo = xrealloc(m->todo, m->todo_cap * sizeof(*m->todo));
	}
	m->todo[m->ntodo++] = (uint32_t)(k - m->v);
}

static void reach(struct marks *m, const git_oid *id, int has_links)
{
	struct mark *k = find(m, id);

	if (!k || k->reached)
		return;
	k->reached = 1;
	if (has_links)
		push(m, k);
}

/* "tree ID\nparent ID\n..." or a tag's "object ID\n": the lines that begin so. */
static void follow_header(struct marks *m, const char *p, size_t n)
{
	static const char *const keys[] = {"tree ", "parent ", "object "};

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]);) {
		size_t k = strlen(keys[i]);
		git_oid id;

		if (n < k + GIT_OID_HEXSZ + 1 || memcmp(p, keys[i], k) != 0) {
			i++;
			continue;
		}
		if (git_oid_fromstrn(&id, p + k, GIT_OID_HEXSZ) < 0) {
			m->broken++;
			return;
		}
		reach(m, &id, 1);
		p += k + GIT_OID_HEXSZ + 1;
		n -= k + GIT_OID_HEXSZ + 1;
	}
}

/* "MODE NAME\0" and 20 bytes of ID each; only a directory (40000) has links of its own. */
static void follow_tree(struct marks *m, const char *p, size_t n)
{
	while (n) {
		const char *nul = memchr(p, 0, n);
		size_t len = nul ? (size_t)(nul - p) + 1 + GIT_OID_RAWSZ : n + 1;
		git_oid id;

		if (len > n) {
			m->broken++;
			return;
		}
		git_oid_fromraw(&id, (const unsigned char *)nul + 1);
		reach(m, &id, *p == '4' || *p == '0');
		p += len;
		n -= len;
	}
}

static void follow(struct marks *m, const git_oid *id)
{
	git_object_t type;
	git_odb_object *o = marks_read(m, id, &type);

	if (!o)
		return;
	if (type == GIT_OBJECT_TREE)
		follow_tree(m, git_odb_object_data(o), git_odb_object_size(o));
	else if (type != GIT_OBJECT_BLOB)
		follow_header(m, git_odb_object_data(o), git_odb_object_size(o));
	git_odb_object_free(o);
}

void marks_reach(struct marks *m, const git_oid *id)
{
	reach(m, id, 1);
	while (m->ntodo) {
		git_oid next = m->v[m->todo[--m->ntodo]].id;

		follow(m, &next);
	}
}

static int tag_target(struct marks *m, const git_oid *id, git_oid *to)
{
	git_object_t type = GIT_OBJECT_INVALID;
	git_odb_object *o = NULL;
	size_t len;
	int r = -1;

	if (git_odb_read_header(&len, &type, m->db, id) < 0 || type != GIT_OBJECT_TAG)
		return -1;
	o = marks_read(m, id, &type);
	if (o && git_odb_object_size(o) > 7 + GIT_OID_HEXSZ &&
	    !memcmp(git_odb_object_data(o), "object ", 7))
		r = git_oid_fromstrn(to, (const char *)git_odb_object_data(o) + 7, GIT_OID_HEXSZ);
	git_odb_object_free(o);
	return r;
}

int marks_reached(struct marks *m, const git_oid *id)
{
	git_oid chain[TAGS_DEEP];
	int n = 0;

	chain[0] = *id;
	for (;;) {
		struct mark *k = find(m, &chain[n]);

		if (!k)
			return 0;
		if (k->reached)
			break;
		if (n == TAGS_DEEP - 1 || tag_target(m, &chain[n], &chain[n + 1]) < 0)
			return 0;
		n++;
	}
	while (n--)
		reach(m, &chain[n], 0);
	return 1;
}
