/*
 * Runs inside a box and asks for what a box must not get. Linked static, so that it runs on any image.
 *   probe calls          a line for each system call: NAME ok, or NAME and the errno's name
 *   probe watch          reads /proc of every process that appears, until it is killed; prints what
 *                        it could read of one that is still the node's
 *   probe ids            its real and effective user
 *   probe fds            its open descriptors above 2, one a line
 *   probe serve          holds an abstract socket, shared memory and a loopback port; prints "serving"
 *   probe look           tries to reach those
 *   probe kill PID...    a signal to each: NUMBER ok, or NUMBER and the errno's name
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/klog.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { SHM_KEY = 0x5b5b, PORT = 9191 };

static void say(const char *name, long r)
{
	printf("%s %s\n", name, r < 0 ? strerrorname_np(errno) : "ok");
}

static void open_node(const char *name, mode_t type, unsigned major, unsigned minor)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/tmp/probe-%s", name);
	if (mknod(path, type | 0666, makedev(major, minor)) < 0) {
		say(name, -1);
		return;
	}
	fd = open(path, O_RDWR);
	say(name, fd);
	unlink(path);
}

static void calls(void)
{
	struct timespec now;
	char buf[4096] = {0};
	int fd;

	clock_gettime(CLOCK_REALTIME, &now);
	say("mount", mount("none", "/tmp", "tmpfs", 0, NULL));
	say("remount", mount("none", "/proc/sys", NULL, MS_REMOUNT | MS_BIND, NULL));
	say("bind", mount("/", "/tmp", NULL, MS_BIND, NULL));
	say("umount", umount2("/proc/sys", MNT_DETACH));
	say("umount_proc", umount2("/proc", MNT_DETACH));
	say("pivot_root", syscall(SYS_pivot_root, ".", "."));
	say("fsopen", syscall(SYS_fsopen, "tmpfs", 0));
	say("open_tree", syscall(SYS_open_tree, AT_FDCWD, "/", 1));
	say("move_mount", syscall(SYS_move_mount, AT_FDCWD, "/tmp", AT_FDCWD, "/srv", 0));
	say("unshare_user", unshare(CLONE_NEWUSER));
	say("unshare_mnt", unshare(CLONE_NEWNS));
	say("unshare_net", unshare(CLONE_NEWNET));
	say("clone_user", syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0));
	fd = open("/proc/self/ns/mnt", O_RDONLY);
	say("setns", setns(fd, 0));
	say("keyctl", syscall(SYS_keyctl, 0, -3, 1));
	say("add_key", syscall(SYS_add_key, "user", "k", "v", 1, -3));
	say("bpf", syscall(SYS_bpf, 0, buf, 64));
	say("perf", syscall(SYS_perf_event_open, buf, 0, -1, -1, 0));
	say("userfaultfd", syscall(SYS_userfaultfd, 0));
	say("io_uring", syscall(SYS_io_uring_setup, 8, buf));
	say("syslog", klogctl(3, buf, sizeof(buf)));
	say("reboot", syscall(SYS_reboot, 0xfee1dead, 672274793, 0, 0));
	say("settime", clock_settime(CLOCK_REALTIME, &now));
	say("sethostname", sethostname("x", 1));
	say("swapon", syscall(SYS_swapon, "/tmp", 0));
	say("init_module", syscall(SYS_init_module, buf, 1, ""));
	say("kexec", syscall(SYS_kexec_load, 0, 0, NULL, 0));
	say("open_handle", syscall(SYS_open_by_handle_at, AT_FDCWD, buf, 0));
	say("fanotify", syscall(SYS_fanotify_init, 0, 0));
	say("quotactl", syscall(SYS_quotactl, 0, "/", 0, buf));
	say("acct", syscall(SYS_acct, "/tmp/acct"));
	say("ioperm", syscall(SYS_ioperm, 0x80, 1, 1));
	say("packet", socket(AF_PACKET, SOCK_RAW, 0));
	say("vsock", socket(AF_VSOCK, SOCK_STREAM, 0));
	say("alg", socket(AF_ALG, SOCK_SEQPACKET, 0));
	open_node("disk", S_IFBLK, 7, 0);
	open_node("mem", S_IFCHR, 1, 1);
	open_node("kmsg", S_IFCHR, 1, 11);
	open_node("fuse", S_IFCHR, 10, 229);
	say("cgroup_mount", mount("none", "/tmp", "cgroup2", 0, NULL));
}

static void fds(void)
{
	char path[64], to[512];

	for (int fd = 3; fd < 1024; fd++) {
		ssize_t n;

		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		n = readlink(path, to, sizeof(to) - 1);
		if (n > 0)
			printf("%d %.*s\n", fd, (int)n, to);
	}
}

static void look_at(const char *pid, const char *file)
{
	static char text[65536];
	char path[64];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%s/%s", pid, file);
	fd = open(path, O_RDONLY);
	n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (fd >= 0)
		close(fd);
	for (ssize_t i = 0; i < n; i++)
		if (!text[i])
			text[i] = ' ';
	if (n > 0)
		printf("%s: %.*s\n", file, (int)n, text);
}

/* A link that can be followed, and where it leads. */
static void look_through(const char *pid, const char *file)
{
	char path[64], to[512];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%s/%s", pid, file);
	n = readlink(path, to, sizeof(to) - 1);
	if (n > 0)
		printf("%s -> %.*s\n", file, (int)n, to);
}

static void look_at_all(const char *pid)
{
	static const char *const files[] = {"cmdline", "environ", "mountinfo", "net/unix", "cgroup",
					    "net/dev", "maps",	  "auxv",      "status"};
	static const char *const links[] = {"exe",  "cwd",  "root", "fd/0", "fd/1",
					    "fd/2", "fd/3", "fd/4", "fd/5", "ns/mnt"};

	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
		look_at(pid, files[i]);
	for (size_t i = 0; i < sizeof(links) / sizeof(links[0]); i++)
		look_through(pid, links[i]);
}

/* Not yet the box's own: it has not run the command. */
static int entering(const char *pid)
{
	char path[64], name[16] = "";
	int fd;

	snprintf(path, sizeof(path), "/proc/%s/comm", pid);
	fd = open(path, O_RDONLY);
	if (fd < 0)
		return 0;
	if (read(fd, name, sizeof(name) - 1) < 0)
		name[0] = 0;
	close(fd);
	return !strncmp(name, "sbx-", 4);
}

/* Pids grow by one: the next ones are asked for before they exist, and so met as early as can be. */
static _Noreturn void watch(void)
{
	int last = getpid();
	char pid[16];

	printf("watching\n");
	fflush(stdout);
	for (;;)
		for (int next = last + 1; next < last + 8; next++) {
			if (kill(next, 0) < 0 && errno == ESRCH)
				continue;
			snprintf(pid, sizeof(pid), "%d", next);
			while (entering(pid))
				look_at_all(pid);
			fflush(stdout);
			last = next;
			break;
		}
}

static struct sockaddr_un abstract = {AF_UNIX, "\0probe-abstract"};
static struct sockaddr_in port = {.sin_family = AF_INET};

static _Noreturn void serve(void)
{
	int a = socket(AF_UNIX, SOCK_STREAM, 0), p = socket(AF_INET, SOCK_STREAM, 0);

	if (bind(a, (void *)&abstract, sizeof(abstract)) || listen(a, 5) ||
	    bind(p, (void *)&port, sizeof(port)) || listen(p, 5) ||
	    shmget(SHM_KEY, 4096, IPC_CREAT | 0666) < 0)
		exit(1);
	printf("serving\n");
	fflush(stdout);
	for (;;)
		pause();
}

static void look(void)
{
	int a = socket(AF_UNIX, SOCK_STREAM, 0), p = socket(AF_INET, SOCK_STREAM, 0);

	say("abstract", connect(a, (void *)&abstract, sizeof(abstract)));
	say("port", connect(p, (void *)&port, sizeof(port)));
	say("shm", shmget(SHM_KEY, 4096, 0));
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	port.sin_port = htons(PORT);
	port.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (!strcmp(what, "calls"))
		calls();
	else if (!strcmp(what, "fds"))
		fds();
	else if (!strcmp(what, "ids"))
		printf("%u %u\n", getuid(), geteuid());
	else if (!strcmp(what, "watch"))
		watch();
	else if (!strcmp(what, "serve"))
		serve();
	else if (!strcmp(what, "look"))
		look();
	for (int i = 2; i < argc && !strcmp(what, "kill"); i++)
		say(argv[i], kill(atoi(argv[i]), SIGTERM));
	return 0;
}
