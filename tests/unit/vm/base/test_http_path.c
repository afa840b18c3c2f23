/* SPDX-License-Identifier: Apache-2.0 */
/* Paths of requests as two kinds of servers read them, hostile ones most of all, and patterns for them. */
/* modules: vm/base/http_path.c */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include "vm/base/http_path.h"
#include "vm/base/util.h"

static int read_path(const char *target, struct http_path *ret)
{
	return http_path_read(target, strlen(target), ret);
}

static void readings(void **state)
{
	static const struct {
		const char *target, *plain, *bare;
	} table[] = {
		{"/", "/", "/"},
		{"*", "*", "*"},
		{"/v1/x", "/v1/x", "/v1/x"},
		{"/v1/x?q=/../admin", "/v1/x", "/v1/x"},
		{"/v1?", "/v1", "/v1"},
		{"/v1/", "/v1/", "/v1/"},
		/* Unreserved characters are themselves, encoded or not; case is kept. */
		{"/%61dmin", "/admin", "/admin"},
		{"/%41dmin/%7euser/%2D", "/Admin/~user/-", "/Admin/~user/-"},
		/* All others have one spelling. */
		{"/@scope", "/%40scope", "/@scope"},
		{"/%40scope", "/%40scope", "/@scope"},
		{"/a%2a*b", "/a%2A%2Ab", "/a**b"},
		{"/caf\xc3\xa9", "/caf%C3%A9", "/caf\xc3\xa9"},
		{"/caf%c3%a9", "/caf%C3%A9", "/caf\xc3\xa9"},
		/* Slashes. */
		{"/v1///x//", "/v1/x/", "/v1/x/"},
		{"/group%2Fproject/x", "/group%2Fproject/x", "/group/project/x"},
		{"/a%2f/b", "/a%2F/b", "/a/b"},
		{"/a\\b", "/a%5Cb", "/a/b"},
		{"/a%5cb", "/a%5Cb", "/a/b"},
		/* Decoded again and again. */
		{"/%2561dmin", "/%2561dmin", "/admin"},
		{"/%25252561dmin", "/%25252561dmin", "/admin"},
		{"/%25%36%31dmin", "/%2561dmin", "/admin"},
		{"/100%25", "/100%25", "/100%"},
		{"/100%25zz", "/100%25zz", "/100%zz"},
		{"/a%3Fb=c", "/a%3Fb%3Dc", "/a?b=c"},
		/* Parameters, and what some file systems don't see. */
		{"/admin;v=1/x", "/admin%3Bv%3D1/x", "/admin/x"},
		{"/admin%3bv", "/admin%3Bv", "/admin"},
		{"/admin.", "/admin.", "/admin"},
		{"/admin%20/x", "/admin%20/x", "/admin/x"},
		{"/a/.../b", "/a/.../b", "/a/b"},
		{"/a/;x/b", "/a/%3Bx/b", "/a/b"},
		/* Dot segments that are the same to everybody. */
		{"/v1/../admin", "/admin", "/admin"},
		{"/v1/%2e%2E/admin", "/admin", "/admin"},
		{"/v1/.%2e/./admin", "/admin", "/admin"},
		{"/../../x", "/x", "/x"},
		{"/a/.", "/a/", "/a/"},
		{"/a/b/..", "/a/", "/a/"},
		{"/..", "/", "/"},
		{"/a;x/../b", "/b", "/b"},
		{"/a..b/..c/d../.e", "/a..b/..c/d../.e", "/a..b/..c/d/.e"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		struct http_path path;

		if (read_path(table[i].target, &path) != 0)
			fail_msg("%s is refused", table[i].target);
		assert_string_equal(path.plain, table[i].plain);
		assert_string_equal(path.bare, table[i].bare);
	}
}

static void refused(void **state)
{
	static const struct {
		const char *target;
		int error;
	} table[] = {
		{"", EINVAL},
		{"?", EINVAL},
		{"v1", EINVAL},
		{"**", EINVAL},
		{"http://a/", EINVAL},
		{"/a b", EINVAL},
		{"/a\tb", EINVAL},
		{"/a\r\nX: y", EINVAL},
		{"/a#b", EINVAL},
		{"/a?b#c", EINVAL},
		{"/a?b c", EINVAL},
		{"/a\x7f", EINVAL},
		{"/%", EINVAL},
		{"/%4", EINVAL},
		{"/%zz", EINVAL},
		{"/%u002e%u002e/a", EINVAL},
		{"/a%00b", EINVAL},
		{"/a%2500b", EINVAL},
		{"/a%0d%0aX", EINVAL},
		{"/a%250a", EINVAL},
		/* Dot segments that some see and others don't. */
		{"/v1/..%2fadmin", EILSEQ},
		{"/v1%2f../admin", EILSEQ},
		{"/v1/..;/admin", EILSEQ},
		{"/v1/..;x=y/admin", EILSEQ},
		{"/v1/.%3b/admin", EILSEQ},
		{"/v1/%252e%252e/admin", EILSEQ},
		{"/v1/%25252e%25252e/admin", EILSEQ},
		{"/v1\\..\\admin", EILSEQ},
		{"/v1/..\\admin", EILSEQ},
		{"/v1/..%5cadmin", EILSEQ},
		{"/v1/..%20/admin", EILSEQ},
		{"/v1/.%20./admin", EILSEQ},
		/* Dot segments that take away what is not the same to all. */
		{"/v1//../admin", EILSEQ},
		{"//../admin", EILSEQ},
		/* A host, to some. */
		{"//", EILSEQ},
		{"//v1/admin", EILSEQ},
		{"///admin", EILSEQ},
		{"/\\v1/admin", EILSEQ},
		{"/v1/x%2fy/../admin", EILSEQ},
		{"/v1/x\\y/../admin", EILSEQ},
		{"/v1/.../../admin", EILSEQ},
		{"/v1/;x/../admin", EILSEQ},
		/* Dots and slashes in more bytes than they take. */
		{"/v1/%c0%ae%c0%ae/admin", EILSEQ},
		{"/v1/..%c0%afadmin", EILSEQ},
		{"/v1/..%c1%9cadmin", EILSEQ},
		{"/v1/%e0%80%ae./admin", EILSEQ},
		{"/v1/%f0%80%80%ae./admin", EILSEQ},
		{"/v1/%25c0%25ae/admin", EILSEQ},
	};
	struct http_path path;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(table); i++)
		if (read_path(table[i].target, &path) != -table[i].error)
			fail_msg("%s: %d", table[i].target, read_path(table[i].target, &path));
	assert_int_equal(http_path_read("/a\0b", 4, &path), -EINVAL);
	/* It ends where it is said to end. */
	assert_int_equal(http_path_read("/a b", 2, &path), 0);
	assert_string_equal(path.plain, "/a");
}

static void long_ones(void **state)
{
	static char target[HTTP_PATH_MAX + 64];
	struct http_path path;

	(void)state;
	memset(target, 'a', sizeof(target));
	target[0] = '/';
	assert_int_equal(http_path_read(target, HTTP_PATH_MAX, &path), 0);
	assert_int_equal(strlen(path.plain), HTTP_PATH_MAX);
	assert_int_equal(http_path_read(target, HTTP_PATH_MAX + 1, &path), -ENAMETOOLONG);
	target[HTTP_PATH_MAX] = '?';
	assert_int_equal(http_path_read(target, HTTP_PATH_MAX + 60, &path), 0);
	/* What grows when it is spelt in one way. */
	memset(target + 1, '@', HTTP_PATH_MAX - 1);
	assert_int_equal(http_path_read(target, HTTP_PATH_MAX, &path), -ENAMETOOLONG);
	assert_int_equal(http_path_read(target, HTTP_PATH_MAX / 3 + 1, &path), 0);
	/* Four thousand layers of encoding. */
	memset(target + 1, '2', HTTP_PATH_MAX - 1);
	target[1] = '%';
	for (size_t i = 3; i + 2 < HTTP_PATH_MAX; i += 2)
		target[i] = '5';
	target[HTTP_PATH_MAX - 2] = '4';
	target[HTTP_PATH_MAX - 1] = '1';
	assert_int_equal(http_path_read(target, HTTP_PATH_MAX, &path), 0);
	assert_string_equal(path.bare, "/A");
}

static bool fits(const char *pattern, const char *target, bool any_case)
{
	char plain[HTTP_PATTERN_PLAIN_SIZE(256)], bare[HTTP_PATTERN_BARE_SIZE(256)];
	struct http_path path;

	assert_true(strlen(pattern) <= 256);
	assert_null(http_pattern_parse(pattern, strlen(pattern), plain, bare));
	assert_int_equal(read_path(target, &path), 0);
	return http_pattern_fits(plain, path.plain, any_case) &&
	       http_pattern_fits(bare, path.bare, any_case);
}

static void patterns(void **state)
{
	static const struct {
		const char *pattern, *target;
		bool fits;
	} table[] = {
		{"/", "/", true},
		{"/", "/a", false},
		{"/*", "/", true},
		{"/*", "/a/b?c", true},
		{"/*", "*", false},
		{"/v1", "/v1", true},
		{"/v1", "/v1/", false},
		{"/v1*", "/v1", true},
		{"/v1*", "/v10/x", true},
		{"/v1/*", "/v1", false},
		{"/v1/*", "/v1/", true},
		{"/v1/*", "/v1/../admin", false},
		{"/v1/*", "/x/../v1/y", true},
		{"/*/admin", "/a/b/admin", true},
		{"/*/admin", "/admin", false},
		{"/*/admin", "/a/admin/b", false},
		{"/a*b*c", "/abc", true},
		{"/a*b*c", "/abcbc", true},
		{"/a*b*c", "/acb", false},
		{"/a*a", "/a", false},
		{"/a**", "/a", true},
		{"/v1", "/V1", false},
		/* Any spelling of a pattern is the same, too. */
		{"/%61", "/a", true},
		{"/@scope/*", "/%40scope/x", true},
		{"/%40scope/*", "/@scope/x", true},
		{"//a//b", "/a/b", true},
		{"/projects/g%2Fp/*", "/projects/g%2fp/x", true},
		{"/projects/g%2Fp/*", "/projects/g/p/x", false},
		{"/projects/g/p/*", "/projects/g%2fp/x", false},
		/* A * that is one. */
		{"/%2A", "/*", true},
		{"/%2A", "/a", false},
		{"/a%2a*", "/a*b", true},
		{"/a%2a*", "/ab", false},
		/* What only one of both readings has. */
		{"/v1", "/v1;x", false},
		{"/v1*", "/v1;x/y", true},
		{"/a/b", "/a\\b", false},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(table); i++)
		if (fits(table[i].pattern, table[i].target, false) != table[i].fits)
			fail_msg("%s and %s", table[i].pattern, table[i].target);
	assert_true(fits("/Admin/*", "/aDMIN/X", true));
	assert_false(fits("/Admin/*", "/bDMIN/X", true));
	assert_true(fits("/caf\xc3\x89", "/CAF%c3%89", true));
}

static void bad_patterns(void **state)
{
	static const char *const bad[] = {"",	     "a",    "/a?b", "/a#b",	  "/%",	    "/%4*",
					  "/%zz",    "/a b", "/%00", "/%0a",	  "/%250a", "/..",
					  "/a/../b", "/a/.", "/./a", "/%2e%2e/a", "/%252e", "/a\\b",
					  "/%5c",    "/a;b", "/%3b", "/a./b",	  "/a.",    "/...",
					  "/a%20",   "/\1",  "/%01", "/%c0%ae",	  "/..%2fa"};
	static char longer[HTTP_PATTERN_MAX + 1];
	static char plain[HTTP_PATTERN_PLAIN_SIZE(sizeof(longer))];
	static char bare[HTTP_PATTERN_BARE_SIZE(sizeof(longer))];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		if (!http_pattern_parse(bad[i], strlen(bad[i]), plain, bare))
			fail_msg("%s is no pattern", bad[i]);
	memset(longer, '@', sizeof(longer));
	longer[0] = '/';
	assert_null(http_pattern_parse(longer, HTTP_PATTERN_MAX, plain, bare));
	assert_int_equal(strlen(plain), 1 + 3 * (HTTP_PATTERN_MAX - 1));
	assert_non_null(http_pattern_parse(longer, HTTP_PATTERN_MAX + 1, plain, bare));
}

/* A thousand stars, and a path that almost fits: what goes back and tries again never ends. */
static void no_going_back(void **state)
{
	static char pattern[HTTP_PATTERN_MAX], plain[HTTP_PATTERN_PLAIN_SIZE(sizeof(pattern))];
	static char bare[HTTP_PATTERN_BARE_SIZE(sizeof(pattern))], path[HTTP_PATH_MAX + 1];
	const clock_t start = clock();

	(void)state;
	for (size_t i = 0; i < sizeof(pattern); i++)
		pattern[i] = i % 2 ? '*' : 'a';
	pattern[0] = '/';
	pattern[sizeof(pattern) - 1] = 'b';
	memset(path, 'a', HTTP_PATH_MAX);
	path[0] = '/';
	assert_null(http_pattern_parse(pattern, sizeof(pattern), plain, bare));
	for (int i = 0; i < 20; i++) {
		assert_false(http_pattern_fits(plain, path, false));
		assert_false(http_pattern_fits(plain, path, true));
	}
	path[HTTP_PATH_MAX - 1] = 'b';
	assert_true(http_pattern_fits(plain, path, false));
	assert_true(clock() - start < CLOCKS_PER_SEC * 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(readings),	cmocka_unit_test(refused),
		cmocka_unit_test(long_ones),	cmocka_unit_test(patterns),
		cmocka_unit_test(bad_patterns), cmocka_unit_test(no_going_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
