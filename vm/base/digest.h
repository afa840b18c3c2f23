/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-256. */
#ifndef XSBX_VM_BASE_DIGEST_H
#define XSBX_VM_BASE_DIGEST_H

#include <stdbool.h>
#include <stddef.h>

#define DIGEST_HEX 65 /* characters, with the terminator */

struct digest;

/* Return: NULL if out of memory. */
struct digest *digest_new(void);
void digest_add(struct digest *d, const void *data, size_t len);

/* Finishes and frees it; @d may be NULL. Return: 0, or -ENOMEM if anything has failed before. */
int digest_end(struct digest *d, char ret_hex[DIGEST_HEX]);

/* The digest of one piece of data. Return: 0 or -ENOMEM. */
int digest_of(const void *data, size_t len, char ret_hex[DIGEST_HEX]);

/* Is it one, as text? */
bool digest_is_hex(const char *s);

#endif
