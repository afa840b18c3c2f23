/* SPDX-License-Identifier: Apache-2.0 */
/* Records: what was written is read, by who knows more of it and by who knows less; what is damaged is refused. */
/* modules: vm/base/record.c vm/base/buf.c */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "vm/base/record.h"
#include "vm/base/util.h"

enum { NUMBER = 1, SIGNED, TEXT, WHEN, INSIDE, FLAG, UNKNOWN = 127 };

static void fill(struct buf *b)
{
	struct timespec t = {.tv_sec = -3, .tv_nsec = 999999999};
	size_t at = record_begin(b, 7, 0x123456789abcdef0), inside;

	record_u64(b, UNKNOWN, 5);
	record_bytes(b, UNKNOWN, "xyz", 3);
	record_u64(b, NUMBER, UINT64_MAX);
	record_i64(b, SIGNED, INT64_MIN);
	record_str(b, TEXT, "a word");
	record_str(b, TEXT, NULL);
	record_time(b, WHEN, &t);
	inside = record_open(b, INSIDE);
	record_u64(b, NUMBER, 0);
	record_close(b, inside);
	record_u64(b, FLAG, 1);
	assert_int_equal(record_end(b, at), 0);
	at = record_begin(b, 8, 0);
	assert_int_equal(record_end(b, at), 0);
}

static void there_and_back(void **state)
{
	struct buf b = {0};
	struct record_reader r, in;
	struct record rec;
	struct record_field f, g = {0};
	struct timespec t = {0};
	uint64_t n = 0;
	int64_t i = 0;
	bool flag = false;
	char text[7] = "";
	unsigned seen = 0;

	(void)state;
	fill(&b);
	r = record_reader(b.data, b.len);
	assert_int_equal(record_next(&r, &rec), 1);
	assert_int_equal(rec.kind, 7);
	assert_true(rec.key == 0x123456789abcdef0);
	while (record_field(&rec.fields, &f) > 0) {
		seen++;
		switch (f.tag) {
		case NUMBER:
			assert_int_equal(record_get(&f, 0, UINT64_MAX - 1, &n), -EBADMSG);
			assert_int_equal(record_get(&f, 0, UINT64_MAX, &n), 0);
			break;
		case SIGNED: assert_int_equal(record_get_i64(&f, &i), 0); break;
		case TEXT:
			assert_int_equal(record_get_str(&f, text, sizeof(text) - 1), -EBADMSG);
			assert_int_equal(record_get_u32(&f, 9, &(uint32_t){0}), -EBADMSG);
			assert_int_equal(record_get_str(&f, text, sizeof(text)), 0);
			break;
		case WHEN: assert_int_equal(record_get_time(&f, &t), 0); break;
		case INSIDE:
			in = record_inside(&f);
			assert_int_equal(record_field(&in, &g), 1);
			assert_int_equal(g.tag, NUMBER);
			assert_true(g.u64 == 0 && !g.is_bytes);
			assert_int_equal(record_field(&in, &g), 0);
			break;
		case FLAG: assert_int_equal(record_get_bool(&f, &flag), 0); break;
		default: assert_int_equal(f.tag, UNKNOWN);
		}
	}
	assert_int_equal(seen, 8);
	assert_true(n == UINT64_MAX && i == INT64_MIN && flag);
	assert_string_equal(text, "a word");
	assert_true(t.tv_sec == -3 && t.tv_nsec == 999999999);
	assert_int_equal(record_next(&r, &rec), 1);
	assert_int_equal(rec.kind, 8);
	assert_int_equal(record_field(&rec.fields, &f), 0);
	assert_int_equal(record_next(&r, &rec), 0);
	buf_clear(&b);
}

static void signs(void **state)
{
	static const int64_t v[] = {0, 1, -1, 63, -64, 64, -65, INT64_MAX, INT64_MIN + 1};

	(void)state;
	for (size_t k = 0; k < ARRAY_SIZE(v); k++) {
		struct buf b = {0};
		struct record_reader r;
		struct record_field f;
		int64_t got = 42;

		record_i64(&b, 1, v[k]);
		assert_true(b.len == 2 || v[k] > 63 || v[k] < -64);
		r = record_reader(b.data, b.len);
		assert_int_equal(record_field(&r, &f), 1);
		assert_int_equal(record_get_i64(&f, &got), 0);
		assert_true(got == v[k]);
		buf_clear(&b);
	}
}

/* Goes through all of it. Return: 0 or -EBADMSG. */
static int walk(const void *data, size_t len)
{
	struct record_reader r = record_reader(data, len);
	struct record rec;
	struct record_field f;
	int n, m;

	while ((n = record_next(&r, &rec)) > 0) {
		while ((m = record_field(&rec.fields, &f)) > 0)
			;
		if (m < 0)
			return m;
	}
	return n;
}

/* Of a copy that ends where its memory ends, so that a sanitizer sees who looks behind it. */
static void cut_off(void **state)
{
	struct buf b = {0};
	unsigned whole = 0;

	(void)state;
	fill(&b);
	for (size_t len = 0; len <= b.len; len++) {
		void *copy = malloc(len ? len : 1);

		assert_non_null(copy);
		memcpy(copy, b.data, len);
		whole += walk(copy, len) == 0;
		free(copy);
	}
	assert_int_equal(whole, 3); /* none, one and two records */
	buf_clear(&b);
}

static void damaged(void **state)
{
	static const unsigned char endless[] = {1, 128, 128, 128, 128, 128, 128, 128, 128, 128, 2},
				   behind[] = {128 | 1, 255, 255, 255, 255, 0};
	struct record_reader r = record_reader(endless, sizeof(endless));
	struct record_field f;

	(void)state;
	assert_int_equal(record_field(&r, &f), -EBADMSG);
	r = record_reader(behind, sizeof(behind));
	assert_int_equal(record_field(&r, &f), -EBADMSG);
}

static void contents(void **state)
{
	struct record_field f = {.is_bytes = true, .data = "a\0b", .len = 3};
	struct buf small = {.limit = 2}, b = {0};
	char text[8];

	(void)state;
	assert_int_equal(record_get_str(&f, text, sizeof(text)), -EBADMSG);
	assert_int_equal(record_get_buf(&f, &small), -EBADMSG);
	assert_int_equal(buf_append(&b, "before", 6), 0);
	assert_int_equal(record_get_buf(&f, &b), 0);
	assert_int_equal(b.len, 3);
	assert_memory_equal(b.data, "a\0b", 3);
	buf_clear(&b);
}

/* What does not fit is said at the end, once. */
static void no_room(void **state)
{
	struct buf b = {.limit = 40};
	size_t at = record_begin(&b, 1, 1);

	(void)state;
	record_bytes(&b, 1, "0123456789012345678901234567890", 31);
	record_u64(&b, 2, 1);
	assert_int_equal(record_end(&b, at), -EFBIG);
	buf_clear(&b);
}

/* Bytes that become a field where they are. */
static void head_alone(void **state)
{
	unsigned char there[RECORD_BYTES_HEAD + 6] = "-----twelve";
	struct record_reader r = record_reader(there, sizeof(there));
	struct buf b = {0};
	struct record_field f;

	(void)state;
	record_bytes(&b, TEXT, "twelve", 6);
	record_bytes_head(there, TEXT, 6);
	assert_int_equal(b.len, sizeof(there));
	assert_memory_equal(there, b.data, b.len);
	assert_int_equal(record_field(&r, &f), 1);
	assert_int_equal(f.tag, TEXT);
	assert_memory_equal(f.data, "twelve", 6);
	assert_int_equal(record_field(&r, &f), 0);
	buf_clear(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(head_alone), cmocka_unit_test(there_and_back),
		cmocka_unit_test(signs),      cmocka_unit_test(cut_off),
		cmocka_unit_test(damaged),    cmocka_unit_test(contents),
		cmocka_unit_test(no_room),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
