/*
 * What a box's shell cannot do to files; static, to be put into an image.
 *   inode xattr FILE NAME [HEX]   sets an extended attribute, or prints it in hex
 *   inode socket FILE             makes a socket
 */
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/xattr.h>

static int xattr(int argc, char **argv)
{
	unsigned char val[4096];
	ssize_t n = 0;

	if (argc == 3) {
		for (const char *p = argv[2]; sscanf(p, "%2hhx", &val[n]) == 1; p += 2)
			n++;
		return lsetxattr(argv[0], argv[1], val, (size_t)n, 0);
	}
	n = lgetxattr(argv[0], argv[1], val, sizeof(val));
	if (n < 0)
		return -1;
	for (ssize_t i = 0; i < n; i++)
		printf("%02x", val[i]);
	putchar('\n');
	return 0;
}

static int make_socket(const char *path)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	strncpy(a.sun_path, path, sizeof(a.sun_path) - 1);
	return bind(fd, (struct sockaddr *)&a, sizeof(a));
}

int main(int argc, char **argv)
{
	int r = -1;

	if ((argc == 4 || argc == 5) && !strcmp(argv[1], "xattr"))
		r = xattr(argc - 2, argv + 2);
	else if (argc == 3 && !strcmp(argv[1], "socket"))
		r = make_socket(argv[2]);
	if (r < 0)
		perror("inode");
	return r < 0;
}
