#include "store/erofs_disk.h"

#include <string.h>
#include <sys/stat.h>

static const struct {
	const char *text;
	int index;
} prefixes[] = {
	{"user.", 1},
	{"system.posix_acl_access", 2},
	{"system.posix_acl_default", 3},
	{"trusted.", 4},
	{"security.", 6},
};

enum { PREFIXES = sizeof(prefixes) / sizeof(*prefixes) };

int erofs_prefix(const char *name, size_t *len)
{
	for (size_t i = 0; i < PREFIXES; i++) {
		*len = strlen(prefixes[i].text);
		if (!strncmp(name, prefixes[i].text, *len))
			return prefixes[i].index;
	}
	return 0;
}

const char *erofs_prefix_text(int index)
{
	for (size_t i = 0; i < PREFIXES; i++)
		if (prefixes[i].index == index)
			return prefixes[i].text;
	return NULL;
}

uint8_t erofs_type(uint32_t mode)
{
	static const struct {
		mode_t fmt;
		uint8_t type;
	} all[] = {
		{S_IFREG, 1}, {S_IFDIR, 2},  {S_IFCHR, 3}, {S_IFBLK, 4},
		{S_IFIFO, 5}, {S_IFSOCK, 6}, {S_IFLNK, 7},
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
		if ((mode & S_IFMT) == all[i].fmt)
			return all[i].type;
	return 0;
}

/* CRC-32C as the kernel's crc32c(): reflected, not inverted at the end. */
static uint32_t crc32c(uint32_t crc, const unsigned char *p, size_t n)
{
	while (n--) {
		crc ^= *p++;
		for (int i = 0; i < 8; i++)
			crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78 : 0);
	}
	return crc;
}

uint32_t erofs_checksum(const void *sb, size_t n)
{
	static const unsigned char zero[4];
	const unsigned char *p = sb;
	size_t at = offsetof(struct erofs_super, checksum);
	uint32_t crc = crc32c(~0u, p, at);

	crc = crc32c(crc, zero, sizeof(zero));
	return crc32c(crc, p + at + sizeof(zero), n - at - sizeof(zero));
}
