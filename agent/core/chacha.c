/* SPDX-License-Identifier: Apache-2.0 */
/* ChaCha20. See chacha.h. */
#include "chacha.h"

#include <string.h>

#define BLOCK	  64u
#define ROUNDS	  10 /* double ones */

/* The last word of a block's input, so that keys and streams have none in common. */
#define OF_KEYS	  0x6b657973u
#define OF_STREAM 0x73747265u

static uint32_t rotate(uint32_t v, unsigned n)
{
	return v << n | v >> (32 - n);
}

static void quarter(uint32_t *x, unsigned a, unsigned b, unsigned c, unsigned d)
{
	x[a] += x[b];
	x[d] = rotate(x[d] ^ x[a], 16);
	x[c] += x[d];
	x[b] = rotate(x[b] ^ x[c], 12);
	x[a] += x[b];
	x[d] = rotate(x[d] ^ x[a], 8);
	x[c] += x[d];
	x[b] = rotate(x[b] ^ x[c], 7);
}

static uint32_t word(const uint8_t *at)
{
	return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 |
	       (uint32_t)at[3] << 24;
}

/* One block of RFC 8439; @nonce are the last four words of its input, the counter among them. */
static void block(const uint8_t key[CHACHA_KEY], const uint32_t nonce[4], uint8_t out[BLOCK])
{
	uint32_t in[16] = {0x61707865, 0x3320646e, 0x79622d32, 0x6b206574}, x[16];

	for (unsigned i = 0; i < 8; i++)
		in[4 + i] = word(key + 4 * i);
	memcpy(in + 12, nonce, 4 * sizeof(*nonce));
	memcpy(x, in, sizeof(x));
	for (int i = 0; i < ROUNDS; i++) {
		for (unsigned k = 0; k < 4; k++)
			quarter(x, k, k + 4, k + 8, k + 12);
		for (unsigned k = 0; k < 4; k++)
			quarter(x, k, 4 + (k + 1) % 4, 8 + (k + 2) % 4, 12 + (k + 3) % 4);
	}
	for (unsigned i = 0; i < 16; i++) {
		const uint32_t v = x[i] + in[i];

		for (unsigned k = 0; k < 4; k++)
			out[4 * i + k] = (uint8_t)(v >> 8 * k);
	}
}

void chacha_derive(const uint8_t key[CHACHA_KEY], uint32_t kind, uint64_t number,
		   uint8_t ret_key[CHACHA_KEY])
{
	const uint32_t nonce[4] = {kind, (uint32_t)number, (uint32_t)(number >> 32), OF_KEYS};
	uint8_t out[BLOCK];

	block(key, nonce, out);
	memcpy(ret_key, out, CHACHA_KEY);
}

void chacha_bytes(const uint8_t key[CHACHA_KEY], uint64_t at, uint8_t *out, size_t len)
{
	while (len > 0) {
		const uint64_t number = at / BLOCK;
		const size_t skip = at % BLOCK;
		const size_t n = len < BLOCK - skip ? len : BLOCK - skip;
		const uint32_t nonce[4] = {(uint32_t)number, (uint32_t)(number >> 32), 0,
					   OF_STREAM};
		uint8_t bytes[BLOCK];

		block(key, nonce, bytes);
		memcpy(out, bytes + skip, n);
		out += n;
		at += n;
		len -= n;
	}
}
