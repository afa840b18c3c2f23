/* SPDX-License-Identifier: Apache-2.0 */
/* Secrets are taken out of streams, wherever they are cut, and in whichever form they come. */
/* modules: vm/net/filter/redact.c vm/net/filter/secret_value.c vm/base/buf.c */
/* libs: crypto */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "vm/base/buf.h"
#include "vm/base/util.h"
#include "vm/net/filter/redact.h"
#include "vm/net/filter/secret_value.h"

#define VALUE "s3cr&t/\"V4lue\" <x>"

static struct redact_set set;
static struct buf out;

static void add(const char *name, const char *value)
{
	struct secret_value *v;

	assert_int_equal(secret_value_new(name, value, strlen(value), &v), 0);
	assert_int_equal(redact_set_add(&set, v), 0);
	secret_value_unref(v); /* the set keeps it */
}

static int setup(void **state)
{
	(void)state;
	add("tok", VALUE);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	redact_set_fini(&set);
	buf_clear(&out);
	return 0;
}

static void emit(void *data, const void *bytes, size_t len)
{
	(void)data;
	assert_int_equal(buf_append(&out, bytes, len), 0);
}

/* What comes out if @text comes in, in three parts. */
static const char *redacted(const char *text, size_t first, size_t second)
{
	struct redact r = {.set = &set, .emit = emit};
	const size_t len = strlen(text);

	buf_clear(&out);
	assert_int_equal(redact_feed(&r, text, first), 0);
	assert_int_equal(redact_feed(&r, text + first, second - first), 0);
	assert_int_equal(redact_feed(&r, text + second, len - second), 0);
	redact_finish(&r);
	redact_fini(&r);
	return buf_str(&out);
}

static void becomes(const char *text, const char *expected)
{
	const size_t len = strlen(text);

	assert_int_equal(strlen(expected), len);
	for (size_t a = 0; a <= len; a++)
		for (size_t b = a; b <= len; b++)
			assert_string_equal(redacted(text, a, b), expected);
}

static void wherever_it_is_cut(void **state)
{
	(void)state;
	becomes("nothing of it s3cr&t/\"V4lue\" <", "nothing of it s3cr&t/\"V4lue\" <");
	becomes("a " VALUE " b", "a xsbx-secret-tok*** b");
	becomes(VALUE VALUE, "xsbx-secret-tok***xsbx-secret-tok***");
	becomes("s3cr&t/" VALUE "s3c", "s3cr&t/xsbx-secret-tok***s3c");
	becomes("", "");
}

/* Is @text, with the value in it in some form, what the guest gets? */
static void is_hidden(const char *text)
{
	struct redact r = {.set = &set, .emit = emit};

	buf_clear(&out);
	for (size_t i = 0; i < strlen(text); i++)
		assert_int_equal(redact_feed(&r, text + i, 1), 0);
	redact_finish(&r);
	redact_fini(&r);
	if (!strstr(buf_str(&out), "xsbx-secret-tok") || out.len != strlen(text))
		fail_msg("%s became %s", text, buf_str(&out));
}

static void in_all_forms(void **state)
{
	static const char *const forms[] = {
		"s3cr%26t%2F%22V4lue%22%20%3Cx%3E",
		"s3cr%26t%2f%22V4lue%22%20%3cx%3e",
		"k=s3cr%26t%2F%22V4lue%22+%3Cx%3E&b",
		"{\"a\": \"s3cr&t/\\\"V4lue\\\" <x>\"}",
		"{\"a\": \"s3cr&t\\/\\\"V4lue\\\" <x>\"}",
		"{\"a\": \"s3cr\\u0026t/\\\"V4lue\\\" \\u003cx\\u003e\"}",
		"{\"a\": \"s3cr\\u0026t/\\u0022V4lue\\u0022 \\u003Cx\\u003E\"}", /* .NET */
		"<p>s3cr&amp;t/&quot;V4lue&quot; &lt;x&gt;",
		"7333637226742f2256346c756522203c783e",
		"7333637226742F2256346C756522203C783E",
		"Basic dXNlcjpzM2NyJnQvIlY0bHVlIiA8eD4=",	/* user: */
		"Basic YmI6czNjciZ0LyJWNGx1ZSIgPHg+",		/* bb: */
		"Basic YTpzM2NyJnQvIlY0bHVlIiA8eD4=",		/* a: */
		"czNjciZ0LyJWNGx1ZSIgPHg-",			/* the other alphabet */
		"eyJhIjoiczNjciZ0LyJWNGx1ZSIgPHg+IiwgImIiOjF9", /* in the middle of something */
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(forms); i++)
		is_hidden(forms[i]);
}

/* What is often in base64, and in JSON by .NET is no more. */
static void plus(void **state)
{
	static const char text[] = "{\"a\": \"wJalr\\u002BUtn/FEMI\"}";

	(void)state;
	redact_set_fini(&set);
	add("tok", "wJalr+Utn/FEMI");
	assert_null(strstr(redacted(text, 3, 9), "FEMI"));
}

/* What some encoder or template engine makes of characters that are often in secrets, and of base64. */
static void spelt_by_others(void **state)
{
	static const char *const forms[] = {
		"Basic d0phbHIrVT9uL35GRT9JPT0%3D",
		"Basic d0phbHIrVT9uL35GRT9JPT0%3d",
		"Basic YXdKYWxyK1U\\/bi9+RkU\\/ST09",
		"Basic YXdKYWxyK1U%2Fbi9%2BRkU%2FST09",
		"Basic YXdKYWxyK1U%2fbi9%2bRkU%2fST09",
		"Basic YXdKYWxyK1U/bi9\\u002BRkU/ST09",
		"Basic YXdKYWxyK1U/bi9&#43;RkU/ST09",
		"Basic YXdKYWxyK1U&#x2F;bi9+RkU&#x2F;ST09",
		"Basic YmJ3SmFscitVP24vfkZFP0k9PQ%3D%3D",
		"Basic YmJ3SmFscitVP24vfkZFP0k9PQ%3d%3d",
		"wJalr+U%3Fn%2F~FE%3FI==",
		"<p>wJalr&#43;U?n/~FE?I==",
		"<p>wJalr+U?n/~FE?I&#x3D;&#x3D;",
		"<p>wJalr+U?n&#x2F;~FE?I&#x3D;&#x3D;",
	};

	(void)state;
	redact_set_fini(&set);
	add("tok", "wJalr+U?n/~FE?I==");
	for (size_t i = 0; i < ARRAY_SIZE(forms); i++)
		is_hidden(forms[i]);
}

/* In characters of two or four bytes, in either order. */
static void wide(void **state)
{
	uint8_t text[4 * sizeof(VALUE)] = {0};
	const size_t len = strlen(VALUE);

	(void)state;
	for (size_t width = 2; width <= 4; width += 2)
		for (size_t first = 0; first < width; first += width - 1) {
			memset(text, 0, sizeof(text));
			for (size_t i = 0; i < len; i++)
				text[i * width + first] = (uint8_t)VALUE[i];
			assert_true(redact_text(&set, text, len * width));
			assert_null(memmem(text, sizeof(text), "V\0", 2));
		}
}

static void longest_counts(void **state)
{
	(void)state;
	add("part", "V4lue\" <x>-and-more");
	add("head", "s3cr&t");
	becomes("s3cr&t s3cr&t/", "xsbx-s xsbx-s/");
	becomes("x" VALUE "y", "xxsbx-secret-tok***y");
	/* One that begins in another: neither is left. */
	becomes("s3cr&t/\"V4lue\" <x>-and-more", "xsbx-secxsbx-secret-part***");
}

/* What waits for an answer goes on, and what comes afterwards is still no secret's end. */
static void flushed(void **state)
{
	struct redact r = {.set = &set, .emit = emit};

	(void)state;
	assert_int_equal(redact_feed(&r, "ping", 4), 0);
	assert_int_equal(out.len, 0);
	assert_true(redact_holds(&r));
	redact_flush(&r);
	assert_string_equal(buf_str(&out), "ping");
	assert_false(redact_holds(&r));
	assert_int_equal(redact_feed(&r, "s3cr", 4), 0);
	redact_flush(&r);
	assert_int_equal(redact_feed(&r, VALUE "!", strlen(VALUE) + 1), 0);
	assert_int_equal(redact_feed(&r, "s3cr&", 5), 0);
	redact_flush(&r);
	assert_int_equal(redact_feed(&r, &VALUE[5], strlen(VALUE) - 5), 0);
	redact_finish(&r);
	assert_string_equal(buf_str(&out), "pings3crxsbx-secret-tok***!s3cr&secret-tok***");
	redact_fini(&r);
}

/* What is held back does not depend on what it is. */
static void no_oracle(void **state)
{
	struct redact r = {.set = &set, .emit = emit};
	char text[200];
	size_t n;

	(void)state;
	memset(text, 'x', sizeof(text));
	assert_int_equal(redact_feed(&r, text, 150), 0);
	n = out.len;
	assert_int_equal(n, 150 - (set.longest - 1));
	redact_finish(&r);
	buf_clear(&out);
	memcpy(text + 150 - 5, VALUE, 5);
	assert_int_equal(redact_feed(&r, text, 150), 0);
	assert_int_equal(out.len, n);
	redact_fini(&r);
}

/* While a stream is on its way another secret goes over the connection. */
static void grows(void **state)
{
	struct redact r = {.set = &set, .emit = emit};

	(void)state;
	redact_set_fini(&set);
	assert_int_equal(redact_feed(&r, "abc", 3), 0);
	assert_string_equal(buf_str(&out), "abc");
	add("late", "another one");
	assert_int_equal(redact_feed(&r, "another ", 8), 0);
	add("later", "this one is much longer");
	assert_int_equal(redact_feed(&r, "one, this one is much longer", 28), 0);
	redact_finish(&r);
	assert_string_equal(buf_str(&out), "abcxsbx-secret, xsbx-secret-later******");
	redact_fini(&r);
}

static void text(void **state)
{
	char line[] = "Bearer " VALUE, other[] = "Bearer";

	(void)state;
	assert_true(redact_text(&set, line, strlen(line)));
	assert_string_equal(line, "Bearer xsbx-secret-tok***");
	assert_false(redact_text(&set, other, strlen(other)));
	assert_false(redact_text(&set, NULL, 0));
}

static void values(void **state)
{
	char big[SECRET_VALUE_MAX + 1];
	struct secret_value *v;

	(void)state;
	memset(big, '<', sizeof(big));
	assert_int_equal(secret_value_new("a", "12345", 5, &v), -EMSGSIZE);
	assert_int_equal(secret_value_new("a", big, sizeof(big), &v), -EMSGSIZE);
	assert_int_equal(secret_value_new("a", "12345\n", 6, &v), -EINVAL);
	assert_int_equal(secret_value_new("a", "12345\x7f", 6, &v), -EINVAL);
	assert_int_equal(secret_value_new("a", "12345\0", 6, &v), -EINVAL);
	for (int c = ' '; c < 256; c++) {
		if (c == 0x7f)
			continue;
		memset(big, c, sizeof(big));
		assert_int_equal(secret_value_new("a", big, SECRET_VALUE_MAX, &v), 0);
		assert_true(v->nforms >= 1 && v->nforms < SECRET_FORMS_MAX);
		assert_memory_equal(v->form[0].bytes, big, SECRET_VALUE_MAX);
		secret_value_unref(secret_value_ref(v));
		secret_value_unref(v);
	}
	secret_value_unref(NULL);
}

static void full(void **state)
{
	char value[20];
	struct secret_value *v;

	(void)state;
	for (unsigned i = 1; i < REDACT_VALUES_MAX; i++) {
		snprintf(value, sizeof(value), "value %u", i);
		add("n", value);
	}
	assert_int_equal(secret_value_new("n", "one more", 8, &v), 0);
	assert_int_equal(redact_set_add(&set, v), -ENOSPC);
	assert_int_equal(redact_set_add(&set, set.value[3]), 0);
	secret_value_unref(v);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(wherever_it_is_cut),
		TEST(in_all_forms),
		TEST(spelt_by_others),
		TEST(wide),
		TEST(plus),
		TEST(longest_counts),
		TEST(flushed),
		TEST(no_oracle),
		TEST(grows),
		TEST(text),
		TEST(values),
		TEST(full),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
