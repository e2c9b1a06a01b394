/*
 * What differs between two images: reads their layers' metadata, and of their data only what the
 * metadata leave open. Changes nothing.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/die.h"
#include "base/fd.h"
#include "base/opt.h"
#include "base/rec.h"
#include "store/image_tree.h"

enum { CHANGE, PATH, TYPE, OLD_MODE, NEW_MODE, OLD_BYTES, NEW_BYTES, WHAT, OLD_TYPE };

static struct rec_opts recs;

static const struct opt opts[] = {
	REC_OPTIONS(recs),
	{0},
};

static const struct opt_tool tool = {
	.usage = "IMAGE IMAGE",
	.purpose = "List what differs between two images: A added, D deleted, M modified, T "
		   "another type.",
	.opts = opts,
	.operands = -1,
	.operand = "IMAGE",
};

static const struct rec_col cols[] = {
	{"change", REC_TEXT, 0},     {"path", REC_TEXT, 0},
	{"type", REC_TEXT, 0},	     {"old_mode", REC_TEXT, 0},
	{"new_mode", REC_TEXT, 0},   {"old_bytes", REC_BYTES, 0},
	{"new_bytes", REC_BYTES, 0}, {"what", REC_TEXT, 0},
	{"old_type", REC_TEXT, 1},   {0},
};

struct diff {
	struct image_tree a, b;
	struct rec *rec;
	int some;
};

/* As find's %y. */
static const char *type(const struct tree_inode *ino)
{
	switch (ino ? ino->mode & S_IFMT : 0) {
	case S_IFDIR:
		return "d";
	case S_IFREG:
		return "f";
	case S_IFLNK:
		return "l";
	case S_IFCHR:
		return "c";
	case S_IFBLK:
		return "b";
	case S_IFIFO:
		return "p";
	case S_IFSOCK:
		return "s";
	}
	return NULL;
}

static int same(void *arg, const struct tree_inode *x, const struct tree_inode *y)
{
	struct diff *d = arg;

	return image_tree_same(&d->a, x, &d->b, y);
}

static void add(struct buf *b, int differs, const char *word)
{
	if (!differs)
		return;
	if (b->len)
		buf_chr(b, ',');
	buf_str(b, word);
}

static int xattrs_differ(const struct tree_inode *x, const struct tree_inode *y)
{
	const struct tree_xattr *p = x->xattr, *q = y->xattr;

	for (; p && q; p = p->next, q = q->next)
		if (p->nlen != q->nlen || p->vlen != q->vlen ||
		    memcmp(p->bytes, q->bytes, p->nlen + 1u + p->vlen) != 0)
			break;
	return p || q;
}

/* Which properties of two of one type differ, between commas. */
static int what(struct diff *d, struct buf *b, const struct tree_inode *x,
		const struct tree_inode *y)
{
	int content = 0;

	if (S_ISREG(x->mode)) {
		content = same(d, x, y);
		if (content < 0)
			return -1;
		content = !content;
	}
	if (S_ISLNK(x->mode))
		content = strcmp(x->target, y->target) != 0;
	add(b, content, "content");
	add(b, x->mode != y->mode, "mode");
	add(b, x->uid != y->uid || x->gid != y->gid, "owner");
	add(b, x->mtime != y->mtime || x->nsec != y->nsec, "time");
	add(b, xattrs_differ(x, y), "xattr");
	add(b, x->rdev != y->rdev, "device");
	return 0;
}

static void put_side(struct rec *r, const struct tree_inode *ino, int mode, int bytes)
{
	char text[16];

	if (!ino)
		return;
	snprintf(text, sizeof(text), "%04o", ino->mode & 07777);
	rec_text(r, mode, text);
	if (S_ISREG(ino->mode) || S_ISLNK(ino->mode))
		rec_num(r, bytes, ino->size);
}

static int change(void *arg, enum tree_change how, const char *path, const struct tree_inode *x,
		  const struct tree_inode *y)
{
	struct diff *d = arg;
	const char letter[2] = {(char)how};
	autobuf words = BUF_INIT;

	d->some = 1;
	if (how == TREE_MODIFIED && what(d, &words, x, y) < 0)
		return -1;
	rec_text(d->rec, CHANGE, letter);
	rec_text(d->rec, PATH, path);
	rec_text(d->rec, TYPE, type(y ? y : x));
	put_side(d->rec, x, OLD_MODE, OLD_BYTES);
	put_side(d->rec, y, NEW_MODE, NEW_BYTES);
	rec_text(d->rec, WHAT, words.p);
	rec_text(d->rec, OLD_TYPE, type(x));
	rec_end(d->rec);
	return 0;
}

static void load(const struct state *st, const char *ref, struct image_tree *it)
{
	struct image img;

	if (image_load(st, ref, &img) < 0)
		die();
	if (image_tree_open(it, st, &img) < 0 || image_tree_all(it) < 0)
		fail_more("image '%s'", ref), die();
	image_free(&img);
}

int main(int argc, char **argv)
{
	struct diff d = {0};
	struct state st;
	int i = opt_parse(&tool, argc, argv), hold;

	if (argc - i != 2)
		opt_misuse("diff takes two images");
	if (state_open(&st, 0) < 0)
		die();
	hold = image_hold(&st);
	if (hold < 0)
		die();
	load(&st, argv[i], &d.a);
	load(&st, argv[i + 1], &d.b);
	/* Data may lie on a slow depot: nobody shall wait for that. If it goes now, opening fails. */
	fd_close(&hold);
	d.rec = rec_open(stdout, cols, &recs);
	if (!d.rec || tree_compare(d.a.tree, d.b.tree, same, change, &d) < 0)
		die();
	image_tree_close(&d.a);
	image_tree_close(&d.b);
	return rec_close(d.rec) ? EX_SBX : d.some;
}
