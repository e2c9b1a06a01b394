/*
 * freeze ID: holds a box frozen. Prints "frozen MICROSECONDS" when it is, "thawed" when SIGUSR1 has
 * made it let go (it lives on), and "ended" and exits when the box does.
 */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "base/die.h"
#include "base/num.h"
#include "box/client.h"

static volatile sig_atomic_t let_go;

static void on_usr1(int sig)
{
	let_go = sig;
}

int main(int argc, char **argv)
{
	struct pollfd p = {.events = POLLIN};
	uint64_t begin = num_mono_us();
	sigset_t usr1, old;
	struct state st;

	die_init(argv[0]);
	setvbuf(stdout, NULL, _IOLBF, 0);
	sigemptyset(&usr1);
	sigaddset(&usr1, SIGUSR1);
	sigprocmask(SIG_BLOCK, &usr1, &old);
	signal(SIGUSR1, on_usr1);
	if (argc != 2 || state_open(&st, 0) < 0 || (p.fd = client_freeze(&st, argv[1])) < 0)
		die();
	printf("frozen %llu\n", (unsigned long long)(num_mono_us() - begin));
	while (!let_go && ppoll(&p, 1, NULL, &old) < 0)
		;
	if (!let_go) {
		puts("ended");
		return 0;
	}
	close(p.fd);
	puts("thawed");
	for (;;)
		pause();
}
