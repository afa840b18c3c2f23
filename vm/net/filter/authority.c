/* SPDX-License-Identifier: Apache-2.0 */
/* The session's own certificate authority, by which connections over TLS are looked into. */
#include "authority.h"

#include <arpa/inet.h>
#include <errno.h>
#include <openssl/evp.h>
#include <openssl/rand.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <stdbool.h>
#include <string.h>

#include "vm/base/allow.h"
#include "vm/base/util.h"

struct leaf {
	char name[ALLOW_NAME_MAX + 1];
	X509 *cert;
};

struct authority {
	EVP_PKEY *key, *leaf_key;
	X509 *cert;
	struct leaf leaf[AUTHORITY_LEAVES];
	unsigned nleaves, next;
};

static bool add_extension(X509 *cert, X509 *issuer, int nid, const char *value)
{
	X509_EXTENSION *ext;
	X509V3_CTX ctx;
	bool ok;

	X509V3_set_ctx_nodb(&ctx);
	X509V3_set_ctx(&ctx, issuer, cert, NULL, NULL, 0);
	ext = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
	ok = ext && X509_add_ext(cert, ext, -1);
	X509_EXTENSION_free(ext);
	return ok;
}

static bool set_serial(X509 *cert)
{
	uint8_t bytes[16];
	BIGNUM *n;
	bool ok;

	if (RAND_bytes(bytes, sizeof(bytes)) != 1)
		return false;
	bytes[0] = (bytes[0] & 0x3f) | 0x40; /* positive, and of full length */
	n = BN_bin2bn(bytes, sizeof(bytes), NULL);
	ok = n && BN_to_ASN1_INTEGER(n, X509_get_serialNumber(cert));
	BN_free(n);
	return ok;
}

/* What all of them have in common. Return: owned by the caller, or NULL. */
static X509 *new_cert(const char *common_name, X509 *issuer, EVP_PKEY *key)
{
	X509 *cert = X509_new();
	X509_NAME *name = cert ? X509_get_subject_name(cert) : NULL;
	const uint8_t *text = (const uint8_t *)common_name;

	if (name && X509_set_version(cert, X509_VERSION_3) && set_serial(cert) &&
	    ASN1_TIME_set_string(X509_getm_notBefore(cert), "20000101000000Z") &&
	    ASN1_TIME_set_string(X509_getm_notAfter(cert), "20991231235959Z") &&
	    X509_NAME_add_entry_by_txt(name, "O", MBSTRING_ASC, (const uint8_t *)"xsbxfs", -1, -1,
				       0) &&
	    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, text, -1, -1, 0) &&
	    X509_set_issuer_name(cert, issuer ? X509_get_subject_name(issuer) : name) &&
	    X509_set_pubkey(cert, key))
		return cert;
	X509_free(cert);
	return NULL;
}

static bool make_root(struct authority *a)
{
	X509 *c = new_cert("network filter of a sandbox", NULL, a->key);

	a->cert = c;
	return c && add_extension(c, c, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") &&
	       add_extension(c, c, NID_key_usage, "critical,keyCertSign,cRLSign") &&
	       add_extension(c, c, NID_subject_key_identifier, "hash") &&
	       X509_sign(c, a->key, EVP_sha256());
}

int authority_new(struct authority **ret_authority)
{
	struct authority *a = calloc(1, sizeof(*a));

	if (!a)
		return -ENOMEM;
	a->key = EVP_EC_gen("P-256");
	a->leaf_key = EVP_EC_gen("P-256");
	if (!a->key || !a->leaf_key || !make_root(a)) {
		authority_free(a);
		return -ENOMEM;
	}
	*ret_authority = a;
	return 0;
}

void authority_free(struct authority *a)
{
	if (!a)
		return;
	for (unsigned i = 0; i < a->nleaves; i++)
		X509_free(a->leaf[i].cert);
	X509_free(a->cert);
	EVP_PKEY_free(a->key);
	EVP_PKEY_free(a->leaf_key);
	free(a);
}

int authority_der(const struct authority *a, uint8_t ret_der[static AUTHORITY_DER_MAX])
{
	const int len = i2d_X509(a->cert, NULL);

	if (len < 0 || len > AUTHORITY_DER_MAX)
		return -E2BIG;
	return i2d_X509(a->cert, &ret_der);
}

static X509 *make_leaf(struct authority *a, const char *name)
{
	char alternative[ALLOW_NAME_MAX + 16];
	struct in_addr address;
	X509 *c;

	snprintf(alternative, sizeof(alternative), "%s:%s",
		 inet_pton(AF_INET, name, &address) == 1 ? "IP" : "DNS", name);
	/* A common name has at most 64 characters, and nobody looks at it. */
	c = new_cert(strlen(name) <= 64 ? name : "server", a->cert, a->leaf_key);
	if (c && add_extension(c, a->cert, NID_basic_constraints, "critical,CA:FALSE") &&
	    add_extension(c, a->cert, NID_key_usage, "critical,digitalSignature") &&
	    add_extension(c, a->cert, NID_ext_key_usage, "serverAuth") &&
	    add_extension(c, a->cert, NID_subject_key_identifier, "hash") &&
	    add_extension(c, a->cert, NID_authority_key_identifier, "keyid:always") &&
	    add_extension(c, a->cert, NID_subject_alt_name, alternative) &&
	    X509_sign(c, a->key, EVP_sha256()))
		return c;
	X509_free(c);
	return NULL;
}

X509 *authority_leaf(struct authority *a, const char *name, EVP_PKEY **ret_key)
{
	struct leaf *l = NULL;
	X509 *cert;

	*ret_key = a->leaf_key;
	for (unsigned i = 0; i < a->nleaves; i++)
		if (!strcmp(a->leaf[i].name, name))
			return a->leaf[i].cert;
	cert = make_leaf(a, name);
	if (!cert)
		return NULL;
	if (a->nleaves < AUTHORITY_LEAVES) {
		l = &a->leaf[a->nleaves++];
	} else { /* the oldest goes */
		l = &a->leaf[a->next++ % AUTHORITY_LEAVES];
		X509_free(l->cert);
	}
	snprintf(l->name, sizeof(l->name), "%s", name);
	l->cert = cert;
	return cert;
}
