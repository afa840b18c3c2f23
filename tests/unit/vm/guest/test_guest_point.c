/* SPDX-License-Identifier: Apache-2.0 */
/* A guest is copied: what is sent before, meanwhile and behind it; and a copy begins. */
/* modules: tests/unit/fixture/sandbox_fixture.c tests/unit/fixture/fake_agent.c vm */
/* libs: uv crypto jansson seccomp */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <cmocka.h>

#include "tests/unit/fixture/sandbox_fixture.h"
#include "vm/base/problem.h"
#include "vm/checkpoint/point.h"
#include "vm/checkpoint/saved.h"
#include "vm/guest/internal.h"

/* As sandbox_save() when its files are there. */
static int begin(struct seen *e)
{
	int r;

	e->s->save = (struct save){.step = SAVE_POINT, .memory = true};
	r = guest_point_begin(e->s->guest);
	if (r < 0)
		return r;
	fake_prepared();
	return guest_point(e->s->guest);
}

static void answer_to(uint32_t id, uint32_t error)
{
	uint8_t bytes[4];
	struct proto_out o = {bytes, 0, sizeof(bytes), false};

	put_u32(&o, error);
	fake_send(PROTO_POINTED, 0, id, bytes, o.len);
	fake_settle();
}

static void answer(uint32_t error)
{
	answer_to(1, error);
}

static struct saved *make(struct seen *e)
{
	assert_int_equal(begin(e), 0);
	fake_free(fake_expect(PROTO_POINT));
	answer(0);
	assert_int_equal(fake_agent.copies, 1);
	assert_non_null(fake_agent.point);
	fake_agent.point->base = memfd_create("base", MFD_CLOEXEC);
	fake_agent.point->stream = memfd_create("stream", MFD_CLOEXEC);
	fake_pointed(0);
	assert_int_equal(e->nsaved, 1);
	return e->saved;
}

/* Nothing is sent before it is copied; then it hears something, also if there was nothing to say. */
static void silence(void **state)
{
	static const uint8_t none[4];
	struct saved *saved;

	(void)state;
	open_ready(&seen[0], 0);
	fake_settle();
	while (fake_got(PROTO_CLOCK))
		fake_free(fake_expect(PROTO_CLOCK));
	assert_int_equal(begin(&seen[0]), 0);
	assert_int_equal(begin(&seen[0]), -EBUSY);
	assert_int_equal(guest_freeze(seen[0].s->guest), -EBUSY);
	fake_free(fake_expect(PROTO_POINT));
	guest_ask_usage(seen[0].s->guest);
	assert_int_equal(guest_watch(seen[0].s->guest, true), 0);
	answer(0);
	fake_settle();
	assert_false(fake_got(PROTO_USAGE) || fake_got(PROTO_WATCH) || fake_got(PROTO_CLOCK));
	assert_int_equal(seen[0].nsaved, 0);
	fake_runs();
	fake_free(fake_expect(PROTO_USAGE));
	fake_free(fake_expect(PROTO_WATCH));
	fake_free(fake_expect(PROTO_CLOCK));
	fake_free(fake_expect(PROTO_FREEZE));
	fake_send(PROTO_FROZEN, 0, 0, none, sizeof(none));
	fake_settle();
	assert_int_equal(seen[0].nsaved, 0);
	fake_pointed(0);
	saved = seen[0].saved;
	assert_non_null(saved->point);
	saved_unref(saved);
	run_one(&seen[0], 1);
	close_it(&seen[0]);
}

/* The agent is busy, or the machine can't be copied: the guest goes on. */
static void refused(void **state)
{
	(void)state;
	open_ready(&seen[0], 0);
	assert_int_equal(begin(&seen[0]), 0);
	fake_free(fake_expect(PROTO_POINT));
	answer(EBUSY);
	assert_int_equal(fake_agent.copies, 0);
	assert_int_equal(fake_agent.cancels, 1);
	fake_pointed(-ECANCELED); /* the agent's word counts */
	assert_int_equal(seen[0].nsaved, 1);
	assert_null(seen[0].saved);
	assert_string_equal(problem_code_str(seen[0].problem.code), "not-saved");
	assert_int_equal(begin(&seen[0]), 0);
	fake_free(fake_expect(PROTO_POINT));
	answer_to(2, 0);
	fake_pointed(-EIO);
	assert_int_equal(seen[0].nsaved, 2);
	assert_null(seen[0].saved);
	run_one(&seen[0], 1);
	close_it(&seen[0]);
}

static void not_now(void **state)
{
	struct sandbox_run run = a_run(1);

	(void)state;
	open_ready(&seen[0], 0);
	assert_int_equal(call_run(&seen[0], &run), 0);
	assert_int_equal(begin(&seen[0]), -EBUSY);
	fake_settle();
	assert_false(fake_got(PROTO_POINT));
	close_it(&seen[0]);
}

/* That was not asked for. */
static void unasked(void **state)
{
	(void)state;
	open_ready(&seen[0], 0);
	answer(0);
	until_closed(&seen[0]);
	assert_string_equal(problem_code_str(seen[0].problem.code), "agent-protocol");
}

static void ends_meanwhile(void **state)
{
	(void)state;
	open_ready(&seen[0], 0);
	assert_int_equal(begin(&seen[0]), 0);
	fake_free(fake_expect(PROTO_POINT));
	close_it(&seen[0]);
	open_ready(&seen[1], 0);
	assert_int_equal(begin(&seen[1]), 0);
	fake_free(fake_expect(PROTO_POINT));
	answer(0);
	close_it(&seen[1]);
	assert_int_equal(seen[0].nsaved + seen[1].nsaved, 0);
}

/* Its agent hears of the next generation, and that it is a copy; of 0 it never hears. */
static void begins(void **state)
{
	static const uint32_t generations[][2] = {{1, 2}, {254, 255}, {255, 257}, {511, 513}};
	struct saved *saved;

	(void)state;
	open_ready(&seen[0], 0);
	assert_int_equal(fake_agent.hello & PROTO_F_COPY, 0);
	saved = make(&seen[0]);
	assert_int_equal(saved->point->generation, 1);
	assert_int_equal(saved->point->fit.memory_mb, 192);
	close_it(&seen[0]);
	for (size_t i = 0; i < ARRAY_SIZE(generations); i++) {
		struct sandbox_info info;

		memset(&seen[1], 0, sizeof(seen[1]));
		seen[1].from = saved;
		saved->point->generation = generations[i][0];
		open_ready(&seen[1], 0);
		assert_true(fake_agent.from_point);
		assert_int_equal(fake_agent.generation, generations[i][1]);
		assert_int_equal(fake_agent.hello & PROTO_F_COPY, PROTO_F_COPY);
		sandbox_info(seen[1].s, &info);
		assert_string_equal(info.start, "saved");
		run_one(&seen[1], 1);
		close_it(&seen[1]);
	}
	saved_unref(saved);
}

/* One that does not come up is not replaced by one that boots, which would have nothing of it. */
static void does_not_begin(void **state)
{
	struct saved *saved;

	(void)state;
	open_ready(&seen[0], 0);
	saved = seen[1].from = seen[2].from = make(&seen[0]);
	close_it(&seen[0]);
	open_sandbox(&seen[1], 0);
	until(&seen[1], SANDBOX_STARTING);
	fake_down(PROBLEM_QEMU_EXITED, "the stream is bad");
	until_closed(&seen[1]);
	assert_non_null(strstr(seen[1].problem.cause, "the stream is bad"));
	assert_int_equal(fake_agent.started, 2);
	/* Nor one that is of another kind. */
	saved->point->fit.memory_mb++;
	open_sandbox(&seen[2], 0);
	until_closed(&seen[2]);
	assert_string_equal(problem_code_str(seen[2].problem.code), "not-restored");
	assert_int_equal(fake_agent.started, 2);
	saved->point->fit.memory_mb--;
	/* Nor one whose interpreter the agent would replace, without a word. */
	saved->point->fit.interpreter[0] ^= 1;
	memset(&seen[2], 0, sizeof(seen[2]));
	seen[2].from = saved;
	open_sandbox(&seen[2], 0);
	until_closed(&seen[2]);
	assert_string_equal(problem_code_str(seen[2].problem.code), "not-restored");
	assert_non_null(strstr(seen[2].problem.cause, "variables"));
	assert_int_equal(fake_agent.started, 2);
	saved_unref(saved);
}

/* Whatever of it differs, the sum does. */
static void interpreters(void **state)
{
	static const struct sandbox_env one[] = {{"A", "b"}, {"C", ""}},
					other[] = {{"A", "bC"}, {"", ""}};
	const struct sandbox_spec specs[] = {
		{.language = "raw"},
		{.language = "python"},
		{.language = "raw", .limits.processes = 9},
		{.language = "raw", .limits.open_files = 9},
		{.language = "raw", .limits.file_size_mb = 9},
		{.language = "raw", .env = one, .nenv = 1},
		{.language = "raw", .env = one, .nenv = 2},
		{.language = "raw", .env = other, .nenv = 2},
	};
	const struct sandbox_spec same = {
		.language = "raw", .name = "x", .memory_mb = 7, .limits.files_mb = 7};
	char sum[ARRAY_SIZE(specs)][DIGEST_HEX], again[DIGEST_HEX];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(specs); i++) {
		assert_int_equal(guest_interpreter_sum(&specs[i], sum[i]), 0);
		for (size_t j = 0; j < i; j++)
			assert_string_not_equal(sum[i], sum[j]);
	}
	assert_int_equal(guest_interpreter_sum(&same, again), 0);
	assert_string_equal(again, sum[0]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, sandbox_fixture_setup, sandbox_fixture_teardown)
		T(silence),	   T(refused), T(not_now),	  T(unasked),
		T(ends_meanwhile), T(begins),  T(does_not_begin), T(interpreters),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
