/*
 * Layout: superblock and device slots, inodes in the order of
 * the tree (each with its attributes and, where they fit into one block, the tail of a directory or
 * a link behind it), then whole blocks of directories and links.
 */
#include "store/erofs_write.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/die.h"
#include "base/fd.h"
#include "store/erofs_disk.h"

struct writer {
	int fd;
	struct buf out; /* not yet written; starts at byte AT of the file */
	uint64_t at;
	uint64_t next;		   /* next free byte while laying out */
	uint64_t block;		   /* next free block behind the inodes while writing */
	struct tree_inode **order; /* inodes as they lie on disk */
	size_t n;
	struct tree_inode *root;
	const struct tree_blob *blob; /* the tree's */
	uint16_t *id;		      /* of each blob: its device, from 1; 0: no file uses it */
	struct erofs_device *slot;
	size_t nslot;
};

static size_t align(size_t n, size_t to)
{
	return (n + to - 1) / to * to;
}

static size_t xattr_bytes(const struct tree_inode *ino)
{
	size_t sum = 0, skip;

	for (const struct tree_xattr *x = ino->xattr; x; x = x->next)
		if (erofs_prefix(x->bytes, &skip))
			sum += align(4 + x->nlen - skip + x->vlen, 4);
	return sum ? sum + 12 : 0;
}

/* Names of a directory in on-disk order: the children, with "." and ".." among them. */
struct names {
	struct tree_dentry **child;
	size_t n, i;
	int dots; /* how many of the two have been given */
};

static int next_name(struct names *s, const char **name, size_t *len, struct tree_dentry **d)
{
	static const char *const dots[] = {".", ".."};

	*d = s->i < s->n ? s->child[s->i] : NULL;
	if (s->dots < 2 && (!*d || strcmp(dots[s->dots], (*d)->name) < 0)) {
		*name = dots[s->dots];
		*len = (size_t)++s->dots;
		*d = NULL;
		return 1;
	}
	if (!*d)
		return 0;
	s->i++;
	*name = (*d)->name;
	*len = (*d)->len;
	return 1;
}

/* Bytes of a directory: full blocks, and of the last what is used. */
static uint64_t dir_bytes(struct tree_dentry **child, size_t n)
{
	struct names s = {.child = child, .n = n};
	struct tree_dentry *d;
	uint64_t full = 0;
	const char *name;
	size_t used = 0, len;

	while (next_name(&s, &name, &len, &d)) {
		if (used + EROFS_DIRENT + len > EROFS_BLOCK) {
			full += EROFS_BLOCK;
			used = 0;
		}
		used += EROFS_DIRENT + len;
	}
	return full + used;
}

/* The smallest power of two of blocks (as bits) that cuts a file so that every extent fits. */
static unsigned chunk_bits(const struct tree_inode *ino, uint64_t blocks)
{
	unsigned bits = 0;

	if (ino->n == 1 && !ino->ext->lblk && ino->ext->n == blocks) {
		while (bits < 31 && (1ull << bits) < blocks)
			bits++;
		return bits;
	}
	for (bits = 31; bits; bits--) {
		uint64_t mask = (1ull << bits) - 1;
		uint32_t i = 0;

		for (; i < ino->n; i++) {
			const struct tree_extent *e = &ino->ext[i];

			if ((e->lblk & mask) ||
			    ((e->n & mask) && (uint64_t)e->lblk + e->n != blocks))
				break;
		}
		if (i == ino->n && (1ull << bits) / 2 < blocks)
			return bits;
	}
	return 0;
}

static uint64_t file_blocks(const struct tree_inode *ino)
{
	return (ino->size + EROFS_BLOCK - 1) / EROFS_BLOCK;
}

static uint64_t chunks(const struct tree_inode *ino, unsigned bits)
{
	return (file_blocks(ino) + (1ull << bits) - 1) >> bits;
}

/* Bytes behind inode and attributes, in the inode's own block; 0: they have blocks of their own. */
static size_t tail_bytes(const struct tree_inode *ino)
{
	size_t head = EROFS_INODE + xattr_bytes(ino), tail = ino->size % EROFS_BLOCK;

	return head + tail <= EROFS_BLOCK ? tail : 0;
}

static size_t order_room(const struct writer *w)
{
	return w->n && (w->n & (w->n - 1)) == 0 ? w->n * 2 : w->n ? 0 : 1;
}

/* Pieces that continue each other become one, so that equal files have equal indexes. */
static void merge_extents(struct tree_inode *ino)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < ino->n; i++) {
		const struct tree_extent *e = &ino->ext[i];
		struct tree_extent *to = n ? &ino->ext[n - 1] : NULL;

		if (to && e->dev == to->dev && e->lblk == to->lblk + to->n &&
		    e->dblk == to->dblk + to->n)
			to->n += e->n;
		else
			ino->ext[n++] = *e;
	}
	ino->n = n;
}

/* Gives INO its place. Only what lies inline must not cross a block. */
static int place(struct writer *w, struct tree_inode *ino)
{
	size_t head = EROFS_INODE + xattr_bytes(ino), room = order_room(w);
	uint64_t tail = 0;

	if (room)
		w->order = xrealloc(w->order, room * sizeof(*w->order));
	w->order[w->n++] = ino;
	w->next = align(w->next, EROFS_SLOT);
	if (S_ISDIR(ino->mode) || S_ISLNK(ino->mode)) {
		tail = tail_bytes(ino);
		if (tail && w->next % EROFS_BLOCK + head + tail > EROFS_BLOCK)
			w->next = align(w->next, EROFS_BLOCK);
	} else if (S_ISREG(ino->mode) && ino->size) {
		merge_extents(ino);
		head = align(head, 8);
		tail = chunks(ino, chunk_bits(ino, file_blocks(ino))) * 8;
		if (file_blocks(ino) >= EROFS_NULL_BLOCK)
			return failx("a file of %llu bytes is too large",
				     (unsigned long long)ino->size);
	}
	ino->pos = w->next;
	w->next += head + tail;
	if (w->next >= 1ull << 40)
		return failx("the image's metadata are too large");
	return 0;
}

static void forget(struct tree_inode *dir)
{
	dir->pos = 0;
	for (struct tree_dentry *d = dir->first; d; d = d->next) {
		d->ino->pos = 0;
		if (S_ISDIR(d->ino->mode))
			forget(d->ino);
	}
}

/* A directory, then all its children, then what is below each: a listing reads one stretch. */
static int layout(struct writer *w, struct tree_inode *dir)
{
	struct tree_dentry **child = tree_sorted(dir);
	int r = 0;

	for (size_t i = 0; !r && i < dir->n; i++) {
		struct tree_inode *ino = child[i]->ino;

		if (ino->pos)
			continue;
		if (S_ISDIR(ino->mode)) {
			struct tree_dentry **sub = tree_sorted(ino);

			ino->size = dir_bytes(sub, ino->n);
			free(sub);
		}
		r = place(w, ino);
	}
	for (size_t i = 0; !r && i < dir->n; i++)
		if (S_ISDIR(child[i]->ino->mode))
			r = layout(w, child[i]->ino);
	free(child);
	return r;
}

static int flush(struct writer *w)
{
	if (fd_write_all(w->fd, w->out.p, w->out.len) < 0)
		return fail("cannot write the image's metadata");
	w->at += w->out.len;
	buf_clear(&w->out);
	return 0;
}

static int pad_to(struct writer *w, uint64_t pos)
{
	size_t n = (size_t)(pos - w->at - w->out.len);

	memset(buf_room(&w->out, n), 0, n);
	w->out.len += n;
	return w->out.len >= 1 << 20 ? flush(w) : 0;
}

static void put_xattrs(struct buf *b, const struct tree_inode *ino)
{
	char head[12] = {0};
	size_t skip;

	if (!xattr_bytes(ino))
		return;
	buf_add(b, head, sizeof(head));
	for (const struct tree_xattr *x = ino->xattr; x; x = x->next) {
		int index = erofs_prefix(x->bytes, &skip);
		uint16_t vlen = htole16(x->vlen);
		size_t n = 4 + x->nlen - skip + x->vlen;

		if (!index)
			continue;
		buf_chr(b, (char)(x->nlen - skip));
		buf_chr(b, (char)index);
		buf_add(b, &vlen, 2);
		buf_add(b, x->bytes + skip, x->nlen - skip);
		buf_add(b, x->bytes + x->nlen + 1, x->vlen);
		buf_add(b, head, align(n, 4) - n);
	}
}

static void put_index(struct buf *b, uint16_t device, uint32_t block)
{
	struct {
		uint16_t hi, device;
		uint32_t lo;
	} e = {.device = htole16(device), .lo = htole32(block)};

	buf_add(b, &e, sizeof(e));
}

static void put_chunks(const struct writer *w, struct buf *b, const struct tree_inode *ino,
		       unsigned bits)
{
	uint64_t n = chunks(ino, bits);
	uint32_t i = 0;

	for (uint64_t c = 0; c < n; c++) {
		uint64_t lblk = c << bits;
		const struct tree_extent *e;

		while (i < ino->n && (uint64_t)ino->ext[i].lblk + ino->ext[i].n <= lblk)
			i++;
		e = i < ino->n && ino->ext[i].lblk <= lblk ? &ino->ext[i] : NULL;
		put_index(b, e ? w->id[e->dev] : 0,
			  e ? e->dblk + (uint32_t)(lblk - e->lblk) : EROFS_NULL_BLOCK);
	}
}

/* One block of a directory from the entries collected: the table, then the names. */
static void put_dir_block(struct buf *b, struct buf *table, struct buf *names, size_t room)
{
	size_t used = table->len + names->len;
	unsigned count = (unsigned)(table->len / EROFS_DIRENT);

	for (unsigned i = 0; i < count; i++) {
		uint16_t off;
		char *at = table->p + i * EROFS_DIRENT + 8;

		memcpy(&off, at, 2);
		off = htole16((uint16_t)(off + table->len));
		memcpy(at, &off, 2);
	}
	buf_add(b, table->p, table->len);
	buf_add(b, names->p, names->len);
	memset(buf_room(b, room - used), 0, room - used);
	b->len += room - used;
	buf_clear(table);
	buf_clear(names);
}

static void put_dir(struct buf *b, const struct tree_inode *dir)
{
	struct tree_dentry **child = tree_sorted(dir), *d;
	struct names s = {.child = child, .n = dir->n};
	autobuf table = BUF_INIT;
	autobuf names = BUF_INIT;
	const char *name;
	size_t len;

	while (next_name(&s, &name, &len, &d)) {
		const struct tree_inode *to = d ? d->ino : len == 1 ? dir : dir->up;
		uint64_t nid = htole64(to->pos / EROFS_SLOT);
		uint16_t off;

		if (table.len + EROFS_DIRENT + names.len + len > EROFS_BLOCK)
			put_dir_block(b, &table, &names, EROFS_BLOCK);
		off = (uint16_t)names.len; /* the table's length is added when it is known */
		buf_add(&table, &nid, 8);
		buf_add(&table, &off, 2);
		buf_chr(&table, (char)erofs_type(to->mode));
		buf_chr(&table, 0);
		buf_add(&names, name, len);
	}
	put_dir_block(b, &table, &names, table.len + names.len);
	free(child);
}

/* Links of a directory: itself, its name, and ".." of each directory in it. */
static uint32_t dir_links(const struct tree_inode *dir)
{
	uint32_t n = 2;

	for (const struct tree_dentry *d = dir->first; d; d = d->next)
		n += S_ISDIR(d->ino->mode);
	return n;
}

/* The body of a directory or link: its first blocks go to FAR when it is not inline. */
static uint32_t body_format(struct writer *w, const struct tree_inode *ino, struct erofs_inode *di)
{
	uint64_t blocks = ino->size / EROFS_BLOCK;
	size_t tail = tail_bytes(ino);
	uint16_t layout_ = tail ? EROFS_FLAT_INLINE : EROFS_FLAT_PLAIN;

	if (!tail)
		blocks = file_blocks(ino);
	di->format = (uint16_t)(di->format | layout_ << 1);
	di->u = blocks ? (uint32_t)w->block : EROFS_NULL_BLOCK;
	w->block += blocks;
	return (uint32_t)tail;
}

static int put_inode(struct writer *w, struct tree_inode *ino, struct buf *far)
{
	struct erofs_inode di = {
		.format = 1, /* extended */
		.mode = (uint16_t)ino->mode,
		.size = S_ISREG(ino->mode) || S_ISDIR(ino->mode) || S_ISLNK(ino->mode) ? ino->size
										       : 0,
		.uid = htole32(ino->uid),
		.gid = htole32(ino->gid),
		.mtime = htole64((uint64_t)ino->mtime),
		.nsec = htole32(ino->nsec),
		.nlink = htole32(S_ISDIR(ino->mode) ? dir_links(ino) : ino->names),
		.ino = htole32((uint32_t)(ino->pos / EROFS_SLOT)),
	};
	size_t xattrs = xattr_bytes(ino), tail = 0;
	autobuf body = BUF_INIT;
	unsigned bits = 0;

	if (xattrs)
		di.xattr_icount = (uint16_t)(1 + (xattrs - 12) / 4);
	if (S_ISDIR(ino->mode) || S_ISLNK(ino->mode)) {
		tail = body_format(w, ino, &di);
		if (S_ISDIR(ino->mode))
			put_dir(&body, ino);
		else
			buf_add(&body, ino->target, (size_t)ino->size);
	} else if (S_ISREG(ino->mode) && ino->size) {
		bits = chunk_bits(ino, file_blocks(ino));
		di.format |= EROFS_CHUNK_BASED << 1;
		di.u = bits | EROFS_CHUNK_INDEXES;
	} else if (!S_ISREG(ino->mode)) {
		di.u = ino->rdev;
	}
	di.format = htole16(di.format);
	di.mode = htole16(di.mode);
	di.size = htole64(di.size);
	di.u = htole32(di.u);
	di.xattr_icount = htole16(di.xattr_icount);
	if (pad_to(w, ino->pos) < 0)
		return -1;
	buf_add(&w->out, &di, sizeof(di));
	put_xattrs(&w->out, ino);
	if (S_ISREG(ino->mode) && ino->size) {
		if (pad_to(w, align(w->at + w->out.len, 8)) < 0)
			return -1;
		put_chunks(w, &w->out, ino, bits);
	}
	buf_add(far, body.p, body.len - tail);
	memset(buf_room(far, EROFS_BLOCK), 0, align(far->len, EROFS_BLOCK) - far->len);
	far->len = align(far->len, EROFS_BLOCK);
	buf_add(&w->out, body.p ? body.p + (body.len - tail) : "", tail);
	return 0;
}

static int write_super(struct writer *w)
{
	struct erofs_super sb = {
		.magic = htole32(EROFS_MAGIC),
		.compat = htole32(EROFS_COMPAT),
		.blkszbits = EROFS_BLOCK_BITS,
		.root_nid = htole16((uint16_t)(w->root->pos / EROFS_SLOT)),
		.inos = htole64(w->n),
		.blocks = htole32((uint32_t)(w->at / EROFS_BLOCK)),
		.incompat = htole32(EROFS_INCOMPAT),
		.extra_devices = htole16((uint16_t)w->nslot),
		.devt_slotoff = htole16(EROFS_DEV_AT / 128),
	};
	size_t slots = w->nslot * sizeof(*w->slot);
	unsigned char first[EROFS_BLOCK];

	if (w->nslot && pwrite(w->fd, w->slot, slots, EROFS_DEV_AT) != (ssize_t)slots)
		return fail("cannot write the image's metadata");
	if (pread(w->fd, first, EROFS_BLOCK, 0) != EROFS_BLOCK)
		return fail("cannot read back the image's metadata");
	memcpy(first + EROFS_SB_AT, &sb, sizeof(sb));
	sb.checksum = htole32(erofs_checksum(first + EROFS_SB_AT, EROFS_BLOCK - EROFS_SB_AT));
	memcpy(first + EROFS_SB_AT, &sb, sizeof(sb));
	if (pwrite(w->fd, first, EROFS_BLOCK, 0) != EROFS_BLOCK)
		return fail("cannot write the image's metadata");
	return 0;
}

static int write_all(struct writer *w)
{
	autobuf far = BUF_INIT;

	w->block = align(w->next, EROFS_BLOCK) / EROFS_BLOCK;
	for (size_t i = 0; i < w->n; i++)
		if (put_inode(w, w->order[i], &far) < 0)
			return -1;
	if (pad_to(w, align(w->next, EROFS_BLOCK)) < 0 || flush(w) < 0)
		return -1;
	buf_add(&w->out, far.p, far.len);
	return flush(w);
}

static void find_used(struct writer *w, const struct tree_inode *dir)
{
	for (const struct tree_dentry *d = dir->first; d; d = d->next) {
		const struct tree_inode *ino = d->ino;

		if (S_ISDIR(ino->mode))
			find_used(w, ino);
		for (uint32_t i = 0; S_ISREG(ino->mode) && i < ino->n; i++)
			w->id[ino->ext[i].dev] = 1;
	}
}

/* Numbers the blobs in use in the order of the tree's list, and fills the device table. */
static int number_devices(struct writer *w, const struct tree *t, struct erofs_stats *stats)
{
	uint32_t n;

	w->blob = tree_blobs(t, &n);
	w->id = xcalloc(n + 1, sizeof(*w->id));
	w->slot = xcalloc(n + 1, sizeof(*w->slot));
	stats->dev = xcalloc(n + 1, sizeof(*stats->dev));
	find_used(w, w->root);
	for (uint32_t i = 0; i < n; i++) {
		if (!w->id[i])
			continue;
		if (w->blob[i].blocks >= EROFS_NULL_BLOCK)
			return failx("the image's data are too large");
		memcpy(w->slot[w->nslot].tag, w->blob[i].sha, sizeof(w->slot->tag));
		w->slot[w->nslot].blocks = htole32((uint32_t)w->blob[i].blocks);
		stats->dev[w->nslot] = w->blob[i];
		w->id[i] = (uint16_t)++w->nslot;
	}
	stats->ndev = w->nslot;
	w->next = EROFS_DEV_AT + w->nslot * sizeof(*w->slot);
	return 0;
}

int erofs_write(int fd, const struct tree *t, struct erofs_stats *stats)
{
	struct writer w = {.fd = fd, .root = tree_root(t)};
	struct tree_dentry **child = tree_sorted(w.root);
	int r = -1;

	*stats = (struct erofs_stats){0};
	forget(w.root);
	w.root->size = dir_bytes(child, w.root->n);
	free(child);
	if (!number_devices(&w, t, stats) && !place(&w, w.root) && !layout(&w, w.root) &&
	    !write_all(&w))
		r = write_super(&w);
	stats->inodes = w.n;
	stats->bytes = w.at;
	buf_free(&w.out);
	free(w.order);
	free(w.id);
	free(w.slot);
	return r;
}
