/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes whose text is rendered at open: sizes, contents, JSON, metrics. */
/* modules: tests/unit/fixture/fixture.c */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>

#include "fs/tree/dir.h"
#include "fs/tree/table.h"
#include "fs/session/job.h"
#include "tests/unit/fixture/fixture.h"

#define TOP "python/demo/"

static json_t *load(struct fixture *fx, const char *path)
{
	json_error_t why;
	json_t *o = json_loads(fx_cat(fx, path), 0, &why);

	if (!o)
		fail_msg("%s: %s", path, why.text);
	return o;
}

static const char *string_in(json_t *o, const char *a, const char *key)
{
	return json_string_value(json_object_get(a ? json_object_get(o, a) : o, key));
}

static void test_what_is_sized_is_what_is_read(void **state)
{
	static const char *const paths[] = {
		"README.md",
		"status.json",
		"isolation",
		"doctor",
		"metrics",
		"python/template.json",
		"python/README.md",
		TOP "summary",
		TOP "state",
		TOP "status.json",
		TOP "error",
		TOP "config",
		TOP "console",
		TOP "README.md",
		TOP "runs/1/in",
		TOP "runs/1/state",
		TOP "runs/1/status.json",
		TOP "runs/1/summary",
		TOP "runs/1/exit_code",
	};
	struct fixture *fx = *state;

	fake_exit(fx_run(fx, "x"), VM_DONE, 0);
	for (unsigned i = 0; i < ARRAY_SIZE(paths); i++) {
		struct file f = fx_opened(fx, paths[i], O_RDONLY);
		struct stat st;
		struct req *r;

		fx_mkdir(fx, "raw/changes-numbers");
		assert_int_equal(fx_stat_ino(fx, f.ino, &st), 0);
		r = fx_read(fx, &f, 1 << 20, 0);
		if (r->size != (size_t)st.st_size)
			fail_msg("%s: %zu instead of %zu bytes", paths[i], r->size,
				 (size_t)st.st_size);
		f.offset = r->size;
		assert_bytes(fx_read(fx, &f, 10, 0), "");
		f.offset = 1;
		assert_true(fx_read(fx, &f, 1, 0)->size <= 1);
		fx_close(fx, &f);
		fx_rmdir(fx, "raw/changes-numbers");
	}
}

/* Where there is no memory for all of a text or a listing, it is an error, and never a part of it. */
static void test_all_or_nothing(void **state)
{
	static const char *const dirs[] = {"",		 "python",	     "python/demo",
					   TOP "runs",	 TOP "runs/1",	     TOP "jobs",
					   TOP "jobs/x", TOP "checkpoints/x"};
	struct fixture *fx = *state;
	struct checkpoint *cp;
	unsigned cut = 0;

	fake_exit(fx_run(fx, "x"), VM_DONE, 0);
	assert_int_equal(fx_mkdir(fx, TOP "jobs/x"), 0);
	assert_int_equal(session_checkpoint(fx_demo(fx), "x", false, &cp), 0);
	fake_asks(fake_sandbox(), 1, "GET", "https", "api.test", 443, "/", 0);
	for (int k = 0; k < NODE_NKINDS; k++) {
		const enum node_kind kind = (enum node_kind)k;
		struct node n = {
			.fs = fx->fs, .kind = kind, .t = &fx->conf.template[0], .checkpoint = cp};
		struct buf whole = {0};

		if (!node_defs[k].render)
			continue;
		n.s = fx_demo(fx);
		n.r = n.s->front.latest;
		n.job = job_find(n.s, "x", false);
		n.question = question_find(n.s, 1);
		n.front = k >= NODE_JOB && k <= NODE_JOB_CTL ? &n.job->front : &n.s->front;
		assert_int_equal(node_render(&n, &whole), 0);
		for (size_t limit = 1; limit < whole.len; limit += 61) {
			struct buf part = {.limit = limit};

			assert_true(node_render(&n, &part) < 0);
			buf_clear(&part);
			cut++;
		}
		buf_clear(&whole);
	}
	assert_true(cut > 100);
	for (unsigned i = 0; i < ARRAY_SIZE(dirs); i++) {
		struct handle h = {.text = {.limit = 600}};
		struct node n;

		assert_int_equal(node_resolve(fx->fs, fx_ino(fx, dirs[i]), &n), 0);
		assert_true(dir_open(&h, &n) < 0);
		buf_clear(&h.text);
	}
}

static void test_session_status(void **state)
{
	struct fixture *fx = *state;
	json_t *o = load(fx, TOP "status.json");
	struct sandbox *s;

	assert_string_equal(string_in(o, NULL, "state"), "new");
	assert_true(json_is_null(json_object_get(o, "sandbox")));
	assert_true(json_is_null(json_object_get(o, "latest")));
	assert_true(json_is_null(json_object_get(o, "error")));
	json_decref(o);
	s = fx_run(fx, "x");
	s->usage = (struct sandbox_usage){.mem_total_kib = 1000, .processes = 3};
	o = load(fx, TOP "status.json");
	assert_string_equal(string_in(o, NULL, "state"), "running");
	assert_string_equal(string_in(o, "sandbox", "interpreter"), "Fake 1.0");
	assert_string_equal(string_in(o, "sandbox", "start"), "cold");
	assert_string_equal(string_in(o, "latest", "state"), "running");
	assert_int_equal(
		json_integer_value(json_object_get(json_object_get(o, "usage"), "processes")), 3);
	json_decref(o);
	fake_die(s, PROBLEM_AGENT_LOST);
	o = load(fx, TOP "status.json");
	assert_string_equal(string_in(o, NULL, "state"), "closed");
	assert_string_equal(string_in(o, "error", "code"), "agent-lost");
	assert_string_equal(string_in(o, "sandbox", "interpreter"), "Fake 1.0"); /* kept */
	assert_true(json_is_null(json_object_get(json_object_get(o, "latest"), "exit_code")));
	json_decref(o);
}

static void test_run_status(void **state)
{
	struct fixture *fx = *state;
	struct vm_result r = {.outcome = VM_DONE,
			      .status = 7,
			      .wall_us = 1500,
			      .user_us = 1000,
			      .fresh = true,
			      .dropped = {0, 12},
			      .problem = {.code = PROBLEM_FAILED, .cause = "\xff\xfe"}};
	struct sandbox *s = fx_run(fx, "12345");
	json_t *o;

	fake_output(s, VM_STDOUT, "abc");
	fake_result(s, &r);
	o = load(fx, TOP "runs/1/status.json");
	assert_int_equal(json_integer_value(json_object_get(o, "exit_code")), 7);
	assert_int_equal(json_integer_value(json_object_get(o, "code_bytes")), 5);
	assert_true(json_is_true(json_object_get(o, "truncated")));
	assert_int_equal(
		json_integer_value(json_object_get(json_object_get(o, "stderr"), "dropped_bytes")),
		12);
	assert_int_equal(json_integer_value(json_object_get(json_object_get(o, "stdout"), "bytes")),
			 3);
	assert_string_equal(string_in(o, NULL, "interpreter"), "fresh");
	json_decref(o);
}

static void test_root_and_template_status(void **state)
{
	struct fixture *fx = *state;
	json_t *o = load(fx, "status.json");

	assert_string_equal(string_in(o, NULL, "accelerator"), "tcg");
	assert_int_equal(json_array_size(json_object_get(o, "templates")), 2);
	assert_int_equal(json_integer_value(json_object_get(json_object_get(o, "sessions"), "new")),
			 1);
	json_decref(o);
	o = load(fx, "python/template.json");
	assert_string_equal(string_in(o, "image", "python"), "3.11.2");
	json_decref(o);
	o = load(fx, "raw/template.json"); /* without an image */
	assert_true(json_is_null(json_object_get(o, "image")));
	assert_string_equal(string_in(o, NULL, "problem"), "there is no such image");
	json_decref(o);
}

static void test_metrics(void **state)
{
	struct fixture *fx = *state;
	const char *text;

	fake_exit(fx_run(fx, "x"), VM_OOM, 137);
	fake_output(fx_run(fx, "y"), VM_STDOUT, "12345");
	text = fx_cat(fx, "metrics");
	assert_non_null(strstr(text, "\nxsbxfs_runs_total{state=\"oom\"} 1\n"));
	assert_non_null(strstr(text, "\nxsbxfs_runs_total{state=\"done\"} 0\n"));
	assert_non_null(strstr(text, "\nxsbxfs_output_bytes_total 5\n"));
	assert_non_null(strstr(text, "\nxsbxfs_sessions{state=\"running\"} 1\n"));
	assert_non_null(strstr(text, "\nxsbxfs_sandboxes 1\n"));
}

static void has_count(const char *text, const char *series, unsigned n)
{
	char line[160];

	snprintf(line, sizeof(line), "\nxsbxfs_%s %u\n", series, n);
	if (!strstr(text, line))
		fail_msg("there is no line %s in %s", line + 1, text);
}

static void test_histograms(void **state)
{
	struct fixture *fx = *state;
	const char *text = fx_cat(fx, "metrics");

	assert_null(strstr(text, "_bucket"));
	fake_exit(fx_run(fx, "x"), VM_OOM, 137);
	fake_exit(fx_run(fx, "y"), VM_DONE, 0);
	(void)fx_run(fx, "z");
	text = fx_cat(fx, "metrics");
	has_count(text, "run_wait_duration_seconds_count{kind=\"run\"}", 3);
	has_count(text, "run_duration_seconds_count{language=\"python\",state=\"oom\"}", 1);
	has_count(text, "run_duration_seconds_count{language=\"python\",state=\"done\"}", 1);
	has_count(text,
		  "run_duration_seconds_bucket{language=\"python\",state=\"done\",le=\"+Inf\"}", 1);
	has_count(text, "sandbox_start_duration_seconds_count{start=\"cold\",backend=\"microvm\"}",
		  1);
	has_count(text, "sandbox_wait_duration_seconds_count", 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		fx_test(test_what_is_sized_is_what_is_read),
		fx_test(test_all_or_nothing),
		fx_test(test_session_status),
		fx_test(test_run_status),
		fx_test(test_root_and_template_status),
		fx_test(test_metrics),
		fx_test(test_histograms),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
