/* Box IDs: NODE.TAIL, TAIL = 7 characters of time and 4 of chance in lower-case base32. */
#ifndef BASE_ID_H
#define BASE_ID_H
#include <stdio.h>

enum {
	ID_TAIL = 11,
	ID_NODE_MAX = 48,
	ID_MAX = ID_NODE_MAX + 1 + ID_TAIL, /* without the NUL */
};

/* A new ID for NODE. Two calls can, rarely, give the same: mkdir decides, the loser tries again. */
int id_new(char out[ID_MAX + 1], const char *node);

int id_valid(const char *id);	   /* a whole ID: safe as a file name */
int id_node_valid(const char *s);  /* 1-48 of a-z 0-9 - _, first one a letter or digit */
int id_label_valid(const char *s); /* a name a person gives: 1-63 of A-Z a-z 0-9 . _ - */
const char *id_tail(const char *id);

/*
 * The next ID or name of a list with one a line: the first field, because records of other tools
 * begin with the ID; empty lines are passed over. NULL at the end; valid until the next call.
 */
const char *id_read(FILE *in);

/* This node's name: SBX_NODE (fail() if it is bad), or the host name's first label made valid. */
int id_this_node(char out[ID_NODE_MAX + 1]);
#endif
