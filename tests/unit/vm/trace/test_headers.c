/* SPDX-License-Identifier: Apache-2.0 */
/* Headers for a collector: as OpenTelemetry has them, and what is none. */
/* modules: vm/trace/headers.c */
/* libs: curl */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "vm/base/util.h"
#include "vm/trace/headers.h"

/* Headers, with line feeds between. */
static void expect(const char *text, const char *want, size_t first, size_t wrong)
{
	struct curl_slist *list = NULL;
	char all[1024] = "";
	size_t len = 0, n;

	assert_int_equal(headers_add(&list, text, &n), first);
	assert_int_equal(n, wrong);
	for (const struct curl_slist *l = list; l; l = l->next)
		len += (size_t)snprintf(all + len, sizeof(all) - len, "%s%s", l->data,
					l->next ? "\n" : "");
	assert_string_equal(all, want);
	curl_slist_free_all(list);
}

static void test_headers(void **state)
{
	(void)state;
	expect("a=b", "a: b", 0, 0);
	expect("api-key=k,other=v w", "api-key: k\nother: v w", 0, 0);
	expect(" a = b ,\tc\t=\td", "a: b\nc: d", 0, 0);
	expect("a=b==,c=%3d%2C%20x", "a: b==\nc: =, x", 0, 0);
	expect("Authorization=Bearer%20a.b-c", "Authorization: Bearer a.b-c", 0, 0);
	expect("a=", "a;", 0, 0);
	expect("a=b,,c=d, ,", "a: b\nc: d", 0, 0);
	expect("", "", 0, 0);
	expect("a=%c3%a9", "a: \xc3\xa9", 0, 0);
}

/* What would be another header, or another request. */
static void test_wrong(void **state)
{
	static const char *const bad[] = {"a",
					  "=b",
					  "a b=c",
					  "a:=c",
					  "a=b\r\nc: d",
					  "a=%0d%0ac",
					  "a=%00",
					  "a=%",
					  "a=%4",
					  "a=%zz",
					  "a=b\x7f",
					  "content-type=x",
					  "Content-Length=3",
					  "Transfer-Encoding=chunked",
					  "expect=x",
					  "\xc3\xa9=b"};
	char text[64];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		expect(bad[i], "", 1, 1);
		snprintf(text, sizeof(text), "x=y,%s,z=%%41", bad[i]);
		expect(text, "x: y\nz: A", 2, 1);
	}
	expect("a=b,c,d", "a: b", 2, 2);
}

static void test_long(void **state)
{
	struct curl_slist *list = NULL;
	char *text = malloc(20000);
	size_t n;

	(void)state;
	assert_non_null(text);
	memset(text, 'x', 20000);
	text[1] = '=';
	text[8000] = '\0';
	assert_int_equal(headers_add(&list, text, &n), 0);
	assert_int_equal(strlen(list->data), 8001);
	text[8000] = 'x';
	text[19999] = '\0';
	assert_int_equal(headers_add(&list, text, &n), 1);
	curl_slist_free_all(list);
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_headers),
		cmocka_unit_test(test_wrong),
		cmocka_unit_test(test_long),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
