#include "kern/seccomp.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/die.h"

int seccomp_load_bpf(const void *bpf, size_t n)
{
	struct sock_fprog p = {
		.len = (unsigned short)(n / sizeof(struct sock_filter)),
		.filter = (struct sock_filter *)bpf,
	};

	if (!n || n > SECCOMP_MAX || n % sizeof(struct sock_filter)) {
		errno = EINVAL;
		return fail("cannot load a seccomp filter of %zu bytes", n);
	}
	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &p) < 0)
		return fail("cannot load the seccomp filter");
	return 0;
}
