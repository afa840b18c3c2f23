/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-256. */
#include "digest.h"

#include <errno.h>
#include <openssl/evp.h>
#include <stdbool.h>

#include "util.h"

struct digest {
	EVP_MD_CTX *ctx;
	bool bad;
};

struct digest *digest_new(void)
{
	struct digest *d = calloc(1, sizeof(*d));

	if (!d)
		return NULL;
	d->ctx = EVP_MD_CTX_new();
	d->bad = !d->ctx || EVP_DigestInit_ex(d->ctx, EVP_sha256(), NULL) != 1;
	return d;
}

void digest_add(struct digest *d, const void *data, size_t len)
{
	if (!d->bad && EVP_DigestUpdate(d->ctx, data, len) != 1)
		d->bad = true;
}

int digest_end(struct digest *d, char ret_hex[DIGEST_HEX])
{
	unsigned char md[EVP_MAX_MD_SIZE];
	unsigned n = 0;
	bool bad;

	ret_hex[0] = '\0';
	if (!d)
		return -ENOMEM;
	bad = d->bad || EVP_DigestFinal_ex(d->ctx, md, &n) != 1;
	EVP_MD_CTX_free(d->ctx);
	free(d);
	for (unsigned i = 0; !bad && i < n && i < (DIGEST_HEX - 1) / 2; i++)
		snprintf(ret_hex + 2 * (size_t)i, 3, "%02x", md[i]);
	return bad ? -ENOMEM : 0;
}

int digest_of(const void *data, size_t len, char ret_hex[DIGEST_HEX])
{
	struct digest *d = digest_new();

	if (d)
		digest_add(d, data, len);
	return digest_end(d, ret_hex);
}

bool digest_is_hex(const char *s)
{
	return strspn(s, "0123456789abcdef") == DIGEST_HEX - 1 && s[DIGEST_HEX - 1] == '\0';
}
