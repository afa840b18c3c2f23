/* SPDX-License-Identifier: Apache-2.0 */
/* A sandbox's output and input, and an agent that is hostile. */
/* modules: tests/unit/fixture/sandbox_fixture.c tests/unit/fixture/fake_agent.c vm */
/* libs: uv crypto jansson seccomp */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

#include "tests/unit/fixture/sandbox_fixture.h"

/* ---- streams ---- */

static void output_credit(void **state)
{
	static uint8_t piece[4 + (128 << 10)];
	struct sandbox_run run = a_run(1);
	struct fake_frame *f;

	(void)state;
	run.limit[VM_STDOUT] = 64 << 20;
	open_ready(&seen[0], 0);
	assert_int_equal(call_run(&seen[0], &run), 0);
	fake_free(fake_expect(PROTO_RUN));
	for (uint8_t i = 0; i < 4; i++) {
		piece[0] = i;
		fake_send(PROTO_OUTPUT, PROTO_STDOUT, 1, piece, sizeof(piece));
	}
	f = fake_expect(PROTO_CREDIT);
	assert_non_null(f);
	assert_int_equal(f->payload[0] | f->payload[1] << 8 | f->payload[2] << 16, 512 << 10);
	fake_free(f);
	close_it(&seen[0]);
	assert_int_equal(seen[0].output[VM_STDOUT].len, 512 << 10);
}

static bool has_room(void *data)
{
	return ((struct seen *)data)->nrooms;
}

static void stdin_flow(void **state)
{
	static const char input[900000] = "first";
	struct sandbox_run run = a_run(1);
	uint8_t credit[4] = {0x10};
	struct fake_frame *f;
	size_t taken, at;

	(void)state;
	run.input = true;
	open_ready(&seen[0], 0);
	assert_int_equal(call_run(&seen[0], &run), 0);
	f = fake_expect(PROTO_RUN);
	assert_int_equal(f->payload[0], PROTO_RUN_STDIN);
	fake_free(f);
	assert_false(sandbox_write(seen[0].s, 1, input, sizeof(input), true, &taken));
	assert_int_equal(taken, 0);
	fake_settle();
	assert_false(fake_got(PROTO_STDIN));
	fake_send(PROTO_STDIN_CREDIT, 0, 1, credit, 4);
	assert_true(fake_spin(has_room, &seen[0]));
	assert_false(sandbox_write(seen[0].s, 1, input, sizeof(input), true, &taken));
	assert_int_equal(taken, 16);
	f = fake_expect(PROTO_STDIN);
	assert_int_equal(f->h.length, 16);
	assert_int_equal(f->h.flags, 0);
	assert_memory_equal(f->payload, "first", 6);
	fake_free(f);
	seen[0].nrooms = 0;
	credit[2] = 15;
	fake_send(PROTO_STDIN_CREDIT, 0, 1, credit, 4);
	assert_true(fake_spin(has_room, &seen[0]));
	/* More than waits in the channel at a time: it asks for the rest when there is room. */
	seen[0].nrooms = 0;
	assert_false(sandbox_write(seen[0].s, 1, input + 16, sizeof(input) - 16, true, &taken));
	assert_in_range(taken, 256 << 10, sizeof(input) - 17); /* and what the socket holds */
	at = 16 + taken;
	for (size_t left = sizeof(input) - 16; left;) {
		f = fake_expect(PROTO_STDIN);
		assert_non_null(f);
		assert_true(f->h.length <= left);
		left -= f->h.length;
		assert_int_equal(f->h.flags, left ? 0 : PROTO_F_EOF);
		fake_free(f);
		if (at < sizeof(input) && fake_spin(has_room, &seen[0])) {
			assert_true(sandbox_write(seen[0].s, 1, input + at, sizeof(input) - at,
						  true, &taken));
			at += taken;
		}
	}
	close_it(&seen[0]);
}

static void stdin_empty(void **state)
{
	struct sandbox_run run = a_run(1);
	struct fake_frame *f;
	size_t taken;

	(void)state;
	run.input = true;
	open_ready(&seen[0], 0);
	assert_int_equal(call_run(&seen[0], &run), 0);
	assert_true(sandbox_write(seen[0].s, 1, "", 0, true, &taken));
	f = fake_expect(PROTO_STDIN);
	assert_int_equal(f->h.length, 0);
	assert_int_equal(f->h.flags, PROTO_F_EOF);
	fake_free(f);
	close_it(&seen[0]);
}

/* Who has closed his input is told of, once; what is written then is dropped. */
static void stdin_closed(void **state)
{
	struct sandbox_run run = a_run(1);
	size_t taken;

	(void)state;
	run.input = true;
	open_ready(&seen[0], 0);
	assert_int_equal(call_run(&seen[0], &run), 0);
	fake_send(PROTO_STDIN_CLOSED, 0, 7, "", 0); /* of no run */
	fake_send(PROTO_STDIN_CLOSED, 0, 1, "", 0);
	fake_send(PROTO_STDIN_CLOSED, 0, 1, "", 0);
	fake_settle();
	assert_int_equal(seen[0].ndeaf, 1);
	assert_true(sandbox_write(seen[0].s, 1, "x", 1, false, &taken));
	assert_int_equal(taken, 1);
	fake_settle();
	assert_false(fake_got(PROTO_STDIN));
	close_it(&seen[0]);
}

/* ---- a hostile agent ---- */

static void send_other_run(void)
{
	send_exit(2, PROTO_HOW_DONE, 0);
}

static void send_bad_status(void)
{
	send_exit(1, PROTO_HOW_DONE, 256);
}

static void send_bad_sequence(void)
{
	send_output(1, PROTO_STDOUT, 1, "x");
}

static void send_bad_stream(void)
{
	send_output(1, 3, 0, "x");
}

static void send_past_limit(void)
{
	char text[1100];

	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	send_output(1, PROTO_STDOUT, 0, text);
}

static void send_unknown_type(void)
{
	fake_send(999, 0, 0, "", 0);
}

static void send_huge(void)
{
	static const uint8_t header[PROTO_HEADER] = {0xff, 0xff, 0xff, 0xff, PROTO_PONG, 0, 0, 1};

	fake_send_raw(header, sizeof(header));
}

static void send_unasked_file(void)
{
	static const uint8_t no_error[4];

	fake_send(PROTO_FILE_REPLY, 0, 5, no_error, sizeof(no_error));
}

static void hostile(void **state)
{
	static void (*const sends[])(void) = {
		send_other_run,	 send_bad_status,   send_bad_sequence,
		send_bad_stream, send_past_limit,   send_unknown_type,
		send_huge,	 send_unasked_file, send_hello_ok,
	};

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(sends); i++) {
		seen[0].nstates = seen[0].nexits = seen[0].nclosed = 0;
		open_ready(&seen[0], 0);
		run_one(&seen[0], 1);
		fake_free(fake_expect(PROTO_RUN));
		sends[i]();
		until_closed(&seen[0]);
		assert_string_equal(problem_code_str(seen[0].problem.code), "agent-protocol");
		assert_int_equal(seen[0].result.outcome, VM_LOST);
	}
}

/* Frames of another generation are as if they had not been. */
static void other_generation(void **state)
{
	static const uint8_t bogus[] = {1, 0, 0, 0, PROTO_EXIT, 0, 0, 9, 1, 0, 0, 0, 0xff};

	(void)state;
	open_ready(&seen[0], 0);
	run_one(&seen[0], 1);
	fake_send_raw(bogus, sizeof(bogus));
	send_exit(1, PROTO_HOW_DONE, 0);
	until(&seen[0], SANDBOX_READY);
	close_it(&seen[0]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, sandbox_fixture_setup, sandbox_fixture_teardown)
		T(output_credit), T(stdin_flow), T(stdin_empty),
		T(stdin_closed),  T(hostile),	 T(other_generation),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
