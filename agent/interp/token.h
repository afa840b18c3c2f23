/* SPDX-License-Identifier: Apache-2.0 */
/* Tokens that authenticate a driver's answers: a keyed hash of the request's nonce. */
#ifndef XSBX_AGENT_INTERP_TOKEN_H
#define XSBX_AGENT_INTERP_TOKEN_H

#include <stdint.h>
#include <string.h>

#include "driver.h"

/*
 * The hash is SipHash-2-4, by J.-P. Aumasson and D. J. Bernstein: designed for short messages, and
 * not predictable without the key.
 */

static inline uint64_t token_turn(uint64_t x, int bits)
{
	return x << bits | x >> (64 - bits);
}

static inline void token_rounds(uint64_t v[4], int n)
{
	while (n--) {
		v[0] += v[1];
		v[1] = token_turn(v[1], 13) ^ v[0];
		v[0] = token_turn(v[0], 32);
		v[2] += v[3];
		v[3] = token_turn(v[3], 16) ^ v[2];
		v[0] += v[3];
		v[3] = token_turn(v[3], 21) ^ v[0];
		v[2] += v[1];
		v[1] = token_turn(v[1], 17) ^ v[2];
		v[2] = token_turn(v[2], 32);
	}
}

/**
 * token_make() - Make the token of a request's nonce, for the answer
 * @key: Key shared by the agent and the driver
 * @nonce: Nonce of the request
 * @ret_token: Result; may be @nonce
 */
static inline void token_make(const uint8_t key[DRIVER_KEY_SIZE], const uint8_t nonce[DRIVER_NONCE],
			      uint8_t ret_token[DRIVER_NONCE])
{
	uint64_t k[2], m[3] = {0, 0, (uint64_t)DRIVER_NONCE << 56};
	uint64_t v[4];

	memcpy(k, key, sizeof(k));
	memcpy(m, nonce, DRIVER_NONCE);
	v[0] = k[0] ^ 0x736f6d6570736575;
	v[1] = k[1] ^ 0x646f72616e646f6d;
	v[2] = k[0] ^ 0x6c7967656e657261;
	v[3] = k[1] ^ 0x7465646279746573;
	for (int i = 0; i < 3; i++) {
		v[3] ^= m[i];
		token_rounds(v, 2);
		v[0] ^= m[i];
	}
	v[2] ^= 0xff;
	token_rounds(v, 4);
	v[0] ^= v[1] ^ v[2] ^ v[3];
	memset(ret_token, 0, DRIVER_NONCE);
	memcpy(ret_token, v, sizeof(v[0]));
}

#endif
