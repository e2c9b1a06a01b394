/*
 * The trajectory log of a box: STATE/box/ID/log/records, one line a record ("key=value" between
 * tabs, see base/kv.h), appended by the box's keeper alone, so the order of lines is the order of
 * events. A last line without its newline was torn by a crash and does not count.
 *
 *   seq=N ev=create|exec|end|cp|stop ... time_ms=T     an "end" has the seq of its "exec"
 *   log/N.out, log/N.err                               what was kept of command N's streams
 */
#ifndef STORE_LOG_H
#define STORE_LOG_H
#include <stdint.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/kv.h"
#include "store/state.h"

int log_open_append(int boxdir); /* an fd for log_append; makes log/ and records */
/* Starts a record in B: seq, ev and the time. The caller adds pairs and hands B to log_append. */
void log_start(struct buf *b, uint64_t seq, const char *ev);
int log_append(int fd, struct buf *b); /* adds the newline; one write(2) */

/*
 * Reads records one by one, and goes on where it was when the log has grown. open: 0, or -1 after
 * fail() (ENOENT is kept in errno). next: 1 and a record in REC, 0 if there is none (yet), -1.
 */
struct log_reader {
	int fd;
	struct buf b; /* what was read and not handed out */
	size_t at;
};
int log_reader_open(const struct state *st, const char *id, struct log_reader *r);
int log_next(struct log_reader *r, struct kv *rec);
void log_reader_close(struct log_reader *r);

/*
 * Reads records in order. FN gets each; it returns 0 to go on, else the walk stops with its value.
 * 0 also if there is no log.
 */
int log_each(const struct state *st, const char *id, int (*fn)(void *arg, const struct kv *rec),
	     void *arg);
/* Commands begun and ended, and the time of the last record (0: there is none). */
struct log_tally {
	uint64_t begun, ended, last_ms;
};
int log_count(const struct state *st, const char *id, struct log_tally *t);
/* The end record of command SEQ into REC: 1 found, 0 not (yet) there, -1 error. */
int log_find_end(const struct state *st, const char *id, uint64_t seq, struct kv *rec);
#endif
