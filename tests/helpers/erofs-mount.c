/* erofs-mount META DATA DIR: a layer at a directory, for tests that look into it. */
#include <fcntl.h>

#include "base/die.h"
#include "kern/erofs.h"
#include "kern/mnt.h"

int main(int argc, char **argv)
{
	int fd;

	die_init(argv[0]);
	if (argc != 4)
		dief(EX_SBX, "usage: erofs-mount META DATA DIR");
	fd = erofs_mount(argv[1], argv[2]);
	if (fd < 0 || mnt_move(fd, AT_FDCWD, argv[3]) < 0)
		die();
	return 0;
}
