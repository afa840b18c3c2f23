/* SPDX-License-Identifier: Apache-2.0 */
/* Spans of a run: what is below what, and the numbers that they have. */
/* modules: tests/unit/fixture/fixture.c */
#include <jansson.h>

#include "tests/unit/fixture/fixture.h"
#include "fs/session/fs.h"
#include "fs/session/traces.h"

static void begin(struct fixture *fx)
{
	fake_spans = (struct fake_spans){.on = true};
	fx->fs->vm = (struct vm *)&fake_spans; /* any: a fake has none */
}

static void end(struct fixture *fx)
{
	for (unsigned i = 0; i < fake_spans.n; i++)
		free(fake_spans.json[i]);
	fake_spans = (struct fake_spans){.on = false};
	fx->fs->vm = NULL;
}

/* Of the span called so, which there is once. */
static json_t *span(const char *name)
{
	json_t *found = NULL;

	for (unsigned i = 0; i < fake_spans.n; i++) {
		json_t *o = json_loads(fake_spans.json[i], 0, NULL);

		assert_non_null(o);
		if (strcmp(json_string_value(json_object_get(o, "name")), name) != 0) {
			json_decref(o);
			continue;
		}
		assert_null(found);
		found = o;
	}
	assert_non_null(found);
	return found;
}

static const char *word(const json_t *o, const char *key)
{
	return json_string_value(json_object_get(o, key));
}

static void expect_below(const json_t *child, const json_t *parent)
{
	assert_string_equal(word(child, "traceId"), word(parent, "traceId"));
	assert_string_equal(word(child, "parentSpanId"), word(parent, "spanId"));
}

static void test_a_run(void **state)
{
	struct fixture *fx = *state;
	json_t *run, *queue, *execute, *start;

	begin(fx);
	fake_exit(fx_run(fx, "x"), VM_TIMEOUT, 124);
	run = span("run");
	queue = span("queue");
	execute = span("execute");
	start = span("start");
	assert_int_equal(strlen(word(run, "traceId")), 32);
	assert_int_equal(strlen(word(run, "spanId")), 16);
	assert_null(word(run, "parentSpanId"));
	expect_below(queue, run);
	expect_below(execute, run);
	expect_below(start, queue);
	assert_int_equal(
		json_integer_value(json_object_get(json_object_get(run, "status"), "code")), 2);
	assert_null(json_object_get(queue, "status"));
	json_decref(run);
	json_decref(queue);
	json_decref(execute);
	json_decref(start);
	end(fx);
}

static void test_one_that_never_ran(void **state)
{
	struct fixture *fx = *state;
	json_t *run, *queue;

	begin(fx);
	fake_faults.run_err = -EIO;
	assert_int_equal(fx_put(fx, "python/demo/in", "x"), 0);
	fake_state(fake_sandbox(), SANDBOX_READY);
	fake_faults.run_err = 0;
	run = span("run");
	queue = span("queue");
	expect_below(queue, run);
	assert_non_null(json_object_get(queue, "status"));
	for (unsigned i = 0; i < fake_spans.n; i++)
		assert_null(strstr(fake_spans.json[i], "\"execute\""));
	json_decref(run);
	json_decref(queue);
	end(fx);
}

static void test_off(void **state)
{
	struct fixture *fx = *state;

	fake_exit(fx_run(fx, "x"), VM_DONE, 0);
	assert_int_equal(fake_spans.n, 0);
}

/* What is too long to be sent is cut, and not lost: causes, and where it is mounted. */
static void test_long(void **state)
{
	struct fixture *fx = *state;
	struct problem why = {.code = PROBLEM_FAILED};
	char mountpoint[4096], *resource;
	json_t *o, *status;

	memset(mountpoint, '"', sizeof(mountpoint) - 1);
	mountpoint[sizeof(mountpoint) - 1] = '\0';
	resource = traces_resource(mountpoint);
	assert_in_range(strlen(resource), 100, VM_TRACE_MAX);
	assert_non_null(strstr(resource, "\\\"\xe2\x80\xa6\""));
	o = json_loads(resource, 0, NULL);
	assert_int_equal(json_array_size(o), 4);
	json_decref(o);
	free(resource);
	begin(fx);
	/* Characters of three bytes are not cut within. */
	for (size_t i = 0; i + 3 < sizeof(why.cause); i += 3)
		memcpy(why.cause + i, i < 900 ? "\1\1\1" : "\xe2\x82\xac", 3);
	traces_saved(fx_demo(fx), 1000, &why);
	assert_int_equal(fake_spans.n, 1);
	assert_in_range(strlen(fake_spans.json[0]), 1000, VM_TRACE_MAX);
	o = span("save");
	status = json_object_get(o, "status");
	assert_memory_equal(word(status, "message"), "\1\1\1\1", 4);
	assert_string_equal(word(status, "message") + strlen(word(status, "message")) - 3,
			    "\xe2\x80\xa6");
	json_decref(o);
	end(fx);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		fx_test(test_a_run),
		fx_test(test_one_that_never_ran),
		fx_test(test_off),
		fx_test(test_long),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
