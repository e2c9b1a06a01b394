/*
 * sbx-keep ID: the keeper of one box, started by sbx-create. Reads the box's spec, starts it,
 * serves its socket, and ends with it. It holds the box's lock: when it dies, however, its box dies
 * with it and sbx-reap finds the rest.
 */
#include <fcntl.h>

#include "base/die.h"
#include "base/id.h"
#include "box/keeper.h"

int main(int argc, char **argv)
{
	struct state st;

	die_init(argv[0]);
	if (argc != 2 || !id_valid(argv[1]) || fcntl(KEEP_FD_LOCK, F_GETFD) < 0)
		dief(EX_SBX, "is started by sbx-create only");
	if (fcntl(KEEP_FD_READY, F_SETFD, FD_CLOEXEC) < 0 ||
	    fcntl(KEEP_FD_LOCK, F_SETFD, FD_CLOEXEC) < 0)
		dief(EX_SBX, "cannot keep its descriptors from its children");
	if (state_open(&st, 0) < 0)
		die();
	return keeper_main(&st, argv[1]);
}
