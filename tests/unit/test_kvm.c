/* SPDX-License-Identifier: Apache-2.0 */
/* The trial of KVM, and the measurement of the time stamp counter. */
/* modules: vm/kvm.c vm/tsc.c */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include "vm/kvm.h"
#include "vm/tsc.h"

static uint64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* Whatever this host has, there is a verdict in time, in one sentence. */
static void verdict(void **state)
{
	const uint64_t start = now_ms();
	struct kvm_verdict v;

	(void)state;
	memset(&v, 0xff, sizeof(v));
	kvm_probe_sync(&v);
	assert_true(now_ms() - start < KVM_PROBE_MS + 1000);
	assert_true(v.usable <= 1);
	assert_true(strlen(v.why) > 10);
	assert_int_equal(v.why[strlen(v.why) - 1], '.');
	print_message("%s\n", v.why);
}

static void no_verdict(void **state)
{
	struct kvm_verdict v;

	(void)state;
	kvm_verdict_none(&v, true);
	assert_false(v.usable);
	assert_non_null(strstr(v.why, "slow"));
}

static void khz(void **state)
{
	const struct tsc_sample a = {1000000, 5000000000}, b = {211000000, 5100000000};
	const struct tsc_sample close_to_a = {1000100, 5000000050};

	(void)state;
	assert_int_equal(tsc_khz_between(&a, &b), 2100000);
	assert_int_equal(tsc_khz_between(&a, &close_to_a), 0);
	assert_int_equal(tsc_khz_between(&b, &a), 0);
}

/* Two measurements agree to 200 ppm, on a busy machine too. */
static void stable(void **state)
{
	struct tsc_meter one, two;
	long long x, y;

	(void)state;
	tsc_start(&one);
	x = (long long)tsc_khz(&one);
	tsc_start(&two);
	y = (long long)tsc_khz(&two);
	assert_true(x > 100000 && x < 10000000);
	assert_true(llabs(x - y) < x / 5000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(verdict),
		cmocka_unit_test(no_verdict),
		cmocka_unit_test(khz),
		cmocka_unit_test(stable),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
