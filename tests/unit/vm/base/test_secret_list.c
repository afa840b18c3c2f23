/* SPDX-License-Identifier: Apache-2.0 */
/* Secrets: where their values are found, and who may use them. */
/* modules: vm/base/buf.c vm/base/secret_list.c vm/base/secret_use.c vm/base/place.c vm/base/http_path.c vm/base/allow.c vm/base/words.c */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "vm/base/secret_list.h"
#include "vm/base/util.h"

static void a_file(void **state)
{
	static const char text[] = "# mine\n\n[secret github]\r\nfrom = file /home/me/token \n"
				   "hosts = api.github.com *.github.com:8443\n"
				   "  [secret  other]\nfrom=command /usr/bin/pass show x\n"
				   "hosts = a.test\nrefresh_s = 60\n[secret github]\nrefresh_s = 5";
	struct vm_secrets list = {0};
	const struct vm_secret *s;
	char why[128] = "";

	(void)state;
	if (secret_list_parse(text, strlen(text), &list, why) != 0)
		fail_msg("%s", why);
	assert_int_equal(list.n, 2);
	s = secret_list_find(&list, "github");
	assert_non_null(s);
	assert_int_equal(s->from, VM_SECRET_FILE);
	assert_string_equal(s->argument, "/home/me/token");
	assert_string_equal(s->hosts, "api.github.com:443 *.github.com:8443");
	assert_int_equal(s->refresh_s, 5);
	s = secret_list_find(&list, "other");
	assert_non_null(s);
	assert_int_equal(s->from, VM_SECRET_COMMAND);
	assert_string_equal(s->argument, "/usr/bin/pass show x");
	assert_null(secret_list_find(&list, "Github"));
	secret_list_fini(&list);
	assert_int_equal(secret_list_parse("", 0, &list, why), 0);
	assert_int_equal(list.n, 0);
}

static void bad_files(void **state)
{
	static const struct {
		const char *text, *why;
	} table[] = {
		{"from = file /x\n", "line 1: expected [secret NAME]"},
		{"[secret]\n", "line 1: the sections here are [secret NAME]"},
		{"[template x]\n", "the sections here are"},
		{"[secret -x]\n", "the name of a secret"},
		{"[secret x\n", "the sections here are"},
		{"[secret x]\nfrom\n", "line 2: expected"},
		{"[secret x]\nvalue = y\n",
		 "line 2: value: a secret has from, hosts and refresh_s"},
		{"[secret x]\nusers = root\n", "users: a secret has"},
		{"[secret x]\nfrom = env HOME\n", "a file of one's own names files and commands"},
		{"[secret x]\nfrom = file relative\n", "begins with /"},
		{"[secret x]\nfrom = command pass\n", "begins with /"},
		{"[secret x]\nfrom = literal y\n", "write file PATH"},
		{"[secret x]\nfrom = file /a\x01\n", "control character"},
		{"[secret x]\nhosts = *\n", "name the hosts"},
		{"[secret x]\nhosts = a.test *:443\n", "name the hosts"},
		{"[secret x]\nhosts =\n", "name the hosts"},
		{"[secret x]\nhosts = a..b\n", "hosts: a..b: this is no host name"},
		{"[secret x]\nrefresh_s = 0\n", "seconds from 1"},
		{"[secret x]\nrefresh_s = 86401\n", "seconds from 1"},
		{"[secret x]\nrefresh_s = 5s\n", "seconds from 1"},
		{"[secret x]\nfrom = file /a\n", "[secret x]: hosts is missing"},
		{"[secret x]\nhosts = a.test\n", "[secret x]: from is missing"},
	};
	struct vm_secrets list = {0};
	char why[128], *longer = calloc(1, SECRET_FILE_MAX + 1);

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		const char *const text = table[i].text;

		assert_int_equal(secret_list_parse(text, strlen(text), &list, why), -EINVAL);
		if (!strstr(why, table[i].why))
			fail_msg("%s: %s", text, why);
		assert_null(list.secret);
	}
	assert_non_null(longer);
	assert_int_equal(secret_list_parse(longer, 1, &list, why), -EINVAL); /* a NUL */
	memset(longer, '\n', SECRET_FILE_MAX + 1);
	assert_int_equal(secret_list_parse(longer, SECRET_FILE_MAX, &list, why), 0);
	assert_int_equal(secret_list_parse(longer, SECRET_FILE_MAX + 1, &list, why), -EINVAL);
	free(longer);
}

static void users(void **state)
{
	struct vm_secrets list = {0};
	char why[128], name[16];
	size_t i;

	(void)state;
	assert_int_equal(secret_list_add(&list, "x", 1, &i, why), 0);
	assert_true(secret_is_for(&list.secret[i], 1000, 1000));
	assert_false(secret_is_for(&list.secret[i], 1001, 1000));
	assert_int_equal(secret_list_set(&list, i, "users", "root 1001", false, why), 0);
	assert_true(secret_is_for(&list.secret[i], 1001, 1000));
	assert_true(secret_is_for(&list.secret[i], 0, 1000));
	assert_false(secret_is_for(&list.secret[i], 1000, 1000));
	assert_int_equal(secret_list_set(&list, i, "users", "nobody-of-that-name", false, why),
			 -EINVAL);
	assert_non_null(strstr(why, "there is no user nobody-of-that-name"));
	assert_int_equal(secret_list_set(&list, i, "users", "4294967295", false, why), -EINVAL);
	assert_int_equal(secret_list_set(&list, i, "users", "", false, why), -EINVAL);
	assert_true(secret_is_for(&list.secret[i], 1001, 1000));
	assert_int_equal(secret_list_set(&list, i, "from", "env A_B", false, why), 0);
	assert_int_equal(secret_list_set(&list, i, "from", "env 1A", false, why), -EINVAL);
	assert_int_equal(secret_list_set(&list, i, "from", "env A=B", false, why), -EINVAL);
	assert_int_equal(list.secret[i].from, VM_SECRET_ENV);
	for (unsigned n = 1; n < SECRET_LIST_MAX; n++) {
		snprintf(name, sizeof(name), "n%u", n);
		assert_int_equal(secret_list_add(&list, name, strlen(name), &i, why), 0);
	}
	assert_int_equal(secret_list_add(&list, "one-more", 8, &i, why), -EINVAL);
	assert_int_equal(secret_list_add(&list, "n1", 2, &i, why), 0);
	assert_int_equal(i, 1);
	secret_list_fini(&list);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_file),
		cmocka_unit_test(bad_files),
		cmocka_unit_test(users),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
