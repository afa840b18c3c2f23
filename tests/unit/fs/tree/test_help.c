/* SPDX-License-Identifier: Apache-2.0 */
/* The README.md nodes say what the configuration says, and stay short. */
/* modules: fs/tree/help.c fs/config/daemon.c fs/config/daemon_key.c fs/config/daemon_file.c fs/config/daemon_again.c vm/base/record.c fs/config/daemon_template.c fs/config/daemon_image.c vm/base/trusted.c fs/config/daemon_init.c fs/config/packages.c fs/config/settings.c fs/config/key.c fs/config/value.c vm/base/upstream.c vm/base/spec.c fs/config/paths.c vm/base/path.c fs/config/network.c fs/config/ruleset.c vm/base/rules.c vm/base/place.c vm/base/http_path.c vm/base/words.c vm/base/secret_use.c vm/base/secret_list.c vm/base/problem.c vm/base/buf.c fs/config/entry.c fs/config/words.c fs/config/quota.c vm/base/exact.c */
/* modules: vm/net/allow_check.c vm/base/allow.c vm/base/address.c */
/* libs: inih */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "fs/config/daemon_internal.h"
#include "fs/tree/help.h"

static struct conf conf;
static const struct conf_source src;

static int setup(void **state)
{
	(void)state;
	return conf_init(&conf) < 0 || conf_settle(&conf, &src) < 0 ? -1 : 0;
}

static int teardown(void **state)
{
	(void)state;
	conf_clear(&conf);
	return 0;
}

static void assert_shows(struct buf *b, const char *words)
{
	if (!strstr(buf_str(b), words))
		fail_msg("\"%s\" is missing in:\n%s", words, buf_str(b));
}

static unsigned lines(struct buf *b, size_t *ret_longest)
{
	unsigned n = 0;
	size_t length = 0;

	*ret_longest = 0;
	for (size_t i = 0; i < b->len; i++) {
		length++;
		if (b->data[i] != '\n')
			continue;
		*ret_longest = MAX(*ret_longest, length);
		length = 0;
		n++;
	}
	assert_int_equal(length, 0); /* the last line ends */
	return n;
}

static void test_root(void **state)
{
	struct buf b = {0};
	char name[32];
	size_t longest;

	(void)state;
	conf.limits.max_memory_mb = 777;
	conf.output_bytes = 5 << 10;
	conf.template[2].settings.timeout_s = 0;
	for (int i = (int)conf.ntemplates; i < CONF_TEMPLATES_MAX; i++) {
		struct conf_template *t;

		snprintf(name, sizeof(name), "template-%d", i);
		t = conf_template_get(&conf, name, &src);
		assert_non_null(t);
		assert_int_equal(conf_template_set(t, "language", "raw", &src), 0);
		t->of_image = i < 20;
	}
	assert_int_equal(help_root(&conf, &b), 0);
	assert_shows(&b, "mkdir shell/demo");
	assert_shows(&b, "`template-20/` raw (bash), 192 MiB, 30 s a run");
	assert_shows(&b, "`javascript/` javascript, 192 MiB, no time limit for a run");
	assert_shows(&b, "and 55 more");
	assert_shows(&b, "memory: up to 777 MiB; processors: no limit set");
	assert_shows(&b, "5 KiB each");
	assert_shows(&b, "Session names: 1 to 64 of A-Z a-z 0-9 . _ -");
	assert_shows(&b, "`allow = example.com` or `net/rules`. What\n");
	assert_shows(&b, "waits in `net/pending`: move it to `net/allowed`");
	assert_true(lines(&b, &longest) <= 60);
	assert_true(longest <= 100);
	buf_clear(&b);
}

/* Templates of one image that differ in what was installed and in their network. */
static void test_kinds(void **state)
{
	struct conf_template *data = conf_template_get(&conf, "data", &src);
	struct buf b = {0};
	size_t longest;

	(void)state;
	assert_non_null(data);
	assert_int_equal(conf_template_set(data, "language", "python", &src), 0);
	free((char *)data->settings.spec.packages);
	data->settings.spec.packages = strdup("pandas==2.3.3");
	assert_non_null(data->settings.spec.packages);
	assert_int_equal(help_root(&conf, &b), 0);
	assert_shows(&b, "`data/` python, 192 MiB, 30 s a run; with pandas==2.3.3\n");
	assert_shows(&b, "`python/` python, 192 MiB, 30 s a run\n");
	buf_clear(&b);
	free((char *)data->settings.spec.packages);
	data->settings.spec.packages =
		strdup("numpy==2.3.3 pandas==2.3.3 python-dateutil==2.9.0.post0");
	assert_non_null(data->settings.spec.packages);
	data->settings.spec.network = true;
	assert_int_equal(help_root(&conf, &b), 0);
	assert_shows(&b, "30 s a run; with 3 packages; with a network\n");
	assert_shows(&b, "machine, or a process\nin a jail where the list of templates says so");
	buf_clear(&b);
	data->settings.spec.backend = VM_PROCESS;
	assert_int_equal(help_root(&conf, &b), 0);
	assert_shows(&b, "with 3 packages; with a network; as a process\n");
	assert_true(lines(&b, &longest) <= 60);
	assert_true(longest <= 100);
	buf_clear(&b);
}

static void test_template_and_session(void **state)
{
	struct settings s;
	struct buf b = {0};

	(void)state;
	assert_int_equal(help_template(&conf, &conf.template[3], &b), 0);
	assert_shows(&b, "# Template raw");
	assert_shows(&b, "# a sandbox; its code: raw (bash)");
	assert_shows(&b, "The name of a session has 1 to 64 of the characters");
	assert_shows(&b, "echo 'echo $((6 * 7))' > demo/in");
	buf_clear(&b);

	assert_int_equal(settings_copy(&s, &conf.template[2].settings), 0);
	s.spec.memory_mb = 333;
	s.spec.cpus = 2;
	assert_int_equal(help_session(&conf.template[2], &s, &b), 0);
	assert_shows(&b, "console.log(x + 1)");
	assert_shows(&b, "333 MiB of memory, 2 processors, 30 s a run");
	assert_shows(&b, "mkdir: saves the session as it is;");
	buf_clear(&b);
	s.spec.backend = VM_PROCESS;
	assert_int_equal(help_session(&conf.template[2], &s, &b), 0);
	assert_shows(&b, "mkdir: saves the session's files, and of a process nothing else;");
	buf_clear(&b);
	s.spec.backend = VM_MICROVM;
	s.fresh = true;
	assert_int_equal(help_session(&conf.template[2], &s, &b), 0);
	assert_shows(&b, "nothing lasts");
	assert_null(strstr(buf_str(&b), "state lasts"));
	buf_clear(&b);
	settings_clear(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_root, setup, teardown),
		cmocka_unit_test_setup_teardown(test_kinds, setup, teardown),
		cmocka_unit_test_setup_teardown(test_template_and_session, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
