#include "base/buf.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"

_Noreturn void xnomem(void)
{
	dief(EX_SBX, "out of memory");
}

void *xmalloc(size_t n)
{
	void *p = malloc(n ? n : 1);

	if (!p)
		xnomem();
	return p;
}

void *xcalloc(size_t n, size_t size)
{
	void *p = calloc(n ? n : 1, size ? size : 1);

	if (!p)
		xnomem();
	return p;
}

void *xrealloc(void *old, size_t n)
{
	void *p = realloc(old, n ? n : 1);

	if (!p)
		xnomem();
	return p;
}

char *xstrdup(const char *s)
{
	size_t n = strlen(s) + 1;

	return memcpy(xmalloc(n), s, n);
}

char *xasprintf(const char *fmt, ...)
{
	struct buf b = BUF_INIT;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	if (n < 0)
		xnomem();
	va_start(ap, fmt);
	vsnprintf(buf_room(&b, (size_t)n), (size_t)n + 1, fmt, ap);
	va_end(ap);
	return b.p;
}

void buf_free(struct buf *b)
{
	free(b->p);
	memset(b, 0, sizeof(*b));
}

void buf_clear(struct buf *b)
{
	b->len = 0;
	if (b->p)
		b->p[0] = 0;
}

char *buf_room(struct buf *b, size_t n)
{
	if (n >= SIZE_MAX / 2 - b->len)
		xnomem();
	if (b->len + n + 1 > b->cap) {
		size_t cap = b->cap ? b->cap * 2 : 64;

		if (cap < b->len + n + 1)
			cap = b->len + n + 1;
		b->p = xrealloc(b->p, cap);
		b->cap = cap;
	}
	b->p[b->len + n] = 0;
	return b->p + b->len;
}

void buf_add(struct buf *b, const void *p, size_t n)
{
	char *to = buf_room(b, n);

	if (n)
		memcpy(to, p, n);
	b->len += n;
}

void buf_str(struct buf *b, const char *s)
{
	buf_add(b, s, strlen(s));
}

void buf_chr(struct buf *b, char c)
{
	buf_add(b, &c, 1);
}

void buf_fmt(struct buf *b, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	if (n < 0)
		xnomem();
	va_start(ap, fmt);
	vsnprintf(buf_room(b, (size_t)n), (size_t)n + 1, fmt, ap);
	va_end(ap);
	b->len += (size_t)n;
}

const char *buf_cstr(const struct buf *b)
{
	return b->p ? b->p : "";
}
