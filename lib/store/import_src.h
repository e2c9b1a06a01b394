/*
 * Where an image layout's members come from: a directory, or an archive whose members come in any
 * order. From a plain file they are read in place, from a pipe or a compressed file they are
 * spooled.
 */
#ifndef STORE_IMPORT_SRC_H
#define STORE_IMPORT_SRC_H
#include <archive.h>
#include <openssl/evp.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "store/import.h"

/* Bytes on their way into an archive reader: from an fd, or from a member of another archive. */
struct stream {
	struct import *im;    /* counts what an fd gives; may be NULL */
	int fd;		      /* -1: from A */
	int own;	      /* fd is closed with the stream */
	struct archive *a;    /* freed with the stream */
	struct stream *outer; /* what A reads from, if it is ours too */
	EVP_MD_CTX *sha;      /* of all that passed; NULL: not wanted */
	char *room;	      /* for reads from the fd */
	uint64_t size;	      /* of a member as it lies in its source */
	int ended;
};

struct stream *stream_fd(struct import *im, int fd, int own);
struct stream *stream_archive(struct archive *a); /* the data of A's current entry */
void stream_hash(struct stream *s);		  /* wanted, from here on */
void stream_close(struct stream *s);
/* Reads to the end, so that the hash is of everything; -1 after fail(). HEX may be NULL. */
int stream_finish(struct stream *s, char hex[SHA_HEX + 1]);

/* A reader of S, which stays the caller's: as a tar, or as one raw (decompressed) stream. */
enum stream_format { STREAM_TAR, STREAM_RAW };
struct archive *stream_reader(struct stream *s, enum stream_format f);

struct source;
struct archive_entry;
struct source *source_dir(struct import *im, int fd); /* fd stays the caller's */
/* A stands at the entry FIRST; PATH is where to read again in place, NULL for a pipe. */
struct source *source_archive(struct import *im, struct archive *a, struct archive_entry *first,
			      const char *path);
void source_free(struct source *s);

int source_has(struct source *s, const char *name);
struct stream *source_open(struct source *s, const char *name); /* NULL after fail() */
/* The whole of a small member; with HEX its SHA-256 must be that. */
int source_read(struct source *s, const char *name, const char *hex, struct buf *b);
#endif
