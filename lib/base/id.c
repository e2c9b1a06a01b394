#include "base/id.h"

#include <ctype.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/utsname.h>

#include "base/die.h"
#include "base/num.h"

/* Crockford's alphabet: no i l o u, so that a tail read aloud or off a screen is not mistaken. */
static const char digits[] = "0123456789abcdefghjkmnpqrstvwxyz";

int id_new(char out[ID_MAX + 1], const char *node)
{
	/* Eighths of a second since 2020: seven digits last for 136 years and sort by time. */
	uint64_t t = (num_now_ms() - 1577836800000ull) / 125;
	uint32_t r;
	char tail[ID_TAIL + 1];

	if (getrandom(&r, sizeof(r), 0) != sizeof(r))
		return fail("cannot get random bytes");
	for (int i = 6; i >= 0; i--, t >>= 5)
		tail[i] = digits[t & 31];
	for (int i = 7; i < ID_TAIL; i++, r >>= 5)
		tail[i] = digits[r & 31];
	tail[ID_TAIL] = 0;
	snprintf(out, ID_MAX + 1, "%.*s.%s", ID_NODE_MAX, node, tail);
	return 0;
}

int id_node_valid(const char *s)
{
	size_t n = strlen(s);

	return n && n <= ID_NODE_MAX && isalnum((unsigned char)s[0]) &&
	       strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789-_") == n;
}

int id_label_valid(const char *s)
{
	size_t n = strlen(s);

	return n && n <= 63 && isalnum((unsigned char)s[0]) &&
	       strspn(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") == n;
}

const char *id_tail(const char *id)
{
	const char *dot = strchr(id, '.');

	return dot ? dot + 1 : id;
}

int id_valid(const char *id)
{
	const char *dot = strchr(id, '.');
	char node[ID_NODE_MAX + 1];

	if (!dot || dot == id || dot - id > ID_NODE_MAX)
		return 0;
	memcpy(node, id, (size_t)(dot - id));
	node[dot - id] = 0;
	return id_node_valid(node) && strlen(dot + 1) == ID_TAIL &&
	       strspn(dot + 1, digits) == ID_TAIL;
}

int id_this_node(char out[ID_NODE_MAX + 1])
{
	const char *env = getenv("SBX_NODE");
	struct utsname u;
	int n = 0;

	if (env && *env) {
		if (!id_node_valid(env))
			return failx("SBX_NODE '%s' is not a node name (1-48 of a-z 0-9 - _)", env);
		snprintf(out, ID_NODE_MAX + 1, "%s", env);
		return 0;
	}
	uname(&u);
	for (const char *p = u.nodename; *p && *p != '.' && n < ID_NODE_MAX; p++) {
		char c = (char)tolower((unsigned char)*p);

		if (isalnum((unsigned char)c) || (n && (c == '-' || c == '_')))
			out[n++] = c;
	}
	if (!n)
		out[n++] = 'n';
	out[n] = 0;
	return 0;
}

const char *id_read(FILE *in)
{
	static char *line;
	static size_t room;

	while (getline(&line, &room, in) > 0) {
		line[strcspn(line, "\t\r\n")] = 0;
		if (*line)
			return line;
	}
	return NULL;
}
