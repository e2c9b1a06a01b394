/* Records on stdout: TSV, JSON Lines, or an aligned table on a terminal, from one column table. */
#ifndef BASE_REC_H
#define BASE_REC_H
#include <stdint.h>
#include <stdio.h>

enum rec_type {
	REC_TEXT,
	REC_NUM,
	REC_BYTES, /* machine: bytes; human: 1.5G */
	REC_MS,	   /* machine: milliseconds; human: 2h05m */
	REC_TIME,  /* machine and human: 2026-02-03T04:05:06.789Z; set as milliseconds since 1970 */
};

struct rec_col {
	const char *name; /* units in the name: mem_bytes, wall_ms; NULL ends the table */
	enum rec_type type;
	int hidden; /* shown only when -o names it */
};

struct rec_opts {
	const char *cols; /* -o: names between commas; NULL: all that are not hidden */
	int header;	  /* -H */
	int nul;	  /* -0: NUL instead of newline after a record */
	int json;
	int lines; /* name=value lines, one a field that is not empty; a blank line between records */
};

/* For a tool's option table. */
/* clang-format off */
#define REC_OPTIONS(o) \
	{'o', "cols", "COLS", OPT_STR, &(o).cols, "these columns, between commas"}, \
	{'H', "header", NULL, OPT_FLAG, &(o).header, "a header line first"}, \
	{'0', "null", NULL, OPT_FLAG, &(o).nul, "end records with NUL, not newline"}, \
	{0, "json", NULL, OPT_FLAG, &(o).json, "JSON Lines"}
/* clang-format on */

struct rec;

/* NULL after fail() if -o names an unknown column. The table must outlive the writer. */
struct rec *rec_open(FILE *out, const struct rec_col *cols, const struct rec_opts *opts);
/* Set a field of the current record by its place in the table; unset fields are empty ("-"). */
void rec_text(struct rec *r, int col, const char *s); /* NULL: empty */
void rec_num(struct rec *r, int col, uint64_t v);
void rec_end(struct rec *r); /* the record is complete */
/* Prints what is held back (a table is aligned over all rows) and frees; the result of finish(). */
int rec_close(struct rec *r);

/* S as a JSON string in quotes; bytes that are not UTF-8 become U+FFFD, so the line stays valid. */
void rec_json_string(FILE *out, const char *s, size_t n);
#endif
