/* One direction of a command's input or output: read, keep some, pass on, never block the caller.
 */
#ifndef BOX_STREAM_H
#define BOX_STREAM_H
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"

struct stream {
	int from, to;	      /* -1: closed, or nowhere to pass it on */
	int own_from, own_to; /* close them at the end */
	int log;	      /* -1: not opened yet */
	int logdir;	      /* where the log file goes; -1: nothing is kept */
	char logname[32];
	uint64_t keep;	    /* bytes that may still go into the log */
	uint64_t bytes;	    /* seen so far */
	int truncated;	    /* more was seen than kept */
	const char *prefix; /* before each line */
	char *buf;	    /* STREAM_BUF bytes on their way */
	size_t at, end;
	struct buf line; /* prefix mode: the line that is next */
	size_t sent;	 /* of it */
	int whole;	 /* it has its end: nothing more is added before it is passed on */
	int lost;	 /* errno of a write that failed, 0 if the reader has just gone */
	int eof;
	int regular; /* `to` is a plain file: it never blocks, and poll says nothing */
};

enum { STREAM_BUF = 64 * 1024 };

void stream_init(struct stream *s, int from, int to);
void stream_free(struct stream *s);
/* The poll events it waits for: on `from` or on `to` (*WHERE), or 0 if it has nothing to do. */
short stream_wants(const struct stream *s, int *where);
/* Moves what it can now; to be called when poll says its fd is ready. */
void stream_move(struct stream *s);
/*
 * After the writer has ended: takes into memory what is in the pipe at this moment (at most the
 * pipe's size, 1 MiB for a box), not what other holders of its other end still add.
 */
void stream_last(struct stream *s);
/* Passes on all it holds, and waits for that; a part of a line too. */
void stream_flush(struct stream *s);
int stream_busy(const struct stream *s); /* it holds bytes that are not passed on yet */
#endif
