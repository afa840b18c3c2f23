/* SPDX-License-Identifier: Apache-2.0 */
/* What is learnt of connections and requests: the rules are rules, short, and allow what was seen. */
/* modules: fs/session/lessons.c fs/request/clock.c vm/base/buf.c vm/base/rules.c vm/base/place.c vm/base/allow.c vm/base/words.c */
/* modules: vm/base/http_path.c */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "fs/session/lessons.h"
#include "vm/base/http_path.h"
#include "vm/base/rules.h"
#include "vm/vm.h"

static struct lessons l;

static int teardown(void **state)
{
	(void)state;
	lessons_fini(&l);
	return 0;
}

static void see(const char *method, const char *host, uint16_t port, const char *path)
{
	const struct sandbox_logged w = {
		.method = method, .host = host, .port = port, .path = path};

	lessons_note(&l, &w);
}

static void says(const char *expected)
{
	struct buf out = {0}, again = {0};
	struct lessons copy = {0};

	assert_int_equal(lessons_render(&l, &out), 0);
	assert_string_equal(buf_str(&out), expected);
	/* What was written reads as the same. */
	assert_int_equal(lessons_parse(&copy, buf_str(&out)), 0);
	assert_int_equal(lessons_render(&copy, &again), 0);
	assert_string_equal(buf_str(&again), expected);
	lessons_fini(&copy);
	buf_clear(&out);
	buf_clear(&again);
}

static void shortest(void **state)
{
	(void)state;
	says("");
	see("GET", "b.test", 443, "/v1/users?page=1");
	says("allow GET b.test/v1/users\n");
	see("GET", "b.test", 443, "/v1/users?page=2");
	says("allow GET b.test/v1/users\n");
	see("POST", "b.test", 80, "/v1/user/7");
	says("allow GET,POST b.test/v1/*\n");
	see("GET", "b.test", 443, "/v2");
	says("allow GET,POST b.test/*\n");
	see("", "a.test", 443, "");
	see("", "a.test", 80, "");
	see("GET", "a.test", 80, "/x");
	see("", "c.test", 22, "");
	see("GET", "c.test", 8080, "/a*b");
	says("allow * a.test\nallow GET,POST b.test/*\nallow * c.test:22\nallow GET "
	     "c.test:8080/a%2Ab\n");
}

static void refused(void **state)
{
	const struct sandbox_logged w = {
		.method = "GET", .host = "a.test", .port = 80, .path = "/", .refused = true};

	(void)state;
	lessons_note(&l, &w);
	says("");
}

/* No rule names it: "?" is what a filter says where none was said, and one that was taken over says what it likes. */
static void no_name(void **state)
{
	static const char *const hosts[] = {"?",	"*",	  "*.test", "a.test:81",
					    "a.test/x", "A.test", ""};
	struct lessons former = {0};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(hosts); i++) {
		see("", hosts[i], 80, "");
		see("GET", hosts[i], 81, "/");
	}
	says("");
	see("", "10.0.0.1", 80, "");
	says("allow * 10.0.0.1\n");
	/* Versions before have written it down. */
	assert_int_equal(lessons_parse(&former, "allow * ?\nallow * a.test\n"), 0);
	assert_int_equal(former.n, 1);
	lessons_fini(&former);
}

static void odd(void **state)
{
	(void)state;
	see("GET", "a.test", 443, "/v1/..%2fx");
	says("allow GET a.test/*\n");
	see("OPTIONS", "b.test", 443, "*");
	says("allow GET a.test/*\nallow OPTIONS b.test/*\n");
}

/* Each request that was seen is allowed by what was learnt of all. */
static void allows(void **state)
{
	static const char *const paths[] = {"/",  "/a/b",     "/a//c",	"/a/%7eb/x", "/a/b/../c",
					    "/A", "/a/b;v=1", "/x%2fy", "/*"};
	static struct http_path path;
	struct buf out = {0};
	struct rules rules;
	char why[128];

	(void)state;
	for (size_t first = 0; first < ARRAY_SIZE(paths); first++) {
		for (size_t then = 0; then < ARRAY_SIZE(paths); then++) {
			see("GET", "a.test", 443, paths[first]);
			see("PUT", "a.test", 443, paths[then]);
			assert_int_equal(lessons_render(&l, &out), 0);
			assert_int_equal(rules_parse(out.data, out.len, &rules, why), 0);
			for (int i = 0; i < 2; i++) {
				const char *p = paths[i ? then : first];
				const struct rule_question q = {i ? "PUT" : "GET", "a.test", 443,
								&path};

				assert_int_equal(http_path_read(p, strlen(p), &path), 0);
				if (rules_judge(&rules, &q, RULE_DENY).verb != RULE_ALLOW)
					fail_msg("%s does not allow %s", buf_str(&out), p);
			}
			rules_fini(&rules);
			buf_clear(&out);
			lessons_fini(&l);
		}
	}
}

static void many(void **state)
{
	char host[32];
	struct buf out = {0};

	(void)state;
	for (int i = 0; i < LESSONS_MAX + 3; i++) {
		snprintf(host, sizeof(host), "n%d.test", i);
		see("", host, 443, "");
	}
	assert_int_equal(lessons_render(&l, &out), 0);
	assert_non_null(strstr(buf_str(&out), "\n# 3 more, to other hosts"));
	buf_clear(&out);
	lessons_fini(&l);
	for (int i = 0; i < 60; i++) {
		snprintf(host, sizeof(host), "M%d", i);
		see(host, "a.test", 443, "/");
	}
	says("allow * a.test/\n");
}

static void bad_records(void **state)
{
	static const char *const bad[] = {"x",
					  "allow",
					  "allow *",
					  "deny * a.test",
					  "allow * a.test\nallow * a.test",
					  "# x",
					  "allow GET a.test:x/"};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_true(lessons_parse(&l, bad[i]) < 0);
}

#define TEST(name) cmocka_unit_test_teardown(name, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {TEST(shortest),   TEST(refused), TEST(no_name),
					   TEST(odd),	     TEST(allows),  TEST(many),
					   TEST(bad_records)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
