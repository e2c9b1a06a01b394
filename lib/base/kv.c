#include "base/kv.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/fd.h"

void kv_free(struct kv *kv)
{
	buf_free(&kv->text);
	free(kv->pair);
	memset(kv, 0, sizeof(*kv));
}

void kv_escape(struct buf *b, const char *s, size_t n)
{
	for (; n; s++, n--) {
		switch (*s) {
		case '\t':
			buf_add(b, "\\t", 2);
			break;
		case '\n':
			buf_add(b, "\\n", 2);
			break;
		case '\r':
			buf_add(b, "\\r", 2);
			break;
		case '\\':
			buf_add(b, "\\\\", 2);
			break;
		case 0:
			buf_add(b, "\\0", 2);
			break;
		default:
			buf_chr(b, *s);
		}
	}
}

size_t kv_unescape(char *s, size_t n)
{
	char *to = s, *end = s + n;

	for (; s < end; s++) {
		if (*s != '\\' || s + 1 == end) {
			*to++ = *s;
			continue;
		}
		switch (*++s) {
		case 't':
			*to++ = '\t';
			break;
		case 'n':
			*to++ = '\n';
			break;
		case 'r':
			*to++ = '\r';
			break;
		case 's':
			*to++ = ' ';
			break;
		case '0':
			*to++ = 0;
			break;
		default:
			*to++ = *s;
		}
	}
	*to = 0;
	return (size_t)(to - (end - n));
}

static void add(struct kv *kv, char *key, char *val, size_t len, int line)
{
	if (!kv->n || (kv->n >= 16 && !(kv->n & (kv->n - 1))))
		kv->pair = xrealloc(kv->pair, (kv->n ? kv->n * 2 : 16) * sizeof(*kv->pair));
	kv->pair[kv->n++] = (struct kv_pair){.key = key, .val = val, .len = len, .line = line};
}

static char *trim(char *s, char *end)
{
	while (end > s && (end[-1] == ' ' || end[-1] == '\t' || end[-1] == '\r'))
		end--;
	*end = 0;
	while (*s == ' ' || *s == '\t')
		s++;
	return s;
}

/* The text is kv->text already; it is taken apart in place. */
static int parse_file(struct kv *kv, const char *source)
{
	char *p = kv->text.p, *end = p + kv->text.len;
	int line = 0;

	while (p < end) {
		char *nl = memchr(p, '\n', (size_t)(end - p));
		char *stop = nl ? nl : end;
		char *eq, *val;

		line++;
		*stop = 0;
		if (strlen(p) != (size_t)(stop - p))
			return failx("%s:%d: a NUL byte", source, line);
		p = trim(p, stop);
		if (*p && *p != '#') {
			eq = strchr(p, '=');
			if (!eq)
				return failx("%s:%d: expected 'key = value'", source, line);
			val = trim(eq + 1, eq + 1 + strlen(eq + 1));
			if (!*trim(p, eq))
				return failx("%s:%d: expected 'key = value'", source, line);
			add(kv, p, val, kv_unescape(val, strlen(val)), line);
		}
		p = stop + 1;
	}
	return 0;
}

int kv_parse_file(struct kv *kv, const char *source, const char *text, size_t len)
{
	kv_free(kv);
	buf_add(&kv->text, text, len);
	return parse_file(kv, source);
}

int kv_parse_line(struct kv *kv, const char *source, const char *text, size_t len)
{
	char *p, *end;

	kv_free(kv);
	if (len && text[len - 1] == '\n')
		len--;
	buf_add(&kv->text, text, len);
	p = kv->text.p;
	if (memchr(text, 0, len) || memchr(text, '\n', len))
		return failx("%s: a NUL byte or a line end inside a record", source);
	for (end = p + len; p < end;) {
		char *tab = memchr(p, '\t', (size_t)(end - p));
		char *stop = tab ? tab : end;
		char *eq;

		*stop = 0;
		eq = strchr(p, '=');
		if (!eq || eq == p)
			return failx("%s: expected 'key=value', found '%.40s'", source, p);
		*eq = 0;
		add(kv, p, eq + 1, kv_unescape(eq + 1, (size_t)(stop - eq - 1)), 1);
		p = stop + 1;
	}
	return 0;
}

int kv_load(struct kv *kv, int at, const char *path)
{
	kv_free(kv);
	if (fd_read_file(at, path, 1 << 20, &kv->text) < 0)
		return -1;
	return parse_file(kv, path);
}

const char *kv_get(const struct kv *kv, const char *key)
{
	for (size_t i = kv->n; i--;)
		if (!strcmp(kv->pair[i].key, key))
			return kv->pair[i].val;
	return NULL;
}

const char *kv_str(const struct kv *kv, const char *key, const char *absent)
{
	const char *v = kv_get(kv, key);

	return v ? v : absent;
}

uint64_t kv_u64(const struct kv *kv, const char *key, uint64_t absent)
{
	const char *v = kv_get(kv, key);
	char *end;
	unsigned long long n;

	if (!v || *v < '0' || *v > '9')
		return absent;
	errno = 0;
	n = strtoull(v, &end, 10);
	return errno || *end ? absent : n;
}

void kv_put_file(struct buf *b, const char *key, const char *val)
{
	size_t n = strlen(val);
	int first = n && val[0] == ' ', last = n > 1 && val[n - 1] == ' ';

	buf_str(b, key);
	buf_add(b, " = ", 3);
	/* The parser trims plain blanks. */
	if (first)
		buf_add(b, "\\s", 2);
	kv_escape(b, val + first, n - (size_t)first - (size_t)last);
	if (last)
		buf_add(b, "\\s", 2);
	buf_chr(b, '\n');
}

void kv_put_bytes(struct buf *b, const char *key, const char *val, size_t n)
{
	if (b->len && b->p[b->len - 1] != '\n')
		buf_chr(b, '\t');
	buf_str(b, key);
	buf_chr(b, '=');
	kv_escape(b, val, n);
}

void kv_put_line(struct buf *b, const char *key, const char *val)
{
	kv_put_bytes(b, key, val, strlen(val));
}

void kv_put_num(struct buf *b, const char *key, uint64_t v)
{
	char s[24];

	kv_put_bytes(b, key, s, (size_t)snprintf(s, sizeof(s), "%llu", (unsigned long long)v));
}
