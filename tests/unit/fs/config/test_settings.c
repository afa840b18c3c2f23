/* SPDX-License-Identifier: Apache-2.0 */
/* The settings of a session: what is taken, what is refused, and in which words. */
/* modules: tests/unit/fixture/settings_fixture.c */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/unit/fixture/settings_fixture.h"

static char *render(const struct settings *s)
{
	struct buf b = {0};
	char *text;

	assert_int_equal(settings_render(s, &b), 0);
	text = strdup(buf_str(&b));
	buf_clear(&b);
	return text;
}

static const char *env_value(const struct settings *s, const char *name)
{
	for (size_t i = 0; i < s->spec.nenv; i++) {
		if (strcmp(s->spec.env[i].name, name) == 0)
			return s->spec.env[i].value;
	}
	return NULL;
}

static void test_defaults(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(f->s.spec.backend, VM_MICROVM);
	assert_int_equal(f->s.spec.memory_mb, 192);
	assert_int_equal(f->s.spec.cpus, 1);
	assert_int_equal(f->s.timeout_s, 30);
	assert_int_equal(f->s.grace_s, 2);
	assert_int_equal(f->s.idle_timeout_s, 300);
	assert_false(f->s.fresh);
	assert_false(f->s.spec.network);
	assert_string_equal(f->s.spec.packages, "");
	assert_string_equal(f->s.spec.warmup, "auto");
	assert_string_equal(f->s.spec.allow, "");
	assert_int_equal(f->s.spec.nports, 0);
	assert_int_equal(f->s.spec.nenv, 0);
	assert_int_equal(f->s.spec.limits.processes, 512);
	assert_int_equal(f->s.spec.limits.open_files, 4096);
	assert_int_equal(f->s.spec.limits.file_size_mb, 0);
	assert_int_equal(f->s.spec.limits.files_mb, 0);
	assert_int_equal(f->s.spec.limits.files_inodes, 0);
}

/* Where jobs begin, and what they execute if nothing is said. */
static void test_entry(void **state)
{
	static const char *const bad[] = {"cwd = ../x", "entrypoint = a | b", "entrypoint = 'a",
					  "entrypoint = \"\"", "entrypoint = $HOME"};
	struct fixture *f = *state;
	struct settings copy;

	assert_int_equal(parse(f, "cwd = /app\nentrypoint = run 'a b' c\n"), 0);
	assert_string_equal(f->s.cwd, "/app");
	assert_string_equal(f->s.entrypoint, "run 'a b' c");
	assert_int_equal(settings_copy(&copy, &f->s), 0);
	assert_string_equal(copy.entrypoint, "run 'a b' c");
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_int_equal(parse(f, bad[i]), -EINVAL);
	assert_string_equal(f->s.cwd, "/app");
	/* They may change while a sandbox runs. */
	assert_int_equal(parse(f, "cwd =\nentrypoint =\n"), 0);
	assert_string_equal(f->s.entrypoint, "");
	assert_false(settings_frozen_change(&f->s, &copy, &(struct settings_key){0}));
	settings_clear(&copy);
}

static void test_takes_text(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(parse(f, "# a comment\n\n  memory_mb=256\ncpus =\t2  \ntimeout_s = 0\n"
				  "idle_timeout_s = 604800\nfresh = yes\nbackend = microvm\n"
				  "network = off\npackages =\nallow=\nports = \nenv.A = 1"),
			 0);
	assert_int_equal(f->s.spec.memory_mb, 256);
	assert_int_equal(f->s.spec.cpus, 2);
	assert_int_equal(f->s.timeout_s, 0);
	assert_int_equal(f->s.idle_timeout_s, 604800);
	assert_true(f->s.fresh);
	assert_string_equal(env_value(&f->s, "A"), "1");
	assert_int_equal(parse(f, ""), 0);
	assert_int_equal(parse(f, "\xef\xbb\xbf"
				  "cpus = 3\r\ntimeout_s = 5\r\nenv.B = x\r\n"),
			 0);
	assert_int_equal(f->s.spec.cpus, 3);
	assert_int_equal(f->s.timeout_s, 5);
	assert_string_equal(env_value(&f->s, "B"), "x");
}

static void test_last_line_wins(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(parse(f, "cpus = 2\ncpus = 4\nenv.A=1\nenv.A=2\n"), 0);
	assert_int_equal(f->s.spec.cpus, 4);
	assert_int_equal(f->s.spec.nenv, 1);
	assert_string_equal(env_value(&f->s, "A"), "2");
}

static void test_refuses_bad_values(void **state)
{
	struct fixture *f = *state;
	static const char *const texts[] = {
		"memory_mb = 127",	   "memory_mb = -1",
		"memory_mb = 256M",	   "memory_mb =",
		"memory_mb = 99999999999", "memory_mb = 4294967488",
		"memory_mb = 256 # more",  "memory_mb = 0x100",
		"memory_mb = 1 2",	   "memory_mb = \xc2\xb2",
	};

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		assert_refused(f, texts[i], "invalid", "line 1: memory_mb");
	assert_refused(f, "cpus = 0", "invalid", "cpus: 0 is too small");
	assert_refused(f, "cpus = 65", "invalid", "cpus: 65 is too large");
	assert_refused(f, "timeout_s = 604801", "invalid", "timeout_s");
	assert_refused(f, "grace_s = 61", "invalid", "grace_s");
	assert_refused(f, "timeout_s = 1.5", "invalid", "timeout_s");
	assert_refused(f, "fresh = maybe", "invalid", "\"maybe\"");
	assert_refused(f, "fresh =", "invalid", "fresh");
	assert_refused(f, "backend = docker", "invalid", "docker");
	assert_refused(f, "backend = process", "not-allowed", "backend");
}

static void test_root_is_the_template_s(void **state)
{
	struct fixture *f = *state;
	struct settings_limits processes = {.allow_process = true};

	assert_false(f->s.spec.root);
	assert_refused(f, "root = yes", "not-allowed", "only the configuration file");
	assert_int_equal(parse(f, "root = no"), 0);
	f->s.spec.root = true;
	assert_int_equal(parse(f, "root = yes\ncpus = 2"), 0);
	assert_refused(f, "root = no", "not-allowed", "only the configuration file");
	assert_int_equal(settings_parse(&f->s, "backend = process", 17, 0, &processes, &f->why),
			 -EINVAL);
	assert_string_equal(problem_code_str(f->why.code), "not-here");
	assert_int_equal(f->s.spec.backend, VM_MICROVM);
}

static void test_refuses_bad_lines(void **state)
{
	struct fixture *f = *state;

	assert_refused(f, "cpus = 2\n\nmemory = 256\n", "unknown-key", "line 3: ");
	assert_non_null(strstr(f->why.fix, "memory_mb"));
	assert_refused(f, "CPUS = 2", "unknown-key", "CPUS");
	assert_refused(f, "= 2", "unknown-key", "line 1");
	assert_refused(f, "just words", "invalid", "has no \"=\"");
	assert_refused(f, "env = 1", "unknown-key", "env");
	assert_int_equal(settings_parse(&f->s, "cpus = 2\0", 9, 0, &none, &f->why), -EINVAL);
	assert_non_null(strstr(f->why.cause, "NUL"));
	/* What was written comes back printable and short, whatever it was. */
	assert_refused(f, "\x1b[31m\xff = 2", "unknown-key", "\"?[31m?\"");
	assert_refused(
		f, "kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk = 1",
		"unknown-key", "kkk...\"");
}

static void test_refusal_changes_nothing(void **state)
{
	struct fixture *f = *state;
	char *before, *after;

	assert_int_equal(parse(f, "env.A = 1\ncpus = 2"), 0);
	before = render(&f->s);
	assert_int_equal(parse(f, "cpus = 8\nenv.A = 2\nenv.B = 3\nunset env.A\nfresh = perhaps\n"),
			 -EINVAL);
	after = render(&f->s);
	assert_string_equal(before, after);
	free(before);
	free(after);
}

static void test_limits(void **state)
{
	struct fixture *f = *state;
	const struct settings_limits l = {
		.max_memory_mb = 256, .max_cpus = 2, .max_timeout_s = 60, .max_idle_timeout_s = 10};

	assert_int_equal(settings_set(&f->s, "memory_mb", "256", &l, &f->why), 0);
	assert_int_equal(settings_set(&f->s, "memory_mb", "257", &l, &f->why), -EINVAL);
	assert_string_equal(problem_code_str(f->why.code), "limit");
	assert_int_equal(f->s.spec.memory_mb, 256);
	assert_int_equal(settings_set(&f->s, "cpus", "3", &l, &f->why), -EINVAL);
	assert_int_equal(settings_set(&f->s, "timeout_s", "60", &l, &f->why), 0);
	/* No end at all is more than any limit. */
	assert_int_equal(settings_set(&f->s, "timeout_s", "0", &l, &f->why), -EINVAL);
	assert_int_equal(settings_set(&f->s, "idle_timeout_s", "0", &l, &f->why), -EINVAL);

	/* Defaults shrink, what somebody chose is refused. */
	assert_int_equal(settings_fit(&f->s, &l, &f->why), 0);
	assert_int_equal(f->s.idle_timeout_s, 10);
	assert_int_equal(f->s.timeout_s, 60);
	assert_int_equal(settings_set(&f->s, "cpus", "3", &none, &f->why), 0);
	assert_int_equal(settings_fit(&f->s, &l, &f->why), -EINVAL);
	assert_non_null(strstr(f->why.cause, "cpus"));
}

/* What a program may have, beside memory and time. */
static void test_limits_inside(void **state)
{
	struct fixture *f = *state;
	const struct settings_limits l = {
		.max_processes = 100, .max_open_files = 200, .max_file_size_mb = 5};

	assert_int_equal(parse(f, "processes = 64\nopen_files = 65536\nfile_size_mb = 7\n"
				  "files_inodes = 1000\n"),
			 0);
	assert_int_equal(f->s.spec.limits.processes, 64);
	assert_int_equal(f->s.spec.limits.open_files, 65536);
	assert_int_equal(f->s.spec.limits.file_size_mb, 7);
	assert_int_equal(f->s.spec.limits.files_inodes, 1000);
	assert_refused(f, "processes = 63", "invalid", "processes");
	assert_refused(f, "processes = 0", "invalid", "processes");
	assert_refused(f, "open_files = 65537", "invalid", "open_files");

	/* Room is part of the memory, whichever is written first. */
	assert_int_equal(parse(f, "files_mb = 144"), 0);
	assert_refused(f, "files_mb = 145", "invalid", "files_mb");
	assert_int_equal(parse(f, "files_mb = 300\nmemory_mb = 512"), 0);
	assert_refused(f, "memory_mb = 256", "invalid", "files_mb");
	assert_int_equal(f->s.spec.memory_mb, 512);

	assert_int_equal(settings_set(&f->s, "processes", "101", &l, &f->why), -EINVAL);
	assert_int_equal(settings_set(&f->s, "open_files", "201", &l, &f->why), -EINVAL);
	assert_int_equal(settings_set(&f->s, "file_size_mb", "0", &l, &f->why), -EINVAL);
	assert_int_equal(settings_set(&f->s, "file_size_mb", "5", &l, &f->why), 0);
	assert_int_equal(settings_set(&f->s, "open_files", "200", &l, &f->why), 0);
	assert_int_equal(settings_fit(&f->s, &l, &f->why), 0);
}

static void test_env(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(parse(f, "env.EMPTY =\nenv.Q = \" a \"\nenv._x1 = a=b # c\n"
				  "env.ONE = \"\nenv.QQ = \"\"x\"\"\nenv.U = gr\xc3\xbc\xc3\x9f\n"),
			 0);
	assert_string_equal(env_value(&f->s, "EMPTY"), "");
	assert_string_equal(env_value(&f->s, "Q"), " a ");
	assert_string_equal(env_value(&f->s, "_x1"), "a=b # c");
	assert_string_equal(env_value(&f->s, "ONE"), "\"");
	assert_string_equal(env_value(&f->s, "QQ"), "\"x\"");
	assert_string_equal(env_value(&f->s, "U"), "gr\xc3\xbc\xc3\x9f");
	assert_int_equal(parse(f, "unset env.Q\nunset\tenv.NEVER"), 0);
	assert_null(env_value(&f->s, "Q"));
	assert_int_equal(f->s.spec.nenv, 5);
	assert_string_equal(env_value(&f->s, "QQ"), "\"x\"");

	assert_refused(f, "env.1A = x", "invalid", "env.1A");
	assert_refused(f, "env. = x", "invalid", "env.");
	assert_refused(f, "env.A-B = x", "invalid", "env.A-B");
	assert_refused(f, "env.A B = x", "invalid", "env.A B");
	assert_refused(f, "env.A = x\x01y", "invalid", "control");
	assert_refused(f, "env.A = x\ry", "invalid", "control");
	assert_refused(f, "unset cpus", "invalid", "cpus");
	assert_refused(f, "unset env.", "invalid", "env.");
	assert_refused(f, "unset", "invalid", "unset");
	assert_int_equal(parse(f, "env.T = a\tb"), 0);
	assert_string_equal(env_value(&f->s, "T"), "a\tb");
}

static void test_env_bounds(void **state)
{
	struct fixture *f = *state;
	struct settings_key key;
	char *value = malloc(SETTINGS_ENV_VALUE + 2), name[32], *text;
	struct settings again;

	memset(value, 'v', SETTINGS_ENV_VALUE + 1);
	value[SETTINGS_ENV_VALUE + 1] = '\0';
	assert_int_equal(settings_set(&f->s, "env.A", value, &none, &f->why), -EINVAL);
	assert_string_equal(problem_code_str(f->why.code), "too-long");
	value[SETTINGS_ENV_VALUE] = '\0';
	for (int i = 0; i < 11; i++) {
		snprintf(name, sizeof(name), "env.A%d", i);
		assert_int_equal(settings_set(&f->s, name, value, &none, &f->why), 0);
	}
	assert_int_equal(settings_set(&f->s, "env.B", value, &none, &f->why), -EINVAL);
	assert_int_equal(settings_set(&f->s, "env.A1", value, &none, &f->why), 0);
	for (int i = 11; i < SETTINGS_ENV_MAX; i++) {
		snprintf(name, sizeof(name), "env.A%d", i);
		assert_int_equal(settings_set(&f->s, name, "\"  \"", &none, &f->why), 0);
	}
	assert_int_equal(settings_set(&f->s, "env.B", "x", &none, &f->why), -EINVAL);
	assert_string_equal(problem_code_str(f->why.code), "too-many");

	/* The largest settings there can be are read back in one write. */
	text = render(&f->s);
	assert_true(strlen(text) <= SETTINGS_TEXT_MAX);
	assert_int_equal(settings_init(&again), 0);
	assert_int_equal(settings_parse(&again, text, strlen(text), 0, &none, &f->why), 0);
	assert_false(settings_frozen_change(&f->s, &again, &key));
	settings_clear(&again);
	free(text);
	free(value);
}

static void test_text_bounds(void **state)
{
	struct fixture *f = *state;
	char *text = malloc(SETTINGS_TEXT_MAX + 1);

	memset(text, '\n', SETTINGS_TEXT_MAX + 1);
	assert_int_equal(settings_parse(&f->s, text, SETTINGS_TEXT_MAX, 0, &none, &f->why), 0);
	assert_int_equal(settings_parse(&f->s, text, SETTINGS_TEXT_MAX + 1, 0, &none, &f->why),
			 -EINVAL);
	assert_string_equal(problem_code_str(f->why.code), "too-long");
	free(text);
}

static void test_warmup_bounds(void **state)
{
	struct fixture *f = *state;
	char text[SETTINGS_WARMUP_MAX + 16] = "warmup = ";

	memset(text + 9, 'x', SETTINGS_WARMUP_MAX);
	assert_int_equal(parse(f, text), 0);
	assert_int_equal(strlen(f->s.spec.warmup), SETTINGS_WARMUP_MAX);
	text[9 + SETTINGS_WARMUP_MAX] = 'x';
	assert_int_equal(parse(f, text), -EINVAL);
	assert_string_equal(problem_code_str(f->why.code), "too-long");
	assert_int_equal(parse(f, "warmup ="), 0);
	assert_string_equal(f->s.spec.warmup, "");
}

static void test_render_is_parsed(void **state)
{
	struct fixture *f = *state;
	struct settings again;
	char *text, *text2;

	assert_int_equal(parse(f,
			       "memory_mb = 512\nfresh = yes\ntimeout_s = 0\nenv.A = \" b\"\n"
			       "env.B = \"\"c\"\"\nenv.C = d\t\nwarmup = import a; b = \"# c\"\n"),
			 0);
	text = render(&f->s);
	assert_non_null(strstr(text, "\nmemory_mb = 512\n"));
	assert_non_null(strstr(text, "\npackages =\n"));
	assert_non_null(strstr(text, "\nwarmup = import a; b = \"# c\"\n"));
	assert_non_null(strstr(text, "\nenv.A = \" b\"\n"));
	assert_int_equal(settings_init(&again), 0);
	assert_int_equal(settings_parse(&again, text, strlen(text), 0, &none, &f->why), 0);
	text2 = render(&again);
	assert_string_equal(text, text2);
	settings_clear(&again);
	free(text);
	free(text2);
}

static void test_frozen(void **state)
{
	struct fixture *f = *state;
	struct settings_key key;
	struct settings b;

	assert_int_equal(parse(f, "env.A = 1\nenv.B = 2"), 0);
	assert_int_equal(settings_copy(&b, &f->s), 0);
	assert_false(settings_frozen_change(&f->s, &b, &key));
	assert_int_equal(parse(f, "timeout_s = 1\nidle_timeout_s = 1\nfresh = yes"), 0);
	assert_false(settings_frozen_change(&f->s, &b, &key));
	assert_int_equal(parse(f, "unset env.A\nenv.A = 1"), 0); /* another order */
	assert_false(settings_frozen_change(&f->s, &b, &key));
	assert_int_equal(parse(f, "env.A = 3"), 0);
	assert_true(settings_frozen_change(&f->s, &b, &key));
	assert_string_equal(key.name, "env.A");
	assert_int_equal(parse(f, "env.A = 1\nenv.C = 1"), 0);
	assert_true(settings_frozen_change(&f->s, &b, &key));
	assert_string_equal(key.name, "env.C");
	assert_int_equal(parse(f, "unset env.C\nunset env.B"), 0);
	assert_true(settings_frozen_change(&f->s, &b, &key));
	assert_string_equal(key.name, "env.B");
	assert_int_equal(parse(f, "cpus = 3"), 0);
	assert_true(settings_frozen_change(&f->s, &b, &key));
	assert_string_equal(key.name, "cpus");
	assert_int_equal(parse(f, "memory_mb = 1024"), 0);
	assert_true(settings_frozen_change(&f->s, &b, &key));
	assert_string_equal(key.name, "memory_mb");
	settings_clear(&b);
	assert_int_equal(settings_copy(&b, &f->s), 0);
	assert_int_equal(parse(f, "warmup = off"), 0);
	assert_true(settings_frozen_change(&f->s, &b, &key));
	assert_string_equal(key.name, "warmup");
	settings_clear(&b);
	settings_clear(&b); /* harmless */
}

/* What may change beside a sandbox is as it was set last. */
static void test_takes_frozen(void **state)
{
	struct fixture *f = *state;
	struct settings_key key;
	struct settings then = {0};
	char *text;

	assert_int_equal(parse(f, "network = yes\nallow = a.example b.example\nmemory_mb = 512\n"
				  "env.A = 1\ntimeout_s = 7"),
			 0);
	assert_int_equal(settings_copy(&then, &f->s), 0);
	assert_int_equal(parse(f, "allow = a.example\nmemory_mb = 300\nenv.A = 2\ntimeout_s = 5\n"
				  "grace_s = 9"),
			 0);
	assert_int_equal(settings_take_frozen(&f->s, &then), 0);
	assert_false(settings_frozen_change(&f->s, &then, &key));
	text = render(&f->s);
	assert_non_null(strstr(text, "\nmemory_mb = 512\n"));
	assert_non_null(strstr(text, "\nenv.A = 1\n"));
	assert_non_null(strstr(text, "\ntimeout_s = 5\n"));
	assert_non_null(strstr(text, "\ngrace_s = 9\n"));
	assert_non_null(strstr(text, "\nallow = a.example\n"));
	free(text);
	/* ... but with a network comes what could be reached then, and without one is nothing. */
	assert_int_equal(parse(f, "network = no"), 0);
	assert_int_equal(settings_take_frozen(&f->s, &then), 0);
	assert_string_equal(f->s.spec.allow, then.spec.allow);
	settings_clear(&then);
}

int main(void)
{
#define TEST(fn) \
	cmocka_unit_test_setup_teardown(fn, settings_fixture_setup, settings_fixture_teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_defaults),
		TEST(test_entry),
		TEST(test_takes_text),
		TEST(test_last_line_wins),
		TEST(test_refuses_bad_values),
		TEST(test_root_is_the_template_s),
		TEST(test_refuses_bad_lines),
		TEST(test_refusal_changes_nothing),
		TEST(test_limits),
		TEST(test_limits_inside),
		TEST(test_env),
		TEST(test_env_bounds),
		TEST(test_text_bounds),
		TEST(test_warmup_bounds),
		TEST(test_render_is_parsed),
		TEST(test_frozen),
		TEST(test_takes_frozen),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
