#include "box/user.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/die.h"
#include "base/fd.h"

enum { FILE_MAX = 1 << 20, ID_LAST = 65534 };

static void read_box_file(int root, const char *path, struct buf *b)
{
	/* O_NONBLOCK: a FIFO in its place must not hold us. */
	autofd fd = fd_openat2(root, path, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0,
			       RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS);
	struct stat sb;
	ssize_t n;

	buf_clear(b);
	if (fd < 0 || fstat(fd, &sb) < 0 || !S_ISREG(sb.st_mode))
		return;
	n = sb.st_size > FILE_MAX ? FILE_MAX : (ssize_t)sb.st_size;
	n = fd_read_all(fd, buf_room(b, (size_t)n), (size_t)n);
	b->len = n > 0 ? (size_t)n : 0;
	buf_room(b, 0);
}

/* Splits a line into NF fields at ':', in place; 0 if it has fewer. */
static int split(char *line, char **f, int nf)
{
	for (int i = 0; i < nf; i++) {
		f[i] = line;
		line = strchr(line, ':');
		if (!line)
			return i == nf - 1;
		*line++ = 0;
	}
	return 1;
}

static int number(const char *s, uint32_t *out)
{
	char *end;
	unsigned long v;

	if (!isdigit((unsigned char)*s))
		return 0;
	errno = 0;
	v = strtoul(s, &end, 10);
	if (errno || *end || v > ID_LAST)
		return 0;
	*out = (uint32_t)v;
	return 1;
}

static int find_passwd(int root, const char *word, struct user *u)
{
	uint32_t want = 0, uid, gid;
	int by_number = number(word, &want);
	autobuf b = BUF_INIT;
	char *rest, *line;

	read_box_file(root, "/etc/passwd", &b);
	for (rest = b.p; rest && (line = strsep(&rest, "\n"));) {
		char *f[7];

		if (!split(line, f, 7) || !number(f[2], &uid) || !number(f[3], &gid))
			continue;
		if (by_number ? uid != want : strcmp(f[0], word) != 0)
			continue;
		u->uid = uid;
		u->gid = gid;
		snprintf(u->home, sizeof(u->home), "%s", *f[5] ? f[5] : "/");
		snprintf(u->name, sizeof(u->name), "%s", f[0]);
		return 0;
	}
	if (!by_number && strcmp(word, "root") != 0)
		return failx("no user '%s' in the box", word);
	u->uid = by_number ? want : 0;
	u->gid = 0;
	snprintf(u->home, sizeof(u->home), "%s", u->uid ? "/" : "/root");
	return 0;
}

static int lists(char *members, const char *name)
{
	char *one;

	while ((one = strsep(&members, ",")))
		if (!strcmp(one, name))
			return 1;
	return 0;
}

/* The group WORD into *GID, or (WORD NULL) every group the user is a member of. */
static int find_group(int root, const char *word, struct user *u)
{
	autobuf b = BUF_INIT;
	char *rest, *line;
	uint32_t gid;

	if (word && number(word, &gid)) {
		u->gid = gid;
		return 0;
	}
	read_box_file(root, "/etc/group", &b);
	for (rest = b.p; rest && (line = strsep(&rest, "\n"));) {
		char *f[4];

		if (!split(line, f, 4) || !number(f[2], &gid))
			continue;
		if (word && !strcmp(f[0], word)) {
			u->gid = gid;
			return 0;
		}
		if (!word && u->ngroups < USER_GROUPS && *u->name && lists(f[3], u->name))
			u->groups[u->ngroups++] = gid;
	}
	return word ? failx("no group '%s' in the box", word) : 0;
}

int user_find_in(int root, const char *word, struct user *u)
{
	autofree char *name = xstrdup(*word ? word : "root");
	char *group = strchr(name, ':');

	memset(u, 0, sizeof(*u));
	if (group)
		*group++ = 0;
	if (find_passwd(root, *name ? name : "root", u) < 0)
		return -1;
	/* As runtimes agree: a group that is named is the only one. */
	return find_group(root, group && *group ? group : NULL, u);
}

int user_find(const char *word, struct user *u)
{
	autofd root = openat(AT_FDCWD, "/", O_PATH | O_DIRECTORY | O_CLOEXEC);

	return root < 0 ? fail("cannot open '/'") : user_find_in(root, word, u);
}
