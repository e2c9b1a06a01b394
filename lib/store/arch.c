#include "store/arch.h"

#include <string.h>
#include <sys/utsname.h>

const char *arch_node(void)
{
	static const char *const names[][2] = {
		{"x86_64", "amd64"},	{"aarch64", "arm64"},	{"armv7l", "arm"},
		{"i686", "386"},	{"ppc64le", "ppc64le"}, {"s390x", "s390x"},
		{"riscv64", "riscv64"},
	};
	static struct utsname u;

	uname(&u);
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (!strcmp(u.machine, names[i][0]))
			return names[i][1];
	return u.machine;
}
