/* SPDX-License-Identifier: Apache-2.0 */
/* Links below files/: which targets are shown as they are, and what is shown of the others. */
/* modules: fs/files/filelink.c */
#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "fs/files/filelink.h"
#include "vm/base/util.h"

#define OUTSIDE FILELINK_OUTSIDE "/"

static void test_targets(void **state)
{
	static const struct {
		const char *target;
		uint32_t depth;
		const char *shown;
		uint32_t up;
	} rows[] = {
		{"x", 0, "x", 0},
		{"./x", 0, "./x", 0},
		{"a/b/c", 0, "a/b/c", 0},
		{".", 0, ".", 0},
		{"..", 0, OUTSIDE "%2E/%2E%2E", 0},
		{"../x", 0, OUTSIDE "%2E/%2E%2E/x", 0},
		{"../x", 1, "../x", 1},
		{"../../x", 1, OUTSIDE "%2E/%2E%2E/%2E%2E/x", 0},
		{"../../x", 2, "../../x", 2},
		{".././../x", 2, ".././../x", 2},
		{".//..//../x", 1, OUTSIDE "%2E/.//%2E%2E//%2E%2E/x", 0},
		{"..", 1, "..", 1},
		{"a/..", 1, OUTSIDE "%2E/a/%2E%2E", 0}, /* a may itself be a link */
		{"a/../..", 5, OUTSIDE "%2E/a/%2E%2E/%2E%2E", 0},
		{"../a/../x", 5, OUTSIDE "%2E/%2E%2E/a/%2E%2E/x", 0},
		{"a/..x", 0, "a/..x", 0},
		{"...", 0, "...", 0},
		{"50%/x", 0, "50%/x", 0},
		{"/etc/passwd", 0, OUTSIDE "etc/passwd", 0},
		{"/etc/50%", 2, OUTSIDE "etc/50%25", 0},
		{"/", 3, OUTSIDE, 0},
		{"/home/user", 0, ".", 0},
		{"/home/user/", 0, ".", 0},
		{"/home/user", 2, "../../", 2},
		{"/home/user/x", 0, "x", 0},
		{"/home/user//x/y", 1, "../x/y", 1},
		{"/home/user2/x", 0, OUTSIDE "home/user2/x", 0},
		{"/home/use", 0, OUTSIDE "home/use", 0},
		{"/home/user/../x", 3, OUTSIDE "home/user/%2E%2E/x", 0},
		{"//home/user/x", 0, OUTSIDE "/home/user/x", 0},
		{"/home/../home/user/x", 0, OUTSIDE "home/%2E%2E/home/user/x", 0},
		{OUTSIDE "etc/passwd", 0, OUTSIDE "%2E/" OUTSIDE "etc/passwd", 0},
	};
	char out[PATH_MAX], back[PATH_MAX];

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(rows); i++) {
		uint32_t up = 77;

		assert_int_equal(filelink_show(rows[i].target, strlen(rows[i].target),
					       rows[i].depth, true, out, sizeof(out), &up),
				 0);
		assert_string_equal(out, rows[i].shown);
		assert_int_equal(up, rows[i].up);
		if (strncmp(out, OUTSIDE, strlen(OUTSIDE)) != 0)
			continue;
		assert_int_equal(filelink_stored(out, back, sizeof(back)), 0);
		assert_string_equal(back, rows[i].target);
	}
}

/* Where the depth is only the least that it can be, nothing is made to climb all of it. */
static void test_depth_that_is_not_certain(void **state)
{
	char out[PATH_MAX];
	uint32_t up;

	(void)state;
	assert_int_equal(filelink_show("/home/user/x", 12, 1, false, out, sizeof(out), &up), 0);
	assert_string_equal(out, OUTSIDE "home/user/x");
	assert_int_equal(filelink_show("../x", 4, 1, false, out, sizeof(out), &up), 0);
	assert_string_equal(out, "../x");
}

static void test_what_the_host_made(void **state)
{
	static const char *const same[] = {
		"x",	       "/etc/passwd",	 "../..", ".outside-files",
		OUTSIDE "a%b", OUTSIDE "%2e%2e", "50%25", OUTSIDE "%2E/"};
	char out[PATH_MAX];

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(same); i++) {
		assert_int_equal(filelink_stored(same[i], out, sizeof(out)), 0);
		assert_string_equal(out, same[i]);
	}
	assert_int_equal(filelink_stored("12345678", out, 8), -ENAMETOOLONG);
}

/* Does a target lead out of the root from @depth, if every name may be a link to the root? */
static bool leads_out(const char *p, uint32_t depth)
{
	if (*p == '/')
		return true;
	while (*p) {
		size_t n = strcspn(p, "/");

		if (n == 2 && p[0] == '.' && p[1] == '.') {
			if (depth-- == 0)
				return true;
		} else if (n && !(n == 1 && p[0] == '.')) {
			depth = 0;
		}
		p += n + (p[n] != '\0');
	}
	return false;
}

static void test_any_bytes(void **state)
{
	static const char outside[] = OUTSIDE;
	static const char *const part[] = {"..",  ".", "a",	"/",   "//",   "/home/user",
					   "%2E", "%", outside, "...", "/../", "%2F"};
	char out[PATH_MAX], back[PATH_MAX], target[200];

	(void)state;
	srandom(3);
	for (int i = 0; i < 200000; i++) {
		uint32_t depth = (uint32_t)random() % 4, up;

		target[0] = '\0';
		for (long n = 1 + random() % 8; n; n--)
			strncat(target, part[(size_t)random() % ARRAY_SIZE(part)],
				sizeof(target) - strlen(target) - 1);
		assert_int_equal(filelink_show(target, strlen(target), depth, random() % 2, out,
					       sizeof(out), &up),
				 0);
		if (leads_out(out, depth) || up > depth)
			fail_msg("%s at %u: %s", target, depth, out);
		assert_int_equal(filelink_stored(out, back, sizeof(back)), 0);
		if (target[0] != '/' || strncmp(out, OUTSIDE, strlen(OUTSIDE)) == 0)
			assert_string_equal(back, target);
	}
}

static void test_lengths(void **state)
{
	char out[PATH_MAX], target[PATH_MAX + 10];
	uint32_t up;

	(void)state;
	assert_int_equal(filelink_show("a\0b", 3, 0, true, out, sizeof(out), &up), -EIO);
	assert_int_equal(filelink_show("", 0, 0, true, out, sizeof(out), &up), -EIO);
	memset(target, 'x', sizeof(target));
	assert_int_equal(filelink_show(target, PATH_MAX - 1, 0, true, out, sizeof(out), &up), 0);
	for (size_t len = PATH_MAX; len < sizeof(target); len++)
		assert_int_equal(filelink_show(target, len, 0, true, out, sizeof(out), &up),
				 -ENAMETOOLONG);
	snprintf(target, sizeof(target), "/home/user/");
	target[11] = 'x';
	for (size_t len = 11; len < PATH_MAX; len++) { /* what does not fit is not cut */
		int e = filelink_show(target, len, 1300, true, out, sizeof(out), &up);

		if (e == 0 && up)
			assert_int_equal(strlen(out), (size_t)1300 * 3 + len - 11);
		else if (e == 0)
			assert_int_equal(strlen(out), strlen(OUTSIDE) + len - 1);
		else
			assert_int_equal(e, -ENAMETOOLONG);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_targets),
		cmocka_unit_test(test_depth_that_is_not_certain),
		cmocka_unit_test(test_what_the_host_made),
		cmocka_unit_test(test_any_bytes),
		cmocka_unit_test(test_lengths),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
