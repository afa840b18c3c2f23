/* SPDX-License-Identifier: Apache-2.0 */
/* Which secrets go with which requests. */
/* modules: vm/base/secret_use.c vm/base/place.c vm/base/http_path.c vm/base/allow.c vm/base/words.c */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "vm/base/http_path.h"
#include "vm/base/secret_use.h"
#include "vm/base/util.h"

static const char text[] = "api.test bearer token # the first\n"
			   "*.git.test basic x-user:not git";

static void written(void **state)
{
	static const char list[] =
		"Api.test/v1/* bearer token # the first\n"
		"*.git.test:8443 basic x@user git-token api.test:80 header X-Api-Key key\n"
		"192.0.2.7 query api_key k.1 q.test placeholder p";
	static const char *const lines[] = {
		"Api.test/v1/* bearer token",
		"*.git.test:8443 basic x@user git-token",
		"api.test:80 header X-Api-Key key",
		"192.0.2.7 query api_key k.1",
		"q.test placeholder p",
	};
	struct secret_uses uses = {0};
	char why[128] = "", line[256];

	(void)state;
	assert_int_equal(secret_uses_parse(list, strlen(list), &uses, why), 0);
	assert_int_equal(uses.n, ARRAY_SIZE(lines));
	for (size_t i = 0; i < uses.n; i++) {
		assert_int_equal(uses.use[i].way, i);
		assert_int_equal(secret_uses_print(&uses, i, line, sizeof(line)), strlen(lines[i]));
		assert_string_equal(line, lines[i]);
	}
	assert_string_equal(uses.use[1].argument, "x@user");
	assert_string_equal(uses.use[1].name, "git-token");
	assert_string_equal(uses.use[4].argument, "");
	secret_uses_fini(&uses);
	assert_int_equal(uses.n, 0);
	assert_int_equal(secret_uses_parse("", 0, &uses, why), 0);
	assert_int_equal(uses.n, 0);
	secret_uses_fini(&uses);
}

static void fitting(void **state)
{
	static const char list[] = "a.test/v1/* bearer t *.b.test basic u t c.test:80 query k t";
	struct secret_uses uses = {0};
	struct http_path path;
	char why[128];

	(void)state;
	assert_int_equal(secret_uses_parse(list, strlen(list), &uses, why), 0);
	/* Not in the clear, unless a port says so. */
	assert_true(secret_uses_have_host(&uses, "a.test", 443));
	assert_false(secret_uses_have_host(&uses, "a.test", 80));
	assert_true(secret_uses_have_host(&uses, "a.test", 0));
	assert_true(secret_uses_have_host(&uses, "c.test", 80));
	assert_false(secret_uses_have_host(&uses, "c.test", 443));
	assert_true(secret_uses_have_host(&uses, "x.b.test", 443));
	assert_false(secret_uses_have_host(&uses, "b.test", 443));
	assert_false(secret_uses_have_host(&uses, "xa.test", 443));
	/* Only to what every server takes for that path. */
	assert_int_equal(http_path_read("/v1/x?y", 7, &path), 0);
	assert_true(secret_use_fits(&uses.use[0], "a.test", 443, &path));
	assert_false(secret_use_fits(&uses.use[0], "a.test", 80, &path));
	assert_false(secret_use_fits(&uses.use[0], "evil.test", 443, &path));
	assert_true(secret_use_fits(&uses.use[1], "x.b.test", 443, &path));
	assert_int_equal(http_path_read("/V1/x", 5, &path), 0);
	assert_false(secret_use_fits(&uses.use[0], "a.test", 443, &path));
	assert_int_equal(http_path_read("/v1%2fx", 7, &path), 0);
	assert_false(secret_use_fits(&uses.use[0], "a.test", 443, &path));
	assert_int_equal(http_path_read("/v1/../x", 8, &path), 0);
	assert_false(secret_use_fits(&uses.use[0], "a.test", 443, &path));
	secret_uses_fini(&uses);
}

static void refused(void **state)
{
	static const struct {
		const char *text, *why;
	} table[] = {
		{"a.test", "line 1: write PLACE bearer NAME"},
		{"a.test Bearer t", "write PLACE bearer NAME"},
		{"a.test bearer", "name of a secret is missing"},
		{"a.test bearer t\nb.test bearer -t", "line 2: -t: a secret's name"},
		{"a.test bearer .t", "a secret's name"},
		{"a.test bearer a/b", "a secret's name"},
		{"a.test basic", "a user and the secret's name follow"},
		{"a.test basic u", "name of a secret is missing"},
		{"a.test basic u:p t", "without a colon"},
		{"a.test basic \xc3\xa9 t", "printable"},
		{"a.test header X:Y t", "a header is a name"},
		{"a.test header host t", "this header carries no secret"},
		{"a.test header Transfer-Encoding t", "this header carries no secret"},
		{"a.test header CONTENT-LENGTH t", "this header carries no secret"},
		{"a.test header sec-websocket-key t", "this header carries no secret"},
		{"a.test query a&b t", "a parameter is a name"},
		{"a.test query a=b t", "a parameter is a name"},
		{"* bearer t", "no secret goes to all"},
		{"*:443 bearer t", "no secret goes to all"},
		{"https://a.test bearer t", "without http://"},
		{"a.test/../x bearer t", "no . or .."},
		{text, "without a colon"},
	};
	struct secret_uses uses = {0};
	char why[128], many[(SECRET_USES_MAX + 1) * 12], name[SECRET_NAME_MAX + 2];
	static char longer[SECRET_USES_TEXT_MAX + 1];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		assert_int_equal(
			secret_uses_parse(table[i].text, strlen(table[i].text), &uses, why),
			-EINVAL);
		if (!strstr(why, table[i].why))
			fail_msg("%s: %s", table[i].text, why);
		assert_null(uses.use);
	}
	for (size_t i = 0; i < sizeof(many); i++)
		many[i] = "a bearer tt\n"[i % 12];
	assert_int_equal(secret_uses_parse(many, SECRET_USES_MAX * 12, &uses, why), 0);
	secret_uses_fini(&uses);
	assert_int_equal(secret_uses_parse(many, sizeof(many), &uses, why), -E2BIG);
	memset(longer, ' ', sizeof(longer));
	assert_int_equal(secret_uses_parse(longer, sizeof(longer), &uses, why), -E2BIG);
	memset(name, 'n', sizeof(name));
	assert_true(secret_name_is_valid(name, SECRET_NAME_MAX));
	assert_false(secret_name_is_valid(name, SECRET_NAME_MAX + 1));
	assert_false(secret_name_is_valid("a\0b", 3));
	assert_false(secret_name_is_valid("", 0));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(written),
		cmocka_unit_test(fitting),
		cmocka_unit_test(refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
