/* SPDX-License-Identifier: Apache-2.0 */
/* Histograms: which bucket something is in, what Prometheus reads, and the same in another version. */
/* modules: vm/base/histogram.c vm/base/record.c vm/base/buf.c */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "vm/base/histogram.h"
#include "vm/base/util.h"

static const struct histogram_scale few = {.n = 3, .upto_us = {100, 2500, 60000000}};

static void test_limits_belong_to_the_bucket_below(void **state)
{
	struct histogram h = {0};

	(void)state;
	histogram_add(&h, &few, 0);
	histogram_add(&h, &few, 100);
	histogram_add(&h, &few, 101);
	histogram_add(&h, &few, 60000000);
	histogram_add(&h, &few, 60000001);
	assert_int_equal(h.in[0], 2);
	assert_int_equal(h.in[1], 1);
	assert_int_equal(h.in[2], 1);
	assert_int_equal(h.in[3], 1);
	assert_int_equal(histogram_count(&h), 5);
	assert_int_equal(h.sum_us, 120000202);
}

static void test_the_sum_stops(void **state)
{
	struct histogram h = {0};

	(void)state;
	histogram_add(&h, &few, UINT64_MAX);
	histogram_add(&h, &few, 5);
	assert_true(h.sum_us == UINT64_MAX);
	assert_int_equal(histogram_count(&h), 2);
}

static void test_text(void **state)
{
	struct histogram h = {0};
	struct buf out = {0};

	(void)state;
	histogram_add(&h, &few, 50);
	histogram_add(&h, &few, 2000);
	histogram_add(&h, &few, 70000000);
	histogram_text(&h, &few, "x_seconds", "a=\"b\"", &out);
	assert_string_equal(buf_str(&out), "x_seconds_bucket{a=\"b\",le=\"0.0001\"} 1\n"
					   "x_seconds_bucket{a=\"b\",le=\"0.0025\"} 2\n"
					   "x_seconds_bucket{a=\"b\",le=\"60\"} 2\n"
					   "x_seconds_bucket{a=\"b\",le=\"+Inf\"} 3\n"
					   "x_seconds_sum{a=\"b\"} 70.00205\n"
					   "x_seconds_count{a=\"b\"} 3\n");
	buf_clear(&out);
	h = (struct histogram){0};
	histogram_text(&h, &few, "y", "", &out);
	assert_string_equal(buf_str(&out), "y_bucket{le=\"0.0001\"} 0\n"
					   "y_bucket{le=\"0.0025\"} 0\n"
					   "y_bucket{le=\"60\"} 0\n"
					   "y_bucket{le=\"+Inf\"} 0\n"
					   "y_sum 0\n"
					   "y_count 0\n");
	buf_clear(&out);
}

static void test_scales_rise(void **state)
{
	const struct histogram_scale *const scales[] = {&histogram_fast, &histogram_slow};

	(void)state;
	for (unsigned s = 0; s < ARRAY_SIZE(scales); s++) {
		assert_in_range(scales[s]->n, 1, HISTOGRAM_BUCKETS - 1);
		for (unsigned i = 1; i < scales[s]->n; i++)
			assert_true(scales[s]->upto_us[i - 1] < scales[s]->upto_us[i]);
	}
	assert_int_equal(histogram_slow.upto_us[histogram_slow.n - 1], 3600000000ull);
}

static void test_the_next_daemon(void **state)
{
	static const struct histogram_scale other = {.n = 2, .upto_us = {1000, 90000000}};
	struct histogram h = {0}, same = {0}, there = {0};
	struct buf out = {0};

	(void)state;
	histogram_add(&h, &few, 50);
	histogram_add(&h, &few, 2000);
	histogram_add(&h, &few, 70000000);
	histogram_put(&h, &few, &out);
	assert_int_equal(histogram_get(&same, &few, record_reader(out.data, out.len)), 0);
	assert_memory_equal(&same, &h, sizeof(h));
	/* 2000 us were in a bucket to 2500, all of which is in the one to 90 s; the longest may have been longer than that. */
	assert_int_equal(histogram_get(&there, &other, record_reader(out.data, out.len)), 0);
	assert_int_equal(there.in[0], 1);
	assert_int_equal(there.in[1], 1);
	assert_int_equal(there.in[2], 1);
	for (size_t cut = 1; cut < out.len; cut++) {
		struct histogram some = {0};

		if (histogram_get(&some, &few, record_reader(out.data, cut)) == 0)
			assert_true(histogram_count(&some) < histogram_count(&h));
	}
	buf_clear(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_limits_belong_to_the_bucket_below),
		cmocka_unit_test(test_the_sum_stops),
		cmocka_unit_test(test_text),
		cmocka_unit_test(test_scales_rise),
		cmocka_unit_test(test_the_next_daemon),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
