/* Trees made of bytes, and trees as text, for tests of what is done with whole trees. */
#ifndef TREES_H
#define TREES_H
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "store/tree.h"
#include "store/tree_map.h"

struct bytes {
	const unsigned char *p;
	size_t n;
};

static inline unsigned take(struct bytes *in)
{
	return in->n ? (in->n--, *in->p++) : 0;
}

/* Few names and at most four parts, so that paths meet. */
static inline void take_path(struct bytes *in, char out[32])
{
	unsigned n = take(in) % 4 + 1, len = 0;

	for (unsigned i = 0; i < n; i++) {
		out[len++] = "abcdefgh"[take(in) % 8];
		out[len++] = i + 1 < n ? '/' : 0;
	}
}

static inline void take_content(struct bytes *in, struct tree *t, struct tree_inode *ino)
{
	uint32_t at = 0;

	for (unsigned n = take(in) % 4; n; n--) {
		struct tree_extent e = {.n = take(in) % 40 + 1, .dblk = take(in)};
		char sha[SHA_HEX + 1] = {0};

		memset(sha, "0123"[take(in) % 4], SHA_HEX);
		at += take(in) % 3;
		e.lblk = at;
		e.dev = (uint32_t)tree_blob(t, sha, 1000);
		at += e.n;
		tree_add_extent(ino, e);
	}
	ino->size = (uint64_t)at * TREE_BLOCK + take(in) * 5;
}

static inline void take_attrs(struct bytes *in, struct tree_inode *ino)
{
	unsigned what = take(in);

	ino->mtime = what & 1;
	ino->uid = what >> 1 & 1;
	if (what & 4)
		tree_set_xattr(ino, what & 8 ? "user.x" : "security.y", "value", what % 6);
}

/* One change of T. With OVERLAY, what has a meaning in layers may come too. */
static inline void take_step(struct bytes *in, struct tree *t, int overlay)
{
	static const mode_t types[] = {S_IFREG, S_IFDIR, S_IFLNK, S_IFCHR, S_IFIFO, S_IFREG};
	unsigned op = take(in);
	struct tree_inode *ino;
	char a[32], b[40];

	take_path(in, a);
	if (op % 8 == 0) {
		snprintf(b, sizeof(b), "%.*s.wh.%c", (int)(strlen(a) - 1), a, a[strlen(a) - 1]);
		tree_next_layer(t);
		tree_whiteout(t, b);
	} else if (op % 8 == 1) {
		take_path(in, b);
		tree_link(t, a, b);
	} else if (op % 8 == 2) {
		ino = tree_lookup(t, a);
		if (ino)
			take_attrs(in, ino);
		take_path(in, b);
		if (ino && overlay && S_ISDIR(ino->mode) && op & 8)
			tree_set_xattr(ino, "trusted.overlay.opaque", op & 16 ? "y" : "x", 1);
		else if (ino && overlay && S_ISDIR(ino->mode))
			tree_set_xattr(ino, "trusted.overlay.redirect", b + 1, strlen(b) - 1);
	} else {
		ino = tree_add(t, a, types[op / 8 % 6] | 0644);
		if (!ino)
			return;
		take_attrs(in, ino);
		if (S_ISREG(ino->mode))
			take_content(in, t, ino);
		if (S_ISLNK(ino->mode))
			tree_set_target(ino, op & 64 ? "a" : "../b");
		if (S_ISCHR(ino->mode))
			ino->rdev = overlay ? op >> 6 : 0x103;
	}
}

static inline void dump_extents(struct buf *b, const struct tree *t, const struct tree_inode *ino)
{
	uint32_t n;
	const struct tree_blob *blob = tree_blobs(t, &n);

	for (uint32_t i = 0; i < ino->n; i++)
		for (uint32_t k = 0; k < ino->ext[i].n; k++)
			buf_fmt(b, " %u=%c%u", ino->ext[i].lblk + k, *blob[ino->ext[i].dev].sha,
				ino->ext[i].dblk + k);
}

static inline void dump_inode(struct buf *b, const struct tree *t, const struct tree_inode *ino)
{
	buf_fmt(b, " %o %u:%u %lld.%u %u %llu", ino->mode, ino->uid, ino->gid,
		(long long)ino->mtime, ino->nsec, ino->rdev,
		S_ISDIR(ino->mode) ? 0ull : (unsigned long long)ino->size);
	for (const struct tree_xattr *x = ino->xattr; x; x = x->next)
		buf_fmt(b, " %s=%.*s", x->bytes, (int)x->vlen, x->bytes + x->nlen + 1);
	if (S_ISLNK(ino->mode))
		buf_fmt(b, " -> %s", ino->target);
	if (S_ISREG(ino->mode))
		dump_extents(b, t, ino);
}

/* Every name with all that it has; names of one file show the same number. */
static inline void dump_dir(struct buf *b, const struct tree *t, const struct tree_inode *dir,
			    const char *path, struct tree_map *seen)
{
	struct tree_dentry **child = tree_sorted(dir);

	for (uint32_t i = 0; i < dir->n; i++) {
		const struct tree_inode *ino = child[i]->ino;
		autofree char *sub = xasprintf("%s/%s", path, child[i]->name);
		uintptr_t id = (uintptr_t)tree_map_get(seen, ino);

		if (!id) {
			id = seen->n + 1;
			tree_map_set(seen, ino, (void *)id);
		}
		buf_fmt(b, "%s %lu/%u", sub, (unsigned long)id, ino->names);
		dump_inode(b, t, ino);
		buf_chr(b, '\n');
		if (S_ISDIR(ino->mode))
			dump_dir(b, t, ino, sub, seen);
	}
	free(child);
}

static inline char *dump(const struct tree *t)
{
	struct tree_map seen = {0};
	struct buf b = BUF_INIT;

	buf_str(&b, "/");
	dump_inode(&b, t, tree_root(t));
	buf_chr(&b, '\n');
	dump_dir(&b, t, tree_root(t), "", &seen);
	tree_map_free(&seen);
	return b.p;
}

static inline struct tree *make_tree(struct bytes *in, int steps, int overlay)
{
	struct tree *t = tree_new();

	while (in->n && steps--)
		take_step(in, t, overlay);
	return t;
}
#endif
