/*
 * Holds what dies in a box: a tracer that never waits for its tracees. Linked static, so that it runs
 * on any image.
 *   hold seize     attaches to every thread of every other process that appears, until it is killed;
 *                  prints "seized PID" for each
 *   hold threads   a command with a second thread, which does not end
 */
#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <unistd.h>

static void seize_threads(const char *pid)
{
	char path[64];
	struct dirent *e;
	DIR *d;

	snprintf(path, sizeof(path), "/proc/%.20s/task", pid);
	d = opendir(path);
	while (d && (e = readdir(d)))
		if (atoi(e->d_name) > 1 && !ptrace(PTRACE_SEIZE, atoi(e->d_name), 0, 0))
			printf("seized %s\n", e->d_name);
	if (d)
		closedir(d);
}

static void seize(void)
{
	for (;; usleep(1000)) {
		struct dirent *e;
		DIR *d = opendir("/proc");

		while (d && (e = readdir(d)))
			if (atoi(e->d_name) > 1 && atoi(e->d_name) != getpid())
				seize_threads(e->d_name);
		if (d)
			closedir(d);
		fflush(stdout);
	}
}

static void *forever(void *arg)
{
	for (;;)
		pause();
	return arg;
}

int main(int argc, char **argv)
{
	pthread_t t;

	if (argc != 2)
		return 2;
	if (!strcmp(argv[1], "seize"))
		seize();
	if (!strcmp(argv[1], "threads") && !pthread_create(&t, NULL, forever, NULL))
		forever(NULL);
	return 2;
}
