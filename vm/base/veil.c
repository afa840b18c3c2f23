/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes that only this process can read. See veil.h. */
#include "veil.h"

#include <errno.h>
#include <limits.h>
#include <openssl/evp.h>
#include <string.h>
#include <sys/random.h>

#include "util.h"

#define BLOCK 16u /* of AES */

int veil_random(unsigned char *bytes, size_t len)
{
	return getrandom(bytes, len, 0) == (ssize_t)len ? 0 : -EIO;
}

/* The counter is a number of 128 bits, the most significant byte first. */
static void add(unsigned char counter[VEIL_NONCE], uint64_t n)
{
	for (size_t i = VEIL_NONCE; i-- > 0 && n; n >>= 8) {
		n += counter[i];
		counter[i] = (unsigned char)n;
	}
}

int veil(const unsigned char key[VEIL_KEY], const unsigned char nonce[VEIL_NONCE], uint64_t offset,
	 const void *from, void *to, size_t len)
{
	unsigned char counter[VEIL_NONCE], before[BLOCK] = {0};
	EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();
	const int skip = (int)(offset % BLOCK);
	int n = 0;
	bool good;

	memcpy(counter, nonce, sizeof(counter));
	add(counter, offset / BLOCK);
	good = len <= INT_MAX && ctx &&
	       EVP_EncryptInit_ex(ctx, EVP_aes_256_ctr(), NULL, key, counter) == 1 &&
	       EVP_EncryptUpdate(ctx, before, &n, before, skip) == 1 && n == skip &&
	       EVP_EncryptUpdate(ctx, to, &n, from, (int)len) == 1 && n == (int)len;
	EVP_CIPHER_CTX_free(ctx);
	return good ? 0 : -ENOMEM;
}
