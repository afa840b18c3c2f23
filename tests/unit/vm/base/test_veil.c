/* SPDX-License-Identifier: Apache-2.0 */
/* The veil over what is on a disk: what it makes of bytes, in any part of them. */
/* modules: vm/base/veil.c */
/* libs: crypto */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "vm/base/veil.h"

/* NIST SP 800-38A, F.5.5: CTR-AES256. */
static const unsigned char key[VEIL_KEY] = {0x60, 0x3d, 0xeb, 0x10, 0x15, 0xca, 0x71, 0xbe,
					    0x2b, 0x73, 0xae, 0xf0, 0x85, 0x7d, 0x77, 0x81,
					    0x1f, 0x35, 0x2c, 0x07, 0x3b, 0x61, 0x08, 0xd7,
					    0x2d, 0x98, 0x10, 0xa3, 0x09, 0x14, 0xdf, 0xf4};
static const unsigned char counter[VEIL_NONCE] = {0xf0, 0xf1, 0xf2, 0xf3, 0xf4, 0xf5, 0xf6, 0xf7,
						  0xf8, 0xf9, 0xfa, 0xfb, 0xfc, 0xfd, 0xfe, 0xff};
static const unsigned char plain[32] = {0x6b, 0xc1, 0xbe, 0xe2, 0x2e, 0x40, 0x9f, 0x96,
					0xe9, 0x3d, 0x7e, 0x11, 0x73, 0x93, 0x17, 0x2a,
					0xae, 0x2d, 0x8a, 0x57, 0x1e, 0x03, 0xac, 0x9c,
					0x9e, 0xb7, 0x6f, 0xac, 0x45, 0xaf, 0x8e, 0x51};
static const unsigned char veiled[32] = {0x60, 0x1e, 0xc3, 0x13, 0x77, 0x57, 0x89, 0xa5,
					 0xb7, 0xa7, 0xf5, 0x04, 0xbb, 0xf3, 0xd2, 0x28,
					 0xf4, 0x43, 0xe3, 0xca, 0x4d, 0x62, 0xb5, 0x9a,
					 0xca, 0x84, 0xe9, 0x90, 0xca, 0xca, 0xf5, 0xc5};

static void is_the_standard(void **state)
{
	unsigned char out[32];

	(void)state;
	assert_int_equal(veil(key, counter, 0, plain, out, 32), 0);
	assert_memory_equal(out, veiled, 32);
	assert_int_equal(veil(key, counter, 0, out, out, 32), 0); /* in place, and off again */
	assert_memory_equal(out, plain, 32);
}

static void has_parts(void **state)
{
	unsigned char out[32];

	(void)state;
	for (size_t from = 0; from < 32; from++) {
		for (size_t to = from; to <= 32; to++) {
			assert_int_equal(veil(key, counter, from, veiled + from, out, to - from),
					 0);
			assert_memory_equal(out, plain + from, to - from);
		}
	}
}

/* The counter goes on above what fits into its last bytes. */
static void carries(void **state)
{
	static const unsigned char full[VEIL_NONCE] = {[0 ... VEIL_NONCE - 1] = 0xff};
	static const unsigned char zero[VEIL_NONCE];
	unsigned char a[16] = {0}, b[16] = {0};

	(void)state;
	assert_int_equal(veil(key, full, 16, a, a, 16), 0);
	assert_int_equal(veil(key, zero, 0, b, b, 16), 0);
	assert_memory_equal(a, b, 16);
	memset(a, 0, sizeof(a));
	assert_int_equal(veil(key, counter, 16ull << 40, a, a, 16), 0);
	assert_memory_not_equal(a, b, 16);
}

static void is_random(void **state)
{
	unsigned char a[VEIL_KEY] = {0}, b[VEIL_KEY] = {0};

	(void)state;
	assert_int_equal(veil_random(a, sizeof(a)), 0);
	assert_int_equal(veil_random(b, sizeof(b)), 0);
	assert_memory_not_equal(a, b, sizeof(a));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(is_the_standard),
		cmocka_unit_test(has_parts),
		cmocka_unit_test(carries),
		cmocka_unit_test(is_random),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
