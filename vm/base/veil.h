/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes in a file that only this process, and who it gives the key to, can read: for what is on a disk as long as it is needed. */
#ifndef XSBX_VM_BASE_VEIL_H
#define XSBX_VM_BASE_VEIL_H

#include <stddef.h>
#include <stdint.h>

/*
 * AES-256 in counter mode: bytes stay where they are, and any part of them can be read. The key is made at random and is on no
 * disk; whatever is written has a nonce of its own, which is kept where it is known what was written. That nothing was changed
 * there, the veil does not say: who can write to a file without a name could as well change the process.
 */
#define VEIL_KEY   32u
#define VEIL_NONCE 16u

/* Fills in a key, or a nonce. Return: 0 or -EIO. */
int veil_random(unsigned char *bytes, size_t len);

/* Puts the veil on bytes from @offset on, or takes it off. @to may be @from. Return: 0 or -ENOMEM. */
int veil(const unsigned char key[VEIL_KEY], const unsigned char nonce[VEIL_NONCE], uint64_t offset,
	 const void *from, void *to, size_t len);

#endif
