/* A growable byte buffer, always NUL-terminated after its last byte. */
#ifndef BASE_BUF_H
#define BASE_BUF_H
#include <stddef.h>

struct buf {
	char *p;    /* NULL only while nothing was ever added */
	size_t len; /* without the NUL */
	size_t cap;
};

/* clang-format off */
#define BUF_INIT {0}
/* clang-format on */
#define autobuf __attribute__((cleanup(buf_free))) struct buf

/* Out of memory ends the process (there is no sensible way on for a small tool): no errors. */
_Noreturn void xnomem(void);
void *xmalloc(size_t n);
void *xcalloc(size_t n, size_t size);
void *xrealloc(void *p, size_t n);
char *xstrdup(const char *s);
char *xasprintf(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

void buf_free(struct buf *b);
void buf_clear(struct buf *b); /* keeps the memory */
void buf_add(struct buf *b, const void *p, size_t n);
void buf_str(struct buf *b, const char *s);
void buf_chr(struct buf *b, char c);
void buf_fmt(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
char *buf_room(struct buf *b, size_t n); /* room for n more bytes; the caller adds to len */
const char *buf_cstr(const struct buf *b);

static inline void auto_free(void *pp)
{
	extern void free(void *);
	free(*(void **)pp);
}
#define autofree __attribute__((cleanup(auto_free)))
#endif
