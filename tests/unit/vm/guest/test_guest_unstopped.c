/* SPDX-License-Identifier: Apache-2.0 */
/* What is said of a sandbox that could not be saved because a process in it could not be stopped, with the agent played by the test. */
/* modules: tests/unit/fixture/sandbox_fixture.c tests/unit/fixture/fake_agent.c vm */
/* libs: uv crypto jansson seccomp */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

#include "tests/unit/fixture/sandbox_fixture.h"
#include "vm/guest/internal.h"

static void begin(void)
{
	in_call = true;
	assert_int_equal(sandbox_save(seen[0].s, false), 0);
	in_call = false;
}

/* It is asked who it is. */
static void expect_freeze(void)
{
	struct fake_frame *f = fake_expect(PROTO_FREEZE);

	assert_non_null(f);
	assert_int_equal(f->payload[0], PROTO_FREEZE_ALL);
	assert_int_equal(f->h.flags, PROTO_F_WHO);
	fake_free(f);
}

static void say(uint32_t why, uint32_t pid, const char *name)
{
	uint8_t wire[256];
	struct proto_out o = {wire, 0, sizeof(wire), false};

	put_u32(&o, EBUSY);
	put_u32(&o, why);
	put_u32(&o, pid);
	put_str(&o, proto_cstr(name));
	fake_send(PROTO_FROZEN, 0, 0, wire, o.len);
}

static bool has_answered(void *data)
{
	return ((struct seen *)data)->nsaved > 0;
}

static void expect_words(const char *cause)
{
	assert_true(fake_spin(has_answered, &seen[0]));
	assert_int_equal(seen[0].nsaved, 1);
	seen[0].nsaved = 0;
	assert_null(seen[0].saved);
	assert_int_equal(seen[0].not_saved.code, PROBLEM_NOT_SAVED);
	assert_non_null(strstr(seen[0].not_saved.cause, cause));
}

static void expect_no_load(void)
{
	assert_null(strstr(seen[0].not_saved.cause, "load of"));
}

static void is_in_the_way(uint32_t why, unsigned tries, const char *cause)
{
	begin();
	for (unsigned i = 0; i < tries; i++) {
		assert_int_equal(seen[0].nsaved, 0);
		expect_freeze();
		say(why, 12, "na\tme");
	}
	expect_words(cause);
	expect_no_load();
}

/* One that will be in the way the next time, too, is tried three times, and not for half a minute. */
static void gives_up_early(void **state)
{
	(void)state;
	open_ready(&seen[0], 0);
	is_in_the_way(PROTO_UNSTOPPED_WOKEN, 3,
		      "process 12 (na?me) of the sandbox could not be stopped within ");
	assert_non_null(strstr(seen[0].not_saved.cause,
			       " s: it goes on whenever it is stopped: a timer sends it SIGCONT"));
	is_in_the_way(PROTO_UNSTOPPED_HIDDEN, 3, "nobody can tell whether it runs");
	close_it(&seen[0]);
}

/* One that may be out of there the next time, another one, and an agent that does not know, are not given up. */
static void goes_on(void **state)
{
	(void)state;
	open_ready(&seen[0], 0);
	begin();
	for (unsigned i = 0; i < 4; i++) {
		expect_freeze();
		say(PROTO_UNSTOPPED_WAITS, 12, "sh");
	}
	for (uint32_t i = 0; i < 4; i++) {
		expect_freeze();
		say(PROTO_UNSTOPPED_WOKEN, 12 + i % 2, "sh");
	}
	expect_freeze();
	say(PROTO_UNSTOPPED_NEW, 0, "");
	expect_freeze();
	assert_int_equal(seen[0].nsaved, 0);
	seen[0].s->save.began -= 31000;
	say(PROTO_UNSTOPPED_WAITS, 13, "");
	expect_words("process 13 of the sandbox could not be stopped within 3");
	expect_no_load();
	begin();
	expect_freeze();
	seen[0].s->save.began -= 31000;
	say(PROTO_UNSTOPPED_NEW, 0, "");
	expect_words("what runs in the sandbox could not be stopped within 3");
	expect_no_load();
	begin();
	expect_freeze();
	seen[0].s->save.began -= 31000;
	say(PROTO_UNSTOPPED_N + 7, 12, "sh"); /* of an agent that knows more than we do */
	expect_words(" with a load of ");
	close_it(&seen[0]);
}

/* What makes no sense ends it. */
static void believes_nothing(void **state)
{
	char name[PROTO_COMM_MAX + 2];

	(void)state;
	memset(name, 'x', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	open_ready(&seen[0], 0);
	begin();
	expect_freeze();
	say(PROTO_UNSTOPPED_WAITS, 12, name);
	until_closed(&seen[0]);
	assert_int_equal(seen[0].problem.code, PROBLEM_AGENT_PROTOCOL);
}

#define TEST(name) \
	cmocka_unit_test_setup_teardown(name, sandbox_fixture_setup, sandbox_fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(gives_up_early),
		TEST(goes_on),
		TEST(believes_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
