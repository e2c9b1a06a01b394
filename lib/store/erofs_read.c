/*
 * The whole file is read into memory first: what is checked then cannot change. Linear in its size
 * whatever it says: every inode claims the bytes it is made of, and all claims together must fit
 * into the file, so nothing is looked at twice.
 */
#include "store/erofs_read.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/die.h"
#include "store/erofs_disk.h"
#include "store/tree_dir.h"

static const uint64_t META_MAX = 4ull << 30;

struct reader {
	unsigned char *p; /* the file: SIZE bytes, whole blocks */
	uint64_t size;
	uint64_t left;		 /* bytes that no inode has claimed yet */
	uint64_t first;		 /* no inode lies before it */
	struct tree_inode **ino; /* by number: what has been read */
	struct tree *t;
	const struct tree_blob *dev;
	size_t ndev;
};

/* An inode on disk, and where what belongs to it lies. */
struct place {
	struct erofs_inode di; /* in the host's order */
	uint64_t nid, tail;    /* number; byte behind inode and attributes */
	unsigned layout;
};

static int damaged(const char *what)
{
	errno = EINVAL;
	failx("the image's metadata are damaged: %s", what);
	return -1;
}

static int claim(struct reader *r, uint64_t n)
{
	if (n > r->left)
		return damaged("parts overlap");
	r->left -= n;
	return 0;
}

static int inside(const struct reader *r, uint64_t at, uint64_t n)
{
	return at <= r->size && n <= r->size - at;
}

static uint16_t get16(const unsigned char *p)
{
	return (uint16_t)(p[0] | p[1] << 8);
}

static uint32_t get32(const unsigned char *p)
{
	return get16(p) | (uint32_t)get16(p + 2) << 16;
}

static uint64_t get64(const unsigned char *p)
{
	return get32(p) | (uint64_t)get32(p + 4) << 32;
}

static int load(struct reader *r, int fd)
{
	struct stat st;
	ssize_t n;

	if (fstat(fd, &st) < 0) {
		fail("cannot read the image's metadata");
		return -1;
	}
	if (!S_ISREG(st.st_mode) || st.st_size < EROFS_BLOCK || st.st_size % EROFS_BLOCK ||
	    (uint64_t)st.st_size > META_MAX)
		return damaged("their size");
	r->size = r->left = (uint64_t)st.st_size;
	r->p = malloc(r->size);
	if (!r->p) {
		fail("cannot read %llu bytes of metadata", (unsigned long long)r->size);
		return -1;
	}
	for (uint64_t at = 0; at < r->size; at += (uint64_t)n) {
		n = pread(fd, r->p + at, r->size - at, (off_t)at);
		if (n < 0 && errno == EINTR) {
			n = 0;
		} else if (n <= 0) {
			if (n < 0)
				fail("cannot read the image's metadata");
			else
				damaged("they end too early");
			return -1;
		}
	}
	r->ino = calloc(r->size / EROFS_SLOT, sizeof(*r->ino));
	if (r->ino)
		return 0;
	fail("cannot read %llu bytes of metadata", (unsigned long long)r->size);
	return -1;
}

static int check_devices(struct reader *r, const struct erofs_super *sb)
{
	r->first = EROFS_DEV_AT + r->ndev * sizeof(struct erofs_device);
	if (r->ndev > TREE_BLOBS || le16toh(sb->extra_devices) != r->ndev ||
	    le16toh(sb->devt_slotoff) != EROFS_DEV_AT / 128 || r->first > r->size)
		return damaged("the number of devices");
	for (size_t i = 0; i < r->ndev; i++) {
		struct erofs_device slot;
		int64_t index;

		memcpy(&slot, r->p + EROFS_DEV_AT + i * sizeof(slot), sizeof(slot));
		if (memcmp(slot.tag, r->dev[i].sha, sizeof(slot.tag)) != 0 ||
		    le32toh(slot.blocks) != r->dev[i].blocks || slot.uniaddr)
			return damaged("a device is not the one it should be");
		index = tree_blob(r->t, r->dev[i].sha, r->dev[i].blocks);
		if (index < 0)
			return -1;
		if ((size_t)index != i)
			return damaged("a device comes twice");
	}
	return claim(r, r->first);
}

static int check_super(struct reader *r, struct erofs_super *sb)
{
	memcpy(sb, r->p + EROFS_SB_AT, sizeof(*sb));
	if (le32toh(sb->magic) != EROFS_MAGIC)
		return damaged("no superblock");
	if (le32toh(sb->checksum) != erofs_checksum(r->p + EROFS_SB_AT, EROFS_BLOCK - EROFS_SB_AT))
		return damaged("the checksum");
	if (le32toh(sb->compat) != EROFS_COMPAT || le32toh(sb->incompat) != EROFS_INCOMPAT ||
	    sb->blkszbits != EROFS_BLOCK_BITS || sb->extslots || sb->build_time || sb->build_nsec ||
	    sb->meta_blkaddr || sb->xattr_blkaddr || sb->compr ||
	    le32toh(sb->blocks) != r->size / EROFS_BLOCK)
		return damaged("a format that is not ours");
	return check_devices(r, sb);
}

static int one_xattr(const unsigned char *p, size_t room, struct tree_xattr **out, size_t *used)
{
	const char *prefix = erofs_prefix_text(p[1]);
	size_t nlen = p[0], vlen = get16(p + 2), plen = prefix ? strlen(prefix) : 0;
	struct tree_xattr *x;

	*used = (4 + nlen + vlen + 3) & ~(size_t)3;
	if (!prefix || *used > room || plen + nlen > 255 || memchr(p + 4, 0, nlen))
		return damaged("an extended attribute");
	x = xmalloc(sizeof(*x) + plen + nlen + 1 + vlen);
	*x = (struct tree_xattr){.nlen = (uint8_t)(plen + nlen), .vlen = (uint16_t)vlen};
	memcpy(x->bytes, prefix, plen);
	memcpy(x->bytes + plen, p + 4, nlen);
	x->bytes[plen + nlen] = 0;
	memcpy(x->bytes + plen + nlen + 1, p + 4 + nlen, vlen);
	*out = x;
	return 0;
}

/* N bytes at P; they are sorted, so the list is made from its front to its end. */
static int read_xattrs(struct tree_inode *ino, const unsigned char *p, size_t n)
{
	static const unsigned char head[EROFS_XATTR_HEAD];
	struct tree_xattr **end = &ino->xattr, *last = NULL;
	size_t sum = 0, used;

	if (memcmp(p, head, sizeof(head)) != 0)
		return damaged("shared extended attributes");
	for (p += sizeof(head), n -= sizeof(head); n; p += used, n -= used) {
		if (one_xattr(p, n, end, &used) < 0)
			return -1;
		sum += (*end)->nlen + (size_t)(*end)->vlen + (last ? 8 : 0);
		if (sum > TREE_XATTRS || (last && strcmp(last->bytes, (*end)->bytes) >= 0))
			return damaged("extended attributes too large or out of order");
		last = *end;
		end = &last->next;
	}
	return 0;
}

static int get_place(struct reader *r, uint64_t nid, struct place *pl)
{
	struct erofs_inode *di = &pl->di;
	uint64_t at = nid * EROFS_SLOT;

	if (nid >= r->size / EROFS_SLOT || at < r->first || !inside(r, at, EROFS_INODE))
		return damaged("the number of an inode");
	memcpy(di, r->p + at, sizeof(*di));
	di->format = le16toh(di->format);
	di->xattr_icount = le16toh(di->xattr_icount);
	di->mode = le16toh(di->mode);
	di->size = le64toh(di->size);
	di->u = le32toh(di->u);
	pl->nid = nid;
	pl->tail = at + EROFS_INODE;
	if (di->xattr_icount)
		pl->tail += EROFS_XATTR_HEAD + (di->xattr_icount - 1) * 4ull;
	pl->layout = di->format >> 1;
	if (!(di->format & 1) || !erofs_type(di->mode) || le32toh(di->ino) != nid ||
	    le32toh(di->nsec) >= 1000000000 || !inside(r, at, pl->tail - at))
		return damaged("an inode");
	return claim(r, pl->tail - at);
}

/* Where block I of a directory or link lies: LEN bytes of it. NULL after fail(). */
static const unsigned char *body(struct reader *r, const struct place *pl, uint64_t i, size_t *len)
{
	uint64_t full = pl->di.size / EROFS_BLOCK, at;

	*len = i < full ? EROFS_BLOCK : (size_t)(pl->di.size % EROFS_BLOCK);
	at = i == full && pl->layout == EROFS_FLAT_INLINE ? pl->tail : (pl->di.u + i) * EROFS_BLOCK;
	if ((pl->layout != EROFS_FLAT_INLINE && pl->layout != EROFS_FLAT_PLAIN) ||
	    !inside(r, at, *len)) {
		damaged("a directory or link lies outside");
		return NULL;
	}
	return claim(r, *len) < 0 ? NULL : r->p + at;
}

static int read_link(struct reader *r, const struct place *pl, struct tree_inode *ino)
{
	const unsigned char *p;
	size_t len;

	if (!pl->di.size || pl->di.size > TREE_TARGET)
		return damaged("the length of a symbolic link");
	p = body(r, pl, 0, &len);
	if (!p)
		return -1;
	if (memchr(p, 0, len))
		return damaged("a symbolic link");
	ino->size = len;
	ino->target = xmalloc(len + 1);
	memcpy(ino->target, p, len);
	ino->target[len] = 0;
	return 0;
}

static void add_piece(struct tree_inode *ino, struct tree_extent e)
{
	struct tree_extent *last = ino->n ? &ino->ext[ino->n - 1] : NULL;

	if (last && last->dev == e.dev && last->lblk + last->n == e.lblk &&
	    last->dblk + last->n == e.dblk)
		last->n += e.n;
	else
		tree_add_extent(ino, e);
}

static int read_chunks(struct reader *r, const struct place *pl, struct tree_inode *ino)
{
	uint64_t blocks = ino->size / EROFS_BLOCK + !!(ino->size % EROFS_BLOCK), n, at;
	unsigned bits = pl->di.u & 31;

	at = (pl->tail + 7) & ~7ull;
	n = (blocks + (1ull << bits) - 1) >> bits;
	if (pl->layout != EROFS_CHUNK_BASED || pl->di.u != (bits | EROFS_CHUNK_INDEXES) ||
	    blocks >= EROFS_NULL_BLOCK || !inside(r, at, n * 8))
		return damaged("the size of a file");
	if (claim(r, n * 8) < 0)
		return -1;
	for (uint64_t i = 0; i < n; i++) {
		const unsigned char *p = r->p + at + i * 8;
		uint64_t lblk = i << bits, len = blocks - lblk;
		uint32_t dblk = get32(p + 4), dev = get16(p + 2);

		if (len > 1ull << bits)
			len = 1ull << bits;
		if (dblk == EROFS_NULL_BLOCK && !dev && !get16(p))
			continue;
		if (get16(p) || !dev || dev > r->ndev || dblk + len > r->dev[dev - 1].blocks)
			return damaged("data of a file lie outside their device");
		add_piece(ino, (struct tree_extent){.lblk = (uint32_t)lblk,
						    .n = (uint32_t)len,
						    .dblk = dblk,
						    .dev = dev - 1});
	}
	return 0;
}

/* Fills INO, but for what is in a directory. */
static int fill(struct reader *r, const struct place *pl, struct tree_inode *ino)
{
	const struct erofs_inode *di = &pl->di;
	uint64_t at = pl->nid * EROFS_SLOT + EROFS_INODE;

	ino->mode = di->mode;
	ino->uid = le32toh(di->uid);
	ino->gid = le32toh(di->gid);
	ino->mtime = (int64_t)le64toh(di->mtime);
	ino->nsec = le32toh(di->nsec);
	if (di->xattr_icount && read_xattrs(ino, r->p + at, (size_t)(pl->tail - at)) < 0)
		return -1;
	if (S_ISDIR(ino->mode))
		return 0;
	if (S_ISLNK(ino->mode))
		return read_link(r, pl, ino);
	if (S_ISREG(ino->mode) && di->size) {
		ino->size = di->size;
		return read_chunks(r, pl, ino);
	}
	if (pl->layout != EROFS_FLAT_PLAIN || di->size)
		return damaged("a file without content has some");
	if (!S_ISREG(ino->mode))
		ino->rdev = di->u;
	return 0;
}

struct entry {
	uint64_t nid;
	const char *name;
	size_t len;
	unsigned type;
};

/* Entry I of a block of LEN bytes with COUNT entries. */
static int get_entry(const unsigned char *p, size_t len, unsigned count, unsigned i,
		     struct entry *e)
{
	const unsigned char *d = p + (size_t)i * EROFS_DIRENT;
	size_t off = get16(d + 8), end = i + 1 < count ? get16(d + EROFS_DIRENT + 8) : len;

	if (off < (size_t)count * EROFS_DIRENT || off >= end || end > len)
		return damaged("the names of a directory");
	e->nid = get64(d);
	e->type = d[10];
	e->name = (const char *)p + off;
	e->len = end - off;
	if (i + 1 == count)
		e->len = strnlen(e->name, e->len);
	if (!e->len || e->len > 255 || memchr(e->name, 0, e->len) || memchr(e->name, '/', e->len))
		return damaged("a name in a directory");
	return 0;
}

static int dots(const struct entry *e)
{
	return e->name[0] == '.' && (e->len == 1 || (e->len == 2 && e->name[1] == '.'));
}

static int read_dir(struct reader *r, const struct place *pl, struct tree_inode *dir, uint64_t up);

/* A name that is not a dot: its inode, read at its first name. */
static int add_entry(struct reader *r, const struct place *pl, struct tree_inode *dir,
		     const struct entry *e)
{
	struct place to;
	struct tree_inode *ino;

	if (tree_room(r->t, dir, e->name, e->len) < 0)
		return -1;
	ino = e->nid < r->size / EROFS_SLOT ? r->ino[e->nid] : NULL;
	if (ino) {
		if (S_ISDIR(ino->mode) || erofs_type(ino->mode) != e->type)
			return damaged("a directory has two names");
		tree_attach(r->t, dir, e->name, e->len, ino);
		return 0;
	}
	if (get_place(r, e->nid, &to) < 0)
		return -1;
	if (erofs_type(to.di.mode) != e->type)
		return damaged("the type of a name");
	r->ino[e->nid] = ino = tree_new_inode(to.di.mode);
	tree_attach(r->t, dir, e->name, e->len, ino);
	if (fill(r, &to, ino) < 0)
		return -1;
	return S_ISDIR(ino->mode) ? read_dir(r, &to, ino, pl->nid) : 0;
}

/* Names ascend through all blocks, so none comes twice. */
static int ascends(struct entry *last, const struct entry *e)
{
	size_t n = last->len < e->len ? last->len : e->len;
	int c = last->name ? memcmp(last->name, e->name, n) : -1;

	if (c > 0 || (!c && last->len >= e->len))
		return damaged("the names of a directory are not sorted");
	*last = *e;
	return 0;
}

/* Depth is bounded by TREE_DEPTH (tree_room). */
static int read_dir(struct reader *r, const struct place *pl, struct tree_inode *dir, uint64_t up)
{
	uint64_t blocks = pl->di.size / EROFS_BLOCK + !!(pl->di.size % EROFS_BLOCK);
	struct entry last = {0}, e;
	unsigned ndots = 0;
	size_t len;

	for (uint64_t b = 0; b < blocks; b++) {
		const unsigned char *p = body(r, pl, b, &len);
		unsigned count = p && len >= EROFS_DIRENT ? get16(p + 8) / EROFS_DIRENT : 0;

		if (!p)
			return -1;
		if (!count || (size_t)count * EROFS_DIRENT >= len || get16(p + 8) % EROFS_DIRENT)
			return damaged("a block of a directory");
		for (unsigned i = 0; i < count; i++) {
			if (get_entry(p, len, count, i, &e) < 0 || ascends(&last, &e) < 0)
				return -1;
			if (!dots(&e)) {
				if (add_entry(r, pl, dir, &e) < 0)
					return -1;
				continue;
			}
			if (e.nid != (e.len == 1 ? pl->nid : up) || e.type != erofs_type(S_IFDIR))
				return damaged("the dots of a directory");
			ndots++;
		}
	}
	return ndots == 2 ? 0 : damaged("a directory without its dots");
}

static int read_root(struct reader *r, uint64_t nid)
{
	struct tree_inode *root = tree_root(r->t);
	struct place pl;

	if (get_place(r, nid, &pl) < 0)
		return -1;
	if (!S_ISDIR(pl.di.mode))
		return damaged("the root is no directory");
	r->ino[nid] = root;
	return fill(r, &pl, root) < 0 ? -1 : read_dir(r, &pl, root, nid);
}

struct tree *erofs_read(int fd, const struct tree_blob *dev, size_t ndev)
{
	struct reader r = {.dev = dev, .ndev = ndev, .t = tree_new()};
	struct erofs_super sb;

	if (load(&r, fd) < 0 || check_super(&r, &sb) < 0 ||
	    read_root(&r, le16toh(sb.root_nid)) < 0) {
		tree_free(r.t);
		r.t = NULL;
	}
	free(r.p);
	free(r.ino);
	return r.t;
}
