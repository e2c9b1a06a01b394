#include "store/clean.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/die.h"
#include "base/fd.h"

/*
 * The match within a name is written here because fnmatch(3) is exponential in the number of stars
 * in glibc, and treats names that are not of the locale's encoding otherwise than musl does.
 */
enum token_kind { TOKEN_BYTE, TOKEN_ANY, TOKEN_STAR, TOKEN_SET };

struct token {
	uint8_t kind;
	unsigned char byte;
	uint16_t set; /* index into struct clean's sets */
};

struct part {
	uint32_t token, n; /* its tokens; none: "**", any number of names */
};

struct rule {
	uint32_t part, n;
	int keep;     /* the line began with '!' */
	int dir_only; /* it ended with '/' */
};

struct set {
	unsigned char bit[32];
};

struct clean {
	struct rule *rule;
	struct part *part;
	struct token *token;
	struct set *set;
	size_t nrule, npart, ntoken, nset;
};

/* One more of an array whose room doubles at each power of two. */
static void *one_more(void *array, size_t *n, size_t size)
{
	if ((*n & (*n - 1)) == 0)
		array = xrealloc(array, (*n ? *n * 2 : 1) * size);
	++*n;
	return array;
}

static struct token *add_token(struct clean *c, enum token_kind kind, unsigned char byte)
{
	c->token = one_more(c->token, &c->ntoken, sizeof(*c->token));
	c->token[c->ntoken - 1] = (struct token){.kind = (uint8_t)kind, .byte = byte};
	return &c->token[c->ntoken - 1];
}

/* A byte of a set, which '\' may quote; *P is moved past it. */
static unsigned char set_byte(const char **p, const char *end)
{
	if (**p == '\\' && *p + 1 < end)
		++*p;
	return (unsigned char)*(*p)++;
}

/* "[a-z_]" or "[!a-z]" from after the bracket: returns where it ends, NULL if it does not. */
static const char *add_set(struct clean *c, const char *p, const char *end)
{
	int invert = p < end && (*p == '!' || *p == '^');
	const char *first = p += invert;
	struct set *s;

	c->set = one_more(c->set, &c->nset, sizeof(*c->set));
	s = &c->set[c->nset - 1];
	memset(s, invert ? 0xff : 0, sizeof(*s));
	while (p < end && (*p != ']' || p == first)) {
		unsigned from = set_byte(&p, end), to = from;

		if (p + 1 < end && *p == '-' && p[1] != ']') {
			p++;
			to = set_byte(&p, end);
		}
		for (; from <= to; from++) {
			unsigned char bit = (unsigned char)(1u << (from & 7));

			s->bit[from >> 3] = (unsigned char)(invert ? s->bit[from >> 3] & ~bit
								   : s->bit[from >> 3] | bit);
		}
	}
	add_token(c, TOKEN_SET, 0)->set = (uint16_t)(c->nset - 1);
	return p < end ? p + 1 : NULL;
}

static int add_tokens(struct clean *c, const char *p, const char *end)
{
	while (p < end) {
		if (*p == '[') {
			p = add_set(c, p + 1, end);
			if (!p)
				return failx("a '[' is not closed");
		} else if (*p == '*') {
			add_token(c, TOKEN_STAR, 0);
			while (p < end && *p == '*')
				p++;
		} else if (*p == '?') {
			add_token(c, TOKEN_ANY, 0);
			p++;
		} else {
			if (*p == '\\' && ++p == end)
				return failx("nothing follows a '\\'");
			add_token(c, TOKEN_BYTE, (unsigned char)*p++);
		}
	}
	return 0;
}

static void begin_part(struct clean *c)
{
	c->part = one_more(c->part, &c->npart, sizeof(*c->part));
	c->part[c->npart - 1] = (struct part){.token = (uint32_t)c->ntoken};
}

/* One name of a pattern. A '/' within a set is no name's byte, and so ends it unclosed. */
static int add_part(struct clean *c, const char *p, const char *end)
{
	size_t n = (size_t)(end - p);

	if (!n)
		return failx("a name is empty");
	if (*p == '.' && (n == 1 || (n == 2 && p[1] == '.')))
		return failx("'.' and '..' match nothing");
	begin_part(c);
	if (n == 2 && p[0] == '*' && p[1] == '*')
		return 0;
	if (add_tokens(c, p, end) < 0)
		return -1;
	c->part[c->npart - 1].n = (uint32_t)(c->ntoken - c->part[c->npart - 1].token);
	return 0;
}

static int add_rule(struct clean *c, const char *p, const char *end)
{
	struct rule r = {.part = (uint32_t)c->npart};

	if (*p == '!') {
		r.keep = 1;
		p++;
	}
	if (p < end && end[-1] == '/') {
		r.dir_only = 1;
		end--;
	}
	if (p == end)
		return failx("there is no pattern");
	/* A name alone is looked for at any depth, a path begins at the root: gitignore(5). */
	if (!memchr(p, '/', (size_t)(end - p)))
		begin_part(c);
	else if (*p == '/')
		p++;
	for (;;) {
		const char *slash = memchr(p, '/', (size_t)(end - p)), *stop = slash ? slash : end;

		if (add_part(c, p, stop) < 0)
			return -1;
		if (!slash)
			break;
		p = slash + 1;
	}
	r.n = (uint32_t)c->npart - r.part;
	c->rule = one_more(c->rule, &c->nrule, sizeof(*c->rule));
	c->rule[c->nrule - 1] = r;
	return 0;
}

/* Where a line's pattern ends: blanks at its end do not count unless '\' stands before them. */
static const char *trim(const char *p, const char *end)
{
	const char *last = p;

	if (p < end && end[-1] == '\r')
		end--;
	while (p < end) {
		int blank = *p == ' ' || *p == '\t';

		p += *p == '\\' && p + 1 < end ? 2 : 1;
		if (!blank)
			last = p;
	}
	return last;
}

static int parse_line(struct clean *c, const char *p, const char *end)
{
	if (end - p > CLEAN_LINE)
		return failx("the line is longer than %d bytes", CLEAN_LINE);
	if (memchr(p, 0, (size_t)(end - p)))
		return failx("a NUL byte");
	end = trim(p, end);
	if (p == end || *p == '#')
		return 0;
	if (c->nrule == CLEAN_RULES)
		return failx("more than %d rules", CLEAN_RULES);
	/* An index of a set has 16 bits. */
	if (c->nset > UINT16_MAX - CLEAN_LINE)
		return failx("too many '['");
	return add_rule(c, p, end);
}

int clean_parse(const char *source, const char *text, size_t len, struct clean **out)
{
	const char *p = text, *all = text + len;
	struct clean *c = xcalloc(1, sizeof(*c));

	for (int line = 1; p < all; line++) {
		const char *nl = memchr(p, '\n', (size_t)(all - p)), *end = nl ? nl : all;

		if (parse_line(c, p, end) < 0) {
			clean_free(c);
			return fail_more("%s:%d", source, line);
		}
		p = end + 1;
	}
	*out = c;
	return 0;
}

int clean_load(const char *path, struct clean **c)
{
	autobuf text = BUF_INIT;

	if (fd_read_file(AT_FDCWD, path, CLEAN_TEXT, &text) < 0)
		return fail("cannot read '%s'", path);
	return clean_parse(path, buf_cstr(&text), text.len, c);
}

void clean_free(struct clean *c)
{
	if (!c)
		return;
	free(c->rule);
	free(c->part);
	free(c->token);
	free(c->set);
	free(c);
}

static int match_byte(const struct clean *c, const struct token *t, unsigned char b)
{
	if (t->kind == TOKEN_SET)
		return c->set[t->set].bit[b >> 3] >> (b & 7) & 1;
	return t->kind == TOKEN_ANY || t->byte == b;
}

/*
 * Only the last star is ever given more: if what stands between two stars fits somewhere, its first
 * fit leaves the most for the rest. So the time is at most the product of the lengths.
 */
static int match_name(const struct clean *c, const struct part *part, const char *s,
		      const char *end)
{
	const struct token *t = c->token + part->token, *stop = t + part->n, *star = NULL;
	const char *from = s;

	while (s < end) {
		if (t < stop && t->kind == TOKEN_STAR) {
			star = ++t;
			from = s;
		} else if (t < stop && match_byte(c, t, (unsigned char)*s)) {
			t++;
			s++;
		} else if (star) {
			t = star;
			s = ++from;
		} else {
			return 0;
		}
	}
	while (t < stop && t->kind == TOKEN_STAR)
		t++;
	return t == stop;
}

static const char *skip_slashes(const char *s)
{
	while (*s == '/')
		s++;
	return s;
}

/* The same, for names instead of bytes and "**" instead of "*". */
static int match_rule(const struct clean *c, const struct rule *r, const char *s)
{
	const struct part *p = c->part + r->part, *stop = p + r->n, *star = NULL;
	const char *from = s;

	while (*s) {
		const char *end = s + strcspn(s, "/");

		if (p < stop && !p->n) {
			star = ++p;
			from = s;
			if (p == stop)
				return 1; /* at its end it is all below, and one name is left */
		} else if (p < stop && match_name(c, p, s, end)) {
			p++;
			s = skip_slashes(end);
		} else if (star) {
			p = star;
			s = from = skip_slashes(from + strcspn(from, "/"));
		} else {
			return 0;
		}
	}
	return p == stop;
}

int clean_match(const struct clean *c, const char *path, int is_dir)
{
	path = skip_slashes(path);
	for (size_t i = c->nrule; *path && i-- > 0;) {
		const struct rule *r = &c->rule[i];

		if ((is_dir || !r->dir_only) && match_rule(c, r, path))
			return !r->keep;
	}
	return 0;
}
