/*
 * SHA-256 (FIPS 180-4) for the small static tools, which verify a layer's metadata before they mount
 * it: a library would cost more than the hashing. Programs that have OpenSSL use store/digest.h.
 */
#ifndef BASE_SHA256_H
#define BASE_SHA256_H
#include <stddef.h>
#include <stdint.h>

enum { SHA_HEX = 64 };

int sha_valid(const char *hex); /* 64 lower-case hex digits, and nothing else */

struct sha256 {
	uint32_t h[8];
	uint64_t bytes;
	unsigned char part[64]; /* what is left of bytes % 64 */
};

void sha256_start(struct sha256 *s);
void sha256_add(struct sha256 *s, const void *p, size_t n);
void sha256_end(struct sha256 *s, char hex[SHA_HEX + 1]); /* lower-case digits and a NUL */
#endif
