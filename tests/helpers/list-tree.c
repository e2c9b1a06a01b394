/*
 * list-tree [-d] DIR: one line for everything below DIR, but not in other file systems: path, type and
 * mode, owner, time (-d: not of directories), size or device, link target or content's hash, extended
 * attributes. A further name of a file is "= FIRST NAME". Static, so that it runs in any root.
 */
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

static int plain_dirs;
static dev_t device;
static struct seen {
	struct seen *next;
	dev_t dev;
	ino_t ino;
	char *path;
} * seen;

static void put(const char *s, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (s[i] > ' ' && s[i] < 127 && s[i] != '\\')
			putchar(s[i]);
		else
			printf("\\%02x", (unsigned char)s[i]);
}

static void put_content(const char *path)
{
	char piece[65536];
	int fd = open(path, O_RDONLY);
	uint64_t h = 0xcbf29ce484222325;
	ssize_t n;

	while ((n = read(fd, piece, sizeof(piece))) > 0)
		for (ssize_t i = 0; i < n; i++)
			h = (h ^ (unsigned char)piece[i]) * 0x100000001b3;
	printf(n < 0 ? " unreadable" : " %" PRIx64, h);
	close(fd);
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void put_xattrs(const char *path)
{
	char names[65536], value[65536], *v[1000];
	ssize_t len = llistxattr(path, names, sizeof(names)), n;
	size_t count = 0;

	for (char *p = names; len > 0 && p < names + len && count < 1000; p += strlen(p) + 1)
		if (strncmp(p, "trusted.", 8) != 0)
			v[count++] = p;
	qsort(v, count, sizeof(*v), by_text);
	for (size_t i = 0; i < count; i++) {
		n = lgetxattr(path, v[i], value, sizeof(value));
		printf(" %s=", v[i]);
		put(value, n > 0 ? (size_t)n : 0);
	}
}

/* 1 if the file was listed under another name. */
static int again(const char *path, const struct stat *st)
{
	struct seen *s = seen;

	while (s && (s->dev != st->st_dev || s->ino != st->st_ino))
		s = s->next;
	if (s) {
		printf(" = %s\n", s->path);
		return 1;
	}
	s = malloc(sizeof(*s));
	*s = (struct seen){seen, st->st_dev, st->st_ino, strdup(path)};
	seen = s;
	return 0;
}

static void list(const char *path);

static void one(const char *path)
{
	char target[4096];
	struct stat st;
	ssize_t n;

	if (lstat(path, &st) < 0 || (S_ISDIR(st.st_mode) && st.st_dev != device))
		return;
	put(path, strlen(path));
	if (!S_ISDIR(st.st_mode) && st.st_nlink > 1 && again(path, &st))
		return;
	printf(" %o %u:%u", st.st_mode, st.st_uid, st.st_gid);
	if (!S_ISDIR(st.st_mode) || !plain_dirs)
		printf(" %lld.%ld", (long long)st.st_mtime, st.st_mtim.tv_nsec);
	if (S_ISREG(st.st_mode)) {
		printf(" %lld", (long long)st.st_size);
		put_content(path);
	} else if (S_ISLNK(st.st_mode) && (n = readlink(path, target, sizeof(target))) > 0) {
		printf(" -> ");
		put(target, (size_t)n);
	} else if (S_ISCHR(st.st_mode) || S_ISBLK(st.st_mode)) {
		printf(" %u:%u", major(st.st_rdev), minor(st.st_rdev));
	}
	put_xattrs(path);
	putchar('\n');
	if (S_ISDIR(st.st_mode))
		list(path);
}

static void list(const char *path)
{
	struct dirent **v;
	int n = scandir(path, &v, NULL, NULL);
	char **names = calloc((size_t)(n > 0 ? n : 0) + 1, sizeof(*names));

	for (int i = 0; i < n; i++)
		names[i] = v[i]->d_name;
	if (n > 0)
		qsort(names, (size_t)n, sizeof(*names), by_text);
	for (int i = 0; i < n; i++) {
		char *sub = malloc(strlen(path) + strlen(names[i]) + 2);

		sprintf(sub, "%s/%s", path, names[i]);
		if (strcmp(names[i], ".") != 0 && strcmp(names[i], "..") != 0)
			one(sub);
		free(sub);
	}
	for (int i = 0; i < n; i++)
		free(v[i]);
	free(names);
	if (n >= 0)
		free(v);
}

int main(int argc, char **argv)
{
	struct stat st;

	plain_dirs = argc > 2 && !strcmp(argv[1], "-d");
	if (argc != 2 + plain_dirs || chdir(argv[1 + plain_dirs]) < 0 || stat(".", &st) < 0)
		return 2;
	device = st.st_dev;
	list(".");
	return fflush(stdout) ? 1 : 0;
}
