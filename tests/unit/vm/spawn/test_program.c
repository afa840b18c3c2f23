/* SPDX-License-Identifier: Apache-2.0 */
/* Programs that work in the background: their words, and their end. */
/* modules: tests/unit/fixture/spawner_fixture.c tests/unit/fixture/free_rules.c */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/wait.h>
#include <cmocka.h>

#include "tests/unit/fixture/spawner_fixture.h"
#include "vm/spawn/program.h"
#include "vm/base/util.h"
#include "vm/base/lines.h"

static unsigned nover, nlines, nlines_at_end;
static char said[512];

static void on_line(struct lines *w, char *text)
{
	const size_t len = strlen(said);

	(void)w;
	snprintf(said + len, sizeof(said) - len, "%s|", text);
	nlines++;
}

static void on_over(struct program *t)
{
	(void)t;
	nlines_at_end = nlines;
	nover++;
}

static void start(struct program *t, struct lines *w, const char *const argv[],
		  const char *const envp[])
{
	nover = nlines = nlines_at_end = 0;
	said[0] = '\0';
	*w = (struct lines){.line = on_line};
	*t = (struct program){.lines = w, .over = on_over};
	assert_int_equal(spawner_fixture_told(t, argv, envp), 0);
}

static void await(void)
{
	while (!nover)
		uv_run(&loop, UV_RUN_ONCE);
}

/* Runs a shell script to its end. */
static void run(struct program *t, struct lines *w, const char *script, const char *const envp[])
{
	const char *const argv[] = {"/bin/sh", "-c", script, NULL};

	start(t, w, argv, envp);
	await();
	assert_int_equal(nover, 1);
}

static const char *const no_env[] = {NULL};

static void words_and_status(void **state)
{
	struct lines w;
	struct program t;

	(void)state;
	run(&t, &w, "echo one; echo two >&2; printf three; exit 3", no_env);
	assert_string_equal(said, "one|two|");
	lines_end(&w);
	assert_int_equal(nlines, 3);
	assert_int_equal(t.failed, 0);
	assert_true(WIFEXITED(t.status));
	assert_int_equal(WEXITSTATUS(t.status), 3);
	assert_true(tail_contains(&w.said, "one\ntwo\nthree"));
}

/* All that it wrote is there before it is over, and nothing of the one before. */
static void many_words(void **state)
{
	struct lines w;
	struct program t;

	(void)state;
	for (unsigned i = 0; i < 20; i++) {
		run(&t, &w, "seq 3000; echo end", no_env);
		assert_int_equal(nlines_at_end, 3001);
		assert_int_equal(t.status, 0);
		assert_true(tail_contains(&w.said, "\n3000\nend\n"));
	}
}

static void not_there(void **state)
{
	static const char *const argv[] = {"/nonexistent/program", NULL};
	struct lines w;
	struct program t;

	(void)state;
	start(&t, &w, argv, no_env);
	await();
	assert_int_equal(t.failed, -ENOENT);
	assert_int_equal(nlines, 0);
}

/* What it has started may hold the pipe open: nobody waits for that. */
static void left_behind(void **state)
{
	struct lines w;
	struct program t;

	(void)state;
	run(&t, &w, "sleep 1000 & echo mine; exit 0", no_env);
	assert_int_equal(t.status, 0);
	assert_string_equal(said, "mine|");
}

static void killed(void **state)
{
	static const char *const argv[] = {"/bin/sh", "-c", "echo begun; exec sleep 1000", NULL};
	struct lines w;
	struct program t;

	(void)state;
	start(&t, &w, argv, no_env);
	while (!nlines)
		uv_run(&loop, UV_RUN_ONCE);
	child_kill(&t.child);
	await();
	assert_true(WIFSIGNALED(t.status));
	assert_int_equal(WTERMSIG(t.status), SIGKILL);
	assert_string_equal(said, "begun|");
}

static const char *const again_argv[] = {"/bin/sh", "-c", "echo again", NULL};

static void on_over_again(struct program *t)
{
	if (++nover == 3)
		return;
	*t = (struct program){.lines = t->lines, .over = on_over_again};
	assert_int_equal(spawner_fixture_told(t, again_argv, no_env), 0);
}

static void on_line_again(struct lines *w, char *text)
{
	(void)w;
	assert_string_equal(text, "again");
	nlines++;
}

/* The end of one may begin the next. */
static void one_after_the_other(void **state)
{
	struct lines w = {.line = on_line_again};
	struct program t = {.lines = &w, .over = on_over_again};

	(void)state;
	nover = nlines = 0;
	assert_int_equal(spawner_fixture_told(&t, again_argv, no_env), 0);
	while (nover < 3)
		uv_run(&loop, UV_RUN_ONCE);
	assert_int_equal(nlines, 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, spawner_fixture_setup, spawner_fixture_teardown)
		T(words_and_status), T(many_words), T(not_there),
		T(left_behind),	     T(killed),	    T(one_after_the_other),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
