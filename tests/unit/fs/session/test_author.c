/* SPDX-License-Identifier: Apache-2.0 */
/* What runs and jobs are called where somebody asks who wrote a file. */
/* modules: fs/session/author.c */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "fs/session/author.h"
#include "fs/session/session.h"

static struct session demo = {.name = "demo", .created = {1000, 5000}},
		      again = {.name = "demo", .created = {1001, 0}};

static void shows(const struct session *s, const char *said, const char *want)
{
	char text[AUTHOR_SHOWN];

	assert_int_equal(author_show(s, said, strlen(said), text), strlen(want));
	assert_string_equal(text, want);
}

static void test_own(void **state)
{
	(void)state;
	shows(&demo, author_of_run(&demo, 7).text, "run 7");
	shows(&demo, author_of_job(&demo, "build").text, "job build");
}

/* Also if it was called the same. */
static void test_others(void **state)
{
	(void)state;
	shows(&again, author_of_run(&demo, 7).text, "run 7 of demo");
	shows(&again, author_of_job(&demo, "of").text, "job of of demo");
}

static void test_several(void **state)
{
	char said[3 * AUTHOR_SHOWN];

	(void)state;
	snprintf(said, sizeof(said), "%s or client or %s", author_of_run(&demo, 7).text,
		 author_of_job(&again, "or").text);
	shows(&demo, said, "run 7 or client or job or of demo");
	shows(&again, said, "run 7 of demo or client or job or");
}

/* It is the sandbox that says it. */
static void test_anything(void **state)
{
	const struct author own = author_of_run(&demo, 1);

	(void)state;
	shows(&demo, "", "");
	shows(&demo, "client", "client");
	shows(&demo, ":", "");
	shows(&demo, " : ", "  ");
	shows(&demo, strchr(own.text, ':'), "");
}

static void test_longest(void **state)
{
	char said[PROTO_ORIGIN_MAX + 1];

	(void)state;
	memset(said, 'x', PROTO_ORIGIN_MAX);
	said[PROTO_ORIGIN_MAX] = '\0';
	shows(&demo, said, said);
	memset(again.name, 'n', 64);
	shows(&again, author_of_run(&again, UINT32_MAX).text, "run 4294967295");
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_own),	cmocka_unit_test(test_others),
		cmocka_unit_test(test_several), cmocka_unit_test(test_anything),
		cmocka_unit_test(test_longest),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
