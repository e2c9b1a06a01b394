/* erofs-mount DIR META [DATA]...: a layer at a directory, for tests that look into it. */
#include <fcntl.h>

#include "base/die.h"
#include "kern/erofs.h"
#include "kern/mnt.h"

int main(int argc, char **argv)
{
	int fd;

	die_init(argv[0]);
	if (argc < 3)
		dief(EX_SBX, "usage: erofs-mount DIR META [DATA]...");
	fd = erofs_mount(argv[2], (const char *const *)argv + 3, (size_t)argc - 3);
	if (fd < 0 || mnt_move(fd, AT_FDCWD, argv[1]) < 0)
		die();
	return 0;
}
