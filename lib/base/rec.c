#include "base/rec.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/die.h"
#include "base/kv.h"
#include "base/num.h"

struct field {
	char *text; /* NULL: empty */
	uint64_t num;
	int is_num;
};

struct rec {
	FILE *out;
	const struct rec_col *cols;
	struct rec_opts opts;
	int table; /* aligned for a person */
	int begun; /* a record was printed */
	int ncols; /* in the column table */
	int *show; /* the columns to print, in order */
	int nshow;
	struct field *row;
	char **cells; /* table only: nshow cells a row, kept until the end */
	size_t ncells;
};

static int select_cols(struct rec *r)
{
	const char *p = r->opts.cols;

	r->show = xcalloc((size_t)r->ncols + (p ? strlen(p) : 0) + 1, sizeof(int));
	if (!p) {
		for (int i = 0; i < r->ncols; i++)
			if (!r->cols[i].hidden)
				r->show[r->nshow++] = i;
		return 0;
	}
	for (;;) {
		size_t len = strcspn(p, ",");
		int i = 0;

		while (i < r->ncols &&
		       (strlen(r->cols[i].name) != len || strncmp(r->cols[i].name, p, len) != 0))
			i++;
		if (i == r->ncols) {
			autobuf all = BUF_INIT;

			for (i = 0; i < r->ncols; i++)
				buf_fmt(&all, "%s%s", i ? "," : "", r->cols[i].name);
			return failx("no column '%.*s' (there are %s)", (int)len, p, all.p);
		}
		r->show[r->nshow++] = i;
		if (!p[len])
			return 0;
		p += len + 1;
	}
}

struct rec *rec_open(FILE *out, const struct rec_col *cols, const struct rec_opts *opts)
{
	struct rec *r = xcalloc(1, sizeof(*r));

	r->out = out;
	r->cols = cols;
	r->opts = *opts;
	while (cols[r->ncols].name)
		r->ncols++;
	r->row = xcalloc((size_t)r->ncols, sizeof(*r->row));
	r->table = !opts->json && !opts->nul && !opts->lines && isatty(fileno(out));
	if (select_cols(r) < 0) {
		free(r->show);
		free(r->row);
		free(r);
		return NULL;
	}
	if (opts->header && !r->table && !opts->json) {
		for (int i = 0; i < r->nshow; i++)
			fprintf(out, "%s%s", i ? "\t" : "", cols[r->show[i]].name);
		fputc(opts->nul ? 0 : '\n', out);
	}
	return r;
}

void rec_text(struct rec *r, int col, const char *s)
{
	struct field *f = &r->row[col];

	free(f->text);
	f->text = s ? xstrdup(s) : NULL;
	f->is_num = 0;
}

void rec_num(struct rec *r, int col, uint64_t v)
{
	rec_text(r, col, NULL);
	r->row[col].num = v;
	r->row[col].is_num = 1;
}

/* The field as text; OUT is used if it must be made. */
static const char *field_text(const struct rec *r, int col, char out[NUM_TEXT])
{
	const struct field *f = &r->row[col];

	if (!f->is_num)
		return f->text;
	if (r->cols[col].type == REC_TIME)
		return num_fmt_time(out, f->num);
	if (r->table && r->cols[col].type == REC_BYTES)
		return num_fmt_size(out, f->num);
	if (r->table && r->cols[col].type == REC_MS)
		return num_fmt_duration(out, f->num);
	snprintf(out, NUM_TEXT, "%llu", (unsigned long long)f->num);
	return out;
}

/* Length of the valid UTF-8 sequence at S (N bytes left), 0 if there is none (RFC 3629). */
static size_t utf8(const unsigned char *s, size_t n)
{
	size_t len = s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;

	if (s[0] < 0x80)
		return 1;
	if (s[0] < 0xc2 || s[0] > 0xf4 || len > n)
		return 0;
	for (size_t i = 1; i < len; i++)
		if ((s[i] & 0xc0) != 0x80)
			return 0;
	if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) ||
	    (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f))
		return 0;
	return len;
}

void rec_json_string(FILE *out, const char *str, size_t n)
{
	const unsigned char *s = (const unsigned char *)str;

	fputc('"', out);
	while (n) {
		size_t len = utf8(s, n);

		if (!len)
			fputs("\\ufffd", out);
		else if (*s == '"' || *s == '\\')
			fprintf(out, "\\%c", *s);
		else if (*s == '\n')
			fputs("\\n", out);
		else if (*s == '\t')
			fputs("\\t", out);
		else if (*s < 0x20 || *s == 0x7f)
			fprintf(out, "\\u%04x", *s);
		else
			fwrite(s, 1, len, out);
		len = len ? len : 1;
		s += len;
		n -= len;
	}
	fputc('"', out);
}

static void print_json(struct rec *r)
{
	for (int i = 0; i < r->nshow; i++) {
		int col = r->show[i];
		const struct field *f = &r->row[col];
		char num[NUM_TEXT];

		fprintf(r->out, "%c\"%s\":", i ? ',' : '{', r->cols[col].name);
		if (f->is_num && r->cols[col].type != REC_TIME)
			fputs(field_text(r, col, num), r->out);
		else if (f->is_num || f->text)
			rec_json_string(r->out, field_text(r, col, num),
					strlen(field_text(r, col, num)));
		else
			fputs("null", r->out);
	}
	fputs("}\n", r->out);
}

static void print_tsv(struct rec *r)
{
	autobuf line = BUF_INIT;

	for (int i = 0; i < r->nshow; i++) {
		char num[NUM_TEXT];
		const char *s = field_text(r, r->show[i], num);

		if (i)
			buf_chr(&line, '\t');
		if (!s || !*s)
			buf_chr(&line, '-');
		else
			kv_escape(&line, s, strlen(s));
	}
	buf_chr(&line, r->opts.nul ? 0 : '\n');
	fwrite(line.p, 1, line.len, r->out);
}

/* A field of several lines is a list: its name comes with each. */
static void print_field_lines(struct rec *r, const char *name, const char *s)
{
	while (*s) {
		size_t len = strcspn(s, "\n");
		autobuf line = BUF_INIT;

		kv_escape(&line, s, len);
		fprintf(r->out, "%s=%s\n", name, buf_cstr(&line));
		s += len + (s[len] == '\n');
	}
}

static void print_lines(struct rec *r)
{
	if (r->begun)
		fputc('\n', r->out);
	for (int i = 0; i < r->nshow; i++) {
		char num[NUM_TEXT];
		const char *s = field_text(r, r->show[i], num);

		if (s)
			print_field_lines(r, r->cols[r->show[i]].name, s);
	}
}

/* A terminal must not be driven by what a box put into a name: control bytes become '?'. */
static char *cell(const char *s)
{
	char *c = xstrdup(s && *s ? s : "-");

	for (char *p = c; *p; p++)
		if ((unsigned char)*p < 0x20 || *p == 0x7f)
			*p = '?';
	return c;
}

void rec_end(struct rec *r)
{
	if (r->table) {
		r->cells = xrealloc(r->cells, (r->ncells + (size_t)r->nshow) * sizeof(char *));
		for (int i = 0; i < r->nshow; i++) {
			char num[NUM_TEXT];

			r->cells[r->ncells++] = cell(field_text(r, r->show[i], num));
		}
	} else if (r->opts.json) {
		print_json(r);
	} else if (r->opts.lines) {
		print_lines(r);
	} else {
		print_tsv(r);
	}
	r->begun = 1;
	for (int i = 0; i < r->ncols; i++)
		rec_text(r, i, NULL);
}

/* Width in columns, near enough: UTF-8 continuation bytes take none. */
static int width(const char *s)
{
	int w = 0;

	for (; *s; s++)
		w += ((unsigned char)*s & 0xc0) != 0x80;
	return w;
}

/* A header word: upper case, without the unit that the human form shows itself. */
static char *title(const struct rec_col *c)
{
	char *t = xstrdup(c->name);
	size_t n = strlen(t);

	if (c->type == REC_BYTES && n > 6 && !strcmp(t + n - 6, "_bytes"))
		t[n - 6] = 0;
	if (c->type == REC_MS && n > 3 && !strcmp(t + n - 3, "_ms"))
		t[n - 3] = 0;
	for (char *p = t; *p; p++)
		if (*p >= 'a' && *p <= 'z')
			*p = (char)(*p - 'a' + 'A');
	return t;
}

static void print_table_row(struct rec *r, char *const *cells, const int *w)
{
	for (int i = 0; i < r->nshow; i++) {
		int pad = i + 1 < r->nshow ? w[i] - width(cells[i]) + 2 : 0;
		int right = r->cols[r->show[i]].type != REC_TEXT &&
			    r->cols[r->show[i]].type != REC_TIME;
		int before = right ? w[i] - width(cells[i]) : 0;

		if (right && i + 1 < r->nshow)
			pad = 2;
		fprintf(r->out, "%*s%s%*s", before, "", cells[i], pad, "");
	}
	fputc('\n', r->out);
}

static void print_table(struct rec *r)
{
	char **head = xcalloc((size_t)r->nshow, sizeof(char *));
	int *w = xcalloc((size_t)r->nshow, sizeof(int));

	for (int i = 0; i < r->nshow; i++) {
		head[i] = title(&r->cols[r->show[i]]);
		w[i] = width(head[i]);
	}
	for (size_t i = 0; i < r->ncells; i++)
		if (width(r->cells[i]) > w[i % (size_t)r->nshow])
			w[i % (size_t)r->nshow] = width(r->cells[i]);
	print_table_row(r, head, w);
	for (size_t i = 0; i < r->ncells; i += (size_t)r->nshow)
		print_table_row(r, r->cells + i, w);
	for (int i = 0; i < r->nshow; i++)
		free(head[i]);
	free(head);
	free(w);
}

int rec_close(struct rec *r)
{
	FILE *out = r->out;

	if (r->table && r->ncells)
		print_table(r);
	for (size_t i = 0; i < r->ncells; i++)
		free(r->cells[i]);
	for (int i = 0; i < r->ncols; i++)
		free(r->row[i].text);
	free(r->cells);
	free(r->row);
	free(r->show);
	free(r);
	return finish(out);
}
