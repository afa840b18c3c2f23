/* SPDX-License-Identifier: Apache-2.0 */
/* Spans on their way to a collector: lines that come in pieces, a queue with a limit, bodies made of it. */
/* modules: vm/trace/spans.c vm/base/buf.c */
/* libs: jansson */
#include <errno.h>
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "vm/trace/spans.h"

static const char lines[] =
	"R[{\"key\":\"a\"}]\nS{\"n\":1}\n\nS\nX{\"n\":9}\nS{\"n\":2}\nS{\"n\":3}\n";

/* The numbers of the spans in a body, and how many attributes its resource has. */
static void expect_body(const struct spans *q, size_t n, int first, size_t attributes)
{
	struct buf out = {0};
	json_t *o, *spans, *resource;

	assert_int_equal(spans_body(q, &out), n);
	o = json_loadb(out.data, out.len, 0, NULL);
	assert_non_null(o);
	assert_int_equal(json_unpack(o, "{s:[{s:{s:o}, s:[{s:o}]}]}", "resourceSpans", "resource",
				     "attributes", &resource, "scopeSpans", "spans", &spans),
			 0);
	assert_int_equal(json_array_size(resource), attributes);
	assert_int_equal(json_array_size(spans), n);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(json_integer_value(json_object_get(json_array_get(spans, i), "n")),
				 first + (int)i);
	json_decref(o);
	buf_clear(&out);
}

static void test_pieces(void **state)
{
	(void)state;
	for (size_t cut = 0; cut < sizeof(lines); cut++) {
		struct spans q;

		spans_init(&q);
		expect_body(&q, 0, 0, 0);
		assert_int_equal(spans_read(&q, lines, cut), 0);
		assert_int_equal(spans_read(&q, lines + cut, sizeof(lines) - 1 - cut), 0);
		expect_body(&q, 3, 1, 1);
		spans_drop(&q, 2);
		expect_body(&q, 1, 3, 1);
		spans_drop(&q, 5);
		assert_int_equal(q.n, 0);
		assert_int_equal(q.bytes, 0);
		spans_fini(&q);
	}
}

static void test_limits(void **state)
{
	static char much[100000];
	char line[32];
	struct spans q;
	size_t lost = 0;

	(void)state;
	spans_init(&q);
	for (unsigned i = 0; i < SPANS_MAX + 3; i++) {
		snprintf(line, sizeof(line), "S{\"n\":%u}\n", i);
		lost += spans_read(&q, line, strlen(line));
	}
	assert_int_equal(lost, 3);
	assert_int_equal(q.n, SPANS_MAX);
	expect_body(&q, SPANS_BATCH, 0, 0);
	/* The oldest stay. */
	spans_drop(&q, SPANS_BATCH);
	expect_body(&q, SPANS_BATCH, SPANS_BATCH, 0);
	/* A line that does not end is forgotten, and the next one is whole. */
	spans_drop(&q, q.n);
	memset(much, 'x', sizeof(much));
	assert_int_equal(spans_read(&q, much, sizeof(much)), 0);
	assert_int_equal(spans_read(&q, "\nS{\"n\":7}\n", 10), 0);
	expect_body(&q, 1, 7, 0);
	spans_fini(&q);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pieces),
		cmocka_unit_test(test_limits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
