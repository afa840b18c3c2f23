/* SPDX-License-Identifier: Apache-2.0 */
/* Streams of bytes that follow from a key. */
/* modules: agent/core/chacha.c */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "agent/core/chacha.h"

/* ChaCha20 of the key 0, 1, ... 31, with these last words of its input: as another implementation has it. */
static void known(void **state)
{
	/* counter 0x70000001, nonce "\x02\0\0\0\0\0\0\0syek": kind, number, and what says that it is a key. */
	static const uint8_t want[16] = {0xc5, 0x8d, 0x3b, 0x22, 0x66, 0x15, 0x4a, 0x16,
					 0x49, 0x83, 0x9c, 0x1f, 0x75, 0xba, 0xec, 0xab};
	/* counter 1, nonce 0, 0, "erts": the second block of a stream. */
	static const uint8_t want_stream[16] = {0x12, 0x52, 0x41, 0x8c, 0xa0, 0x3a, 0x5a, 0x60,
						0x6f, 0x81, 0xa2, 0xdd, 0x48, 0x7b, 0xf1, 0x17};
	uint8_t key[CHACHA_KEY], out[CHACHA_KEY];

	(void)state;
	for (unsigned i = 0; i < sizeof(key); i++)
		key[i] = (uint8_t)i;
	chacha_derive(key, 0x70000001, 2, out);
	assert_memory_equal(out, want, sizeof(want));
	chacha_bytes(key, 64, out, 16);
	assert_memory_equal(out, want_stream, sizeof(want_stream));
}

static void divided(void **state)
{
	static const uint8_t key[CHACHA_KEY] = {7};
	uint8_t whole[300], part[300];

	(void)state;
	chacha_bytes(key, 0, whole, sizeof(whole));
	for (size_t step = 1; step < 140; step += 13) {
		for (size_t at = 0; at < sizeof(part); at += step) {
			const size_t n = sizeof(part) - at < step ? sizeof(part) - at : step;

			chacha_bytes(key, at, part + at, n);
		}
		assert_memory_equal(part, whole, sizeof(whole));
	}
}

static void kinds(void **state)
{
	static const uint8_t key[CHACHA_KEY] = {1};
	uint8_t keys[5][CHACHA_KEY];

	(void)state;
	chacha_derive(key, 1, 0, keys[0]);
	chacha_derive(key, 2, 0, keys[1]);
	chacha_derive(key, 1, 1, keys[2]);
	chacha_derive(key, 1, 1ull << 32, keys[3]);
	chacha_bytes(key, 0, keys[4], CHACHA_KEY);
	for (unsigned i = 0; i < 5; i++) {
		for (unsigned k = 0; k < i; k++)
			assert_memory_not_equal(keys[i], keys[k], CHACHA_KEY);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(known),
		cmocka_unit_test(divided),
		cmocka_unit_test(kinds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
