/* SHA-256 as images use it: streams, and 64 lower-case hex digits. */
#ifndef STORE_DIGEST_H
#define STORE_DIGEST_H
#include <openssl/evp.h>
#include <stddef.h>

EVP_MD_CTX *sha_new(void); /* ready for EVP_DigestUpdate; ends the process without memory */
int sha_end(EVP_MD_CTX *c, char hex[65]); /* -1 after fail(); C stays the caller's */
int sha_hex(const void *p, size_t n, char hex[65]);
#endif
