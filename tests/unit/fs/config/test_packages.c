/* SPDX-License-Identifier: Apache-2.0 */
/* Packages that users ask for: what is accepted, how it is written, what is refused and with what words. */
/* modules: fs/config/packages.c vm/base/problem.c vm/base/buf.c */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "fs/config/packages.h"
#include "vm/base/util.h"
#include "vm/vm.h"

static struct packages_rules rules;

static void load(enum packages_kind kind, const char *names)
{
	char path[] = "/tmp/xsbx-packages.XXXXXX";
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, names, strlen(names)), (ssize_t)strlen(names));
	close(fd);
	assert_int_equal(packages_load(&rules.list[kind], kind, path), 0);
	unlink(path);
}

static int set_up(void **state)
{
	(void)state;
	load(PACKAGES_PYTHON, "# comment\nPandas\nnumpy\r\n\nzope.interface\nuvicorn\nrequests\n");
	load(PACKAGES_NPM, "lodash\n@types/node\nleft-pad\n");
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	for (int i = 0; i < PACKAGES_NKINDS; i++)
		packages_clear(&rules.list[i]);
	return 0;
}

static void accepted(const char *language, const char *text, const char *settled)
{
	struct problem why = {0};
	char *words = strdup(text);
	int r = packages_settle(&words, language, &rules, false, &why);

	if (r < 0)
		print_error("%s: %s\n", text, why.cause);
	assert_int_equal(r, 0);
	assert_string_equal(words, settled);
	/* What is settled stays as it is. */
	assert_int_equal(packages_settle(&words, language, &rules, false, &why), 0);
	assert_string_equal(words, settled);
	free(words);
}

static void refused(const char *language, const char *text, const char *code, const char *cause,
		    const char *fix)
{
	struct problem why = {0};
	char *words = strdup(text);

	assert_int_equal(packages_settle(&words, language, &rules, false, &why), -EINVAL);
	assert_string_equal(words, text);
	assert_string_equal(problem_code_str(why.code), code);
	if (!strstr(why.cause, cause) || !strstr(why.fix, fix))
		print_error("%s: %s | %s\n", text, why.cause, why.fix);
	assert_non_null(strstr(why.cause, cause));
	assert_non_null(strstr(why.fix, fix));
	free(words);
}

struct refusal {
	const char *language, *text, *cause, *fix;
};

static void refused_each(const struct refusal *cases, size_t n, const char *code)
{
	for (size_t i = 0; i < n; i++)
		refused(cases[i].language, cases[i].text, code, cases[i].cause, cases[i].fix);
}

static void test_one_way_to_write(void **state)
{
	(void)state;
	accepted("python", "", "");
	accepted("raw", "", "");
	accepted("python", "pandas==2.3.3 numpy==2.0.0", "numpy==2.0.0 pandas==2.3.3");
	accepted("python", "  PANDAS==2.3.3,numpy==2.0.0 pandas==2.3.3 ",
		 "numpy==2.0.0 pandas==2.3.3");
	accepted("python", "Zope_Interface==1.0", "zope-interface==1.0");
	accepted("python", "zope.-_interface==1.0.post1+cpu", "zope-interface==1.0.post1+cpu");
	accepted("python", "uvicorn[standard]==0.30.0", "uvicorn[standard]==0.30.0");
	accepted("python", "numpy==1!2.0rc1", "numpy==1!2.0rc1");
	accepted("javascript", "lodash@4.17.21", "lodash@4.17.21");
	accepted("javascript", "lodash@4.17.21 @types/node@22.0.0-beta.1",
		 "@types/node@22.0.0-beta.1 lodash@4.17.21");
}

static void test_no_exact_version(void **state)
{
	static const struct refusal cases[] = {
		{"python", "pandas", "\"pandas\" has no exact version", "pandas==2.3.3"},
		{"python", "pandas>=2", "no exact version", "NAME==VERSION"},
		{"python", "pandas==", "no exact version", ""},
		{"python", "pandas==2.*", "\"2.*\" is no exact version", ""},
		{"python", "pandas==latest", "\"latest\"", ""},
		{"python", "pandas===1.0", "no exact version", ""},
		{"python", "pandas==1.0;python_version<'3'", "no exact version", ""},
		{"javascript", "lodash", "no exact version", "lodash@4.17.21"},
		{"javascript", "lodash@^4.0.0", "no exact version", ""},
		{"javascript", "lodash@latest", "no exact version", ""},
		{"javascript", "@types/node", "no exact version", ""},
	};

	(void)state;
	refused_each(cases, ARRAY_SIZE(cases), "invalid");
}

static void test_no_name(void **state)
{
	static const struct refusal cases[] = {
		{"python", "==1.0", "", ""},
		{"python", "-rfile==1.0", "does not begin with a package's name", ""},
		{"python", "../x==1.0", "name", ""},
		{"python", "git+file:///x==1.0", "name", ""},
		{"python", "pandas[==1.0", "name", ""},
		{"python", "pandas[a b]==1.0", "", ""},
		{"python", "pandas$(id)==1.0", "name", ""},
		{"javascript", "@types@1.0.0", "name", ""},
		{"javascript", "@/x@1.0.0", "name", ""},
		{"javascript", "../x@1.0.0", "name", ""},
		{"javascript", "a/b/c@1.0.0", "name", ""},
		{"raw", "pandas==1.0", "language raw", ""},
	};

	(void)state;
	refused_each(cases, ARRAY_SIZE(cases), "invalid");
}

static void test_not_listed(void **state)
{
	(void)state;
	refused("python", "panda==1.0", "not-listed", "\"panda\" is not in the list",
		"Did you mean pandas? Then write that in packages.");
	refused("python", "reqeusts==2.0", "not-listed", "reqeusts", "Did you mean requests?");
	refused("python", "nothing-like-it==1.0", "not-listed", "",
		"python_list = any under [packages]");
	refused("javascript", "lodahs@4.17.21", "not-listed", "", "lodash?");
	refused("javascript", "xyzzy@4.17.21", "not-listed", "", "npm_list = any under [packages]");
	rules.list[PACKAGES_PYTHON].any = true;
	accepted("python", "nothing-like-it==1.0", "nothing-like-it==1.0");
	rules.list[PACKAGES_PYTHON].any = false;
}

static void test_conflicts(void **state)
{
	static const struct refusal cases[] = {
		{"python", "pandas==1.0 Pandas==2.0", "one package", "once"},
		{"python", "uvicorn==1.0 uvicorn[standard]==1.0", "one package", ""},
		{"javascript", "lodash@1.0.0 lodash@2.0.0", "one package", ""},
	};

	(void)state;
	refused_each(cases, ARRAY_SIZE(cases), "conflict");
}

static void test_too_many(void **state)
{
	char *text = calloc(1, 1 << 16), *word;
	size_t n = 0;

	(void)state;
	rules.list[PACKAGES_PYTHON].any = true;
	assert_non_null(text);
	for (int i = 0; i <= PACKAGES_MAX; i++)
		n += (size_t)sprintf(text + n, "a%d==1.0 ", i);
	refused("python", text, "too-many", "more than 64", "");
	n = 0;
	for (int i = 0; i < PACKAGES_MAX; i++)
		n += (size_t)sprintf(text + n, "a%0100d==1.0 ", i);
	refused("python", text, "too-many", "4096 bytes", "");
	word = calloc(1, 1024);
	assert_non_null(word);
	memset(word, 'a', 500);
	memcpy(word + 500, "==1.0", sizeof("==1.0"));
	refused("python", word, "invalid", "too long", "");
	free(word);
	free(text);
	rules.list[PACKAGES_PYTHON].any = false;
}

static void test_no_list(void **state)
{
	struct packages_list l;

	(void)state;
	assert_int_equal(packages_load(&l, PACKAGES_NPM, "/nonexistent"), -ENOENT);
	packages_clear(&l);
	assert_int_equal(packages_load(&l, PACKAGES_NPM, "/tmp"), -EINVAL);
	packages_clear(&l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_way_to_write), cmocka_unit_test(test_no_exact_version),
		cmocka_unit_test(test_no_name),		 cmocka_unit_test(test_not_listed),
		cmocka_unit_test(test_conflicts),	 cmocka_unit_test(test_too_many),
		cmocka_unit_test(test_no_list),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
