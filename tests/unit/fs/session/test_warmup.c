/* SPDX-License-Identifier: Apache-2.0 */
/* What is done in a session's sandbox before its first run, by its own settings and its template's. */
/* modules: tests/unit/fixture/fixture.c */
#include <errno.h>
#include <stdio.h>

#include "tests/unit/fixture/fixture.h"

#define CODE "import alpha"

/* A session with @config, of a template with these. Return: its sandbox. */
static struct sandbox *begin(struct fixture *fx, const char *packages, const char *warmup,
			     const char *config)
{
	struct settings *base = &fx->conf.template[0].settings;
	struct problem why;

	fx->conf.packages.list[PACKAGES_PYTHON].any = true;
	assert_int_equal(settings_set(base, "packages", packages, NULL, &why), 0);
	assert_int_equal(settings_set(base, "warmup", warmup, NULL, &why), 0);
	assert_int_equal(fx_mkdir(fx, "python/one"), 0);
	if (*config)
		assert_int_equal(fx_put(fx, "python/one/config", config), 0);
	assert_int_equal(fx_put(fx, "python/one/in", "x"), 0);
	return fake_sandbox();
}

static void test_warmups(void **state)
{
	static const struct {
		const char *packages, *warmup; /* the template's */
		const char *config, *want;
		bool ad_hoc;
	} cases[] = {
		{"", "auto", "", "", false},
		{"", "off", "", "", false},
		{"", CODE, "", CODE, false},
		{"a==1", "auto", "", "auto", false},
		{"a==1", "off", "", "", false},
		{"a==1", "", "", "", false},
		{"a==1", CODE, "", CODE, false},
		/* A session's own packages. */
		{"", "auto", "packages = b==1\n", "auto", true},
		{"a==1", "auto", "packages = b==1\n", "auto", true},
		{"a==1", "auto", "packages =\n", "", true},
		{"a==1", "off", "packages = b==1\n", "", true},
		{"a==1", CODE, "packages = b==1\n", "auto", true},
		{"a==1", CODE, "packages =\n", "", true},
		/* A session's own warm-up. */
		{"a==1", "auto", "warmup = off\n", "", true},
		{"a==1", "off", "warmup = auto\n", "auto", true},
		{"a==1", "auto", "warmup = import b\n", "import b", true},
		{"a==1", CODE, "packages = b==1\nwarmup = import b\n", "import b", true},
		{"a==1", CODE, "packages = b==1\nwarmup = off\n", "", true},
		{"", "auto", "warmup = off\n", "", false},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct fixture *fx;
		struct sandbox *s;

		if (i > 0)
			assert_int_equal(fx_setup(state), 0);
		fx = *state;
		s = begin(fx, cases[i].packages, cases[i].warmup, cases[i].config);
		assert_string_equal(s->warmup, cases[i].want);
		assert_int_equal(s->ad_hoc, cases[i].ad_hoc);
		if (i + 1 < sizeof(cases) / sizeof(*cases))
			assert_int_equal(fx_teardown(state), 0);
	}
}

/* They share no memory: what each had imported would be in each. */
static void test_processes(void **state)
{
	struct fixture *fx = *state;

	fx->conf.template[0].settings.spec.backend = VM_PROCESS;
	assert_string_equal(begin(fx, "a==1", "auto", "")->warmup, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		fx_test(test_warmups),
		fx_test(test_processes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
