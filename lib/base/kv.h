/*
 * Keys and values, in two spellings of the same thing:
 *   a file   "key = value" a line, '#' comments, no sections (spec, state, end, sbx.conf)
 *   a line   "key=value" pairs between tabs (log records, messages to sbx-keep, status records)
 * Values are escaped: \t \n \r \\ and \0 stand for these bytes, \s for a blank (a file's parser trims
 * plain ones around a value); all others stand for themselves.
 * A key may come again (lists); order is kept.
 */
#ifndef BASE_KV_H
#define BASE_KV_H
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

struct kv_pair {
	const char *key;
	char *val;  /* unescaped, NUL-terminated */
	size_t len; /* of val: it may hold NULs */
	int line;   /* where it stood, from 1 */
};

struct kv {
	struct buf text;
	struct kv_pair *pair;
	size_t n;
};

#define autokv __attribute__((cleanup(kv_free))) struct kv
void kv_free(struct kv *kv);

/* Both copy TEXT. Errors name SOURCE and the line. */
int kv_parse_file(struct kv *kv, const char *source, const char *text, size_t len);
int kv_parse_line(struct kv *kv, const char *source, const char *text, size_t len);
/* Reads and parses one "key = value" file of at most 1 MiB. ENOENT is kept in errno. */
int kv_load(struct kv *kv, int at, const char *path);

const char *kv_get(const struct kv *kv, const char *key); /* the last of that name, or NULL */
const char *kv_str(const struct kv *kv, const char *key, const char *absent);
uint64_t kv_u64(const struct kv *kv, const char *key, uint64_t absent); /* also if malformed */

void kv_escape(struct buf *b, const char *s, size_t n);
size_t kv_unescape(char *s, size_t n); /* in place; returns the new length, NUL-terminates */

/* Append one pair; in a line a tab goes before it unless B is empty or ends a line. */
void kv_put_file(struct buf *b, const char *key, const char *val);
void kv_put_line(struct buf *b, const char *key, const char *val);
void kv_put_bytes(struct buf *b, const char *key, const char *val, size_t n);
void kv_put_num(struct buf *b, const char *key, uint64_t v);
#endif
