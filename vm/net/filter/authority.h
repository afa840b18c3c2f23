/* SPDX-License-Identifier: Apache-2.0 */
/* The session's own certificate authority, by which connections over TLS are looked into. */
#ifndef XSBX_VM_NET_FILTER_AUTHORITY_H
#define XSBX_VM_NET_FILTER_AUTHORITY_H

#include <openssl/types.h>
#include <stddef.h>
#include <stdint.h>

#define AUTHORITY_DER_MAX 1024
#define AUTHORITY_LEAVES  64 /* certificates that are kept */

struct authority;

/**
 * authority_new() - Make a key and a certificate for it
 * @ret_authority: Result; end it with authority_free()
 *
 * The key is in this process's memory alone. The certificate is valid from 2000 to 2099: a sandbox's clock may be set to another
 * day. It follows RFC 5280, in what strict verifiers look at.
 *
 * Return: 0 or -ENOMEM.
 */
int authority_new(struct authority **ret_authority);
void authority_free(struct authority *a);

/* Its certificate, as DER. Return: the length, or -E2BIG. */
int authority_der(const struct authority *a, uint8_t ret_der[static AUTHORITY_DER_MAX]);

/**
 * authority_leaf() - Get the certificate of a server
 * @a: Authority
 * @name: Its canonical name, or IPv4 address as text
 * @ret_key: Its key, which all of them have in common
 *
 * Return: The certificate, owned by the authority until its next call; NULL if out of memory.
 */
X509 *authority_leaf(struct authority *a, const char *name, EVP_PKEY **ret_key);

#endif
