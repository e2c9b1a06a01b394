#include "base/sha256.h"

#include <stdio.h>
#include <string.h>

/* FIPS 180-4, 4.2.2: fractional parts of the cube roots of the first 64 primes. */
static const uint32_t K[64] = {
	0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4,
	0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe,
	0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f,
	0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7,
	0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc,
	0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
	0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116,
	0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
	0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7,
	0xc67178f2};

static inline uint32_t ror(uint32_t x, unsigned n)
{
	return x >> n | x << (32 - n);
}

/* clang-format off */
#define ROUND(a, b, c, d, e, f, g, h, i) do { \
	uint32_t t = (h) + (ror(e, 6) ^ ror(e, 11) ^ ror(e, 25)) + (((e) & (f)) ^ (~(e) & (g))) + \
		     K[i] + w[i]; \
	(d) += t; \
	(h) = t + (ror(a, 2) ^ ror(a, 13) ^ ror(a, 22)) + (((a) & (b)) ^ ((a) & (c)) ^ ((b) & (c))); \
} while (0)
/* clang-format on */

/* 6.2.2: one block of 64 bytes. */
static void block(uint32_t h[8], const unsigned char *p)
{
	uint32_t w[64], a = h[0], b = h[1], c = h[2], d = h[3], e = h[4], f = h[5], g = h[6],
			k = h[7];

	for (int i = 0; i < 16; i++, p += 4)
		w[i] = (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
	for (int i = 16; i < 64; i++) {
		uint32_t x = w[i - 15], y = w[i - 2];

		w[i] = w[i - 16] + (ror(x, 7) ^ ror(x, 18) ^ x >> 3) + w[i - 7] +
		       (ror(y, 17) ^ ror(y, 19) ^ y >> 10);
	}
	/* Eight rounds at a time, so that the variables need not change places. */
	for (int i = 0; i < 64; i += 8) {
		ROUND(a, b, c, d, e, f, g, k, i);
		ROUND(k, a, b, c, d, e, f, g, i + 1);
		ROUND(g, k, a, b, c, d, e, f, i + 2);
		ROUND(f, g, k, a, b, c, d, e, i + 3);
		ROUND(e, f, g, k, a, b, c, d, i + 4);
		ROUND(d, e, f, g, k, a, b, c, i + 5);
		ROUND(c, d, e, f, g, k, a, b, i + 6);
		ROUND(b, c, d, e, f, g, k, a, i + 7);
	}
	h[0] += a;
	h[1] += b;
	h[2] += c;
	h[3] += d;
	h[4] += e;
	h[5] += f;
	h[6] += g;
	h[7] += k;
}

void sha256_start(struct sha256 *s)
{
	/* 5.3.3: fractional parts of the square roots of the first 8 primes. */
	*s = (struct sha256){.h = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f,
				   0x9b05688c, 0x1f83d9ab, 0x5be0cd19}};
}

void sha256_add(struct sha256 *s, const void *data, size_t n)
{
	const unsigned char *p = data;
	size_t have = s->bytes % 64;

	s->bytes += n;
	if (have) {
		size_t k = 64 - have < n ? 64 - have : n;

		memcpy(s->part + have, p, k);
		if (have + k < 64)
			return;
		block(s->h, s->part);
		p += k;
		n -= k;
	}
	for (; n >= 64; p += 64, n -= 64)
		block(s->h, p);
	if (n)
		memcpy(s->part, p, n);
}

void sha256_end(struct sha256 *s, char hex[65])
{
	unsigned char pad[72] = {0x80};
	uint64_t bits = s->bytes * 8;
	size_t n = 64 - (s->bytes + 8) % 64; /* 0x80 and zeros, up to where the length goes */

	for (int i = 0; i < 8; i++)
		pad[n + (size_t)i] = (unsigned char)(bits >> (56 - 8 * i));
	sha256_add(s, pad, n + 8);
	for (int i = 0; i < 8; i++)
		snprintf(hex + 8 * (size_t)i, 9, "%08x", s->h[i]);
}

int sha_valid(const char *hex)
{
	return strlen(hex) == SHA_HEX && strspn(hex, "0123456789abcdef") == SHA_HEX;
}
