#include "store/digest.h"

#include <stdio.h>

#include "base/buf.h"
#include "base/die.h"

EVP_MD_CTX *sha_new(void)
{
	EVP_MD_CTX *c = EVP_MD_CTX_new();

	if (!c || !EVP_DigestInit_ex(c, EVP_sha256(), NULL))
		xnomem();
	return c;
}

int sha_end(EVP_MD_CTX *c, char hex[65])
{
	unsigned char raw[EVP_MAX_MD_SIZE];
	unsigned n = 0;

	if (!EVP_DigestFinal_ex(c, raw, &n) || n != 32)
		return failx("cannot finish SHA-256");
	for (unsigned i = 0; i < n; i++)
		snprintf(hex + 2 * i, 3, "%02x", raw[i]);
	return 0;
}

int sha_hex(const void *p, size_t n, char hex[65])
{
	EVP_MD_CTX *c = sha_new();
	int r;

	EVP_DigestUpdate(c, p, n);
	r = sha_end(c, hex);
	EVP_MD_CTX_free(c);
	return r;
}
