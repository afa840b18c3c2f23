/* SPDX-License-Identifier: Apache-2.0 */
/* Links: records cut anywhere, sent twice, left out, and begun anew. */
/* modules: agent/link.c agent/protocol.c */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "agent/link.h"
#include "agent/protocol.h"

static struct link_in in;
static struct link_out out;
static uint8_t wire[1 << 20];
static size_t len;

static int setup(void **state)
{
	(void)state;
	memset(&in, 0, sizeof(in));
	memset(&out, 0, sizeof(out));
	len = 0;
	return 0;
}

/* Appends a record to `wire`. */
static void record(const char *text)
{
	const size_t n = strlen(text);

	link_head(&out, n, wire + len);
	for (size_t i = 0; i < n; i++)
		wire[len + LINK_HEADER + i] = (uint8_t)text[i];
	len += LINK_HEADER + n;
}

/* Takes all of `wire` in pieces of this size. */
static void expect(size_t step, const char *text)
{
	uint8_t bytes[256];
	size_t got = 0;

	for (size_t at = 0; at < len; at += step) {
		const size_t n = step < len - at ? step : len - at;
		ssize_t r;

		memcpy(bytes + got, wire + at, n);
		r = link_take(&in, bytes + got, n);
		assert_true(r >= 0 && (size_t)r <= n);
		got += (size_t)r;
	}
	assert_int_equal(got, strlen(text));
	assert_memory_equal(bytes, text, got);
	len = 0;
}

static void cut_anywhere(void **state)
{
	(void)state;
	for (size_t step = 1; step < 60; step++) {
		record("one");
		record("and two");
		record("x");
		expect(step, "oneand twox");
	}
}

static void sent_twice(void **state)
{
	struct link_out before;

	(void)state;
	record("a");
	record("b");
	before = out;
	record("c");
	record("d");
	expect(5, "abcd");
	out = before;
	record("c");
	record("d");
	record("e");
	expect(3, "e");
	out = before;
	record("c");
	expect(100, "");
	out.next = 5;
	record("f");
	expect(100, "f");
}

static void left_out(void **state)
{
	(void)state;
	record("a");
	expect(100, "a");
	out.next++;
	record("c");
	assert_int_equal(link_take(&in, wire, len), -EPROTO);
}

/* Who begins in the middle is believed, and who begins anew. */
static void begins(void **state)
{
	(void)state;
	out.next = 4711;
	record("a");
	expect(100, "a");
	record("b");
	expect(100, "b");
	out.next = 0;
	record("new");
	record("and more");
	expect(7, "newand more");
}

static void goes_round(void **state)
{
	(void)state;
	out.next = UINT32_MAX;
	record("last");
	assert_int_equal(out.next, 1);
	record("first");
	expect(100, "lastfirst");
	out.next = UINT32_MAX;
	record("last");
	record("first");
	record("second");
	expect(100, "second");
}

static void lengths(void **state)
{
	static const uint32_t bad[] = {0, LINK_DATA_MAX + 1, PROTO_PAYLOAD_MAX, 0xffffffff};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		struct proto_out o = {wire, 0, LINK_HEADER, false};

		put_u32(&o, bad[i]);
		put_u32(&o, 0);
		memset(&in, 0, sizeof(in));
		assert_int_equal(link_take(&in, wire, LINK_HEADER), -EPROTO);
	}
	memset(&in, 0, sizeof(in));
	link_head(&out, LINK_DATA_MAX, wire);
	assert_int_equal(link_take(&in, wire, LINK_RECORD_MAX), LINK_DATA_MAX);
	assert_int_equal(in.left, 0);
}

/* Half a record of somebody who is gone. */
static void cut(void **state)
{
	uint8_t half[LINK_HEADER + 2];

	(void)state;
	record("a");
	expect(100, "a");
	record("never whole");
	memcpy(half, wire, sizeof(half));
	len = 0;
	assert_int_equal(link_take(&in, half, sizeof(half)), 2);
	link_cut(&in);
	out.next = 0;
	record("b");
	expect(100, "b");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(cut_anywhere, setup),
		cmocka_unit_test_setup(sent_twice, setup),
		cmocka_unit_test_setup(left_out, setup),
		cmocka_unit_test_setup(begins, setup),
		cmocka_unit_test_setup(goes_round, setup),
		cmocka_unit_test_setup(lengths, setup),
		cmocka_unit_test_setup(cut, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
