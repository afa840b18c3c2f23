/* SPDX-License-Identifier: Apache-2.0 */
/* ChaCha20 as a source of bytes that follow from a key: streams, and keys of other streams. */
#ifndef XSBX_AGENT_CORE_CHACHA_H
#define XSBX_AGENT_CORE_CHACHA_H

#include <stddef.h>
#include <stdint.h>

#define CHACHA_KEY 32u

/**
 * chacha_derive() - Make a key from another one
 * @key: That one
 * @kind: What it is for
 * @number: Which of these
 * @ret_key: The key; may be @key
 */
void chacha_derive(const uint8_t key[CHACHA_KEY], uint32_t kind, uint64_t number,
		   uint8_t ret_key[CHACHA_KEY]);

/**
 * chacha_bytes() - Bytes of the stream of a key
 * @key: The key
 * @at: How many come before
 * @out: Filled in
 * @len: How many
 *
 * They do not depend on how the stream is divided into calls.
 */
void chacha_bytes(const uint8_t key[CHACHA_KEY], uint64_t at, uint8_t *out, size_t len);

#endif
