/* SPDX-License-Identifier: Apache-2.0 */
/* Sandboxes that are frozen while their agent, which the test plays, still owes the answer to something before. */
/* modules: tests/unit/fixture/sandbox_fixture.c tests/unit/fixture/fake_agent.c vm */
/* libs: uv crypto jansson seccomp */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

#include "tests/unit/fixture/sandbox_fixture.h"
#include "vm/guest/internal.h"

static int freeze(void)
{
	int r;

	in_call = true;
	r = sandbox_freeze(seen[0].s);
	in_call = false;
	return r;
}

static void thaw(void)
{
	in_call = true;
	sandbox_thaw(seen[0].s);
	in_call = false;
}

static void expect(enum proto_freeze how)
{
	struct fake_frame *f = fake_expect(PROTO_FREEZE);

	assert_non_null(f);
	assert_int_equal(f->payload[0], how);
	fake_free(f);
}

static void say(uint32_t err)
{
	uint8_t wire[4];
	struct proto_out o = {wire, 0, sizeof(wire), false};

	put_u32(&o, err);
	fake_send(PROTO_FROZEN, 0, 0, wire, o.len);
	fake_settle();
}

static void answered(unsigned n, int err)
{
	assert_int_equal(seen[0].nfrozen, n);
	if (n)
		assert_int_equal(seen[0].err_of_freeze, err);
	seen[0].nfrozen = 0;
}

/* One asks, goes on, and asks again: each answer is to its own question, and no more than one is under way. */
static void again(void **state)
{
	(void)state;
	open_ready(&seen[0], 0);
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(freeze(), 0);
		expect(PROTO_FREEZE_ALL);
		for (unsigned k = 0; k <= i; k++) {
			thaw();
			expect(PROTO_THAW);
			assert_int_equal(freeze(), 0);
		}
		fake_settle();
		assert_false(fake_got(PROTO_FREEZE));
		say(i ? ECANCELED : 0);
		answered(0, 0);
		assert_true(seen[0].s->still);
		expect(PROTO_FREEZE_ALL);
		say(0);
		answered(1, 0);
		assert_true(seen[0].s->still);
		thaw();
		expect(PROTO_THAW);
	}
	close_it(&seen[0]);
}

/* Nobody wants that one any more either. */
static void not_again(void **state)
{
	(void)state;
	open_ready(&seen[0], 0);
	assert_int_equal(freeze(), 0);
	expect(PROTO_FREEZE_ALL);
	thaw();
	assert_int_equal(freeze(), 0);
	thaw();
	expect(PROTO_THAW);
	expect(PROTO_THAW);
	say(ECANCELED);
	assert_false(fake_got(PROTO_FREEZE));
	assert_int_equal(freeze(), 0);
	expect(PROTO_FREEZE_ALL);
	thaw();
	assert_int_equal(freeze(), 0);
	expect(PROTO_THAW);
	assert_int_equal(sandbox_reset(seen[0].s), 0);
	fake_free(fake_expect(PROTO_RESET));
	say(ECANCELED);
	send_ready("1");
	until(&seen[0], SANDBOX_READY);
	assert_false(fake_got(PROTO_FREEZE));
	assert_false(seen[0].s->still);
	run_one(&seen[0], 1);
	close_it(&seen[0]);
}

/* It can't be asked when its turn has come: that is the answer. */
static void too_late(void **state)
{
	struct sandbox_run run = a_run(1);

	(void)state;
	open_ready(&seen[0], 0);
	assert_int_equal(freeze(), 0);
	expect(PROTO_FREEZE_ALL);
	thaw();
	expect(PROTO_THAW);
	assert_int_equal(freeze(), 0);
	assert_int_equal(call_run(&seen[0], &run), 0);
	seen[0].nfrozen = 0;
	say(ECANCELED);
	assert_false(fake_got(PROTO_FREEZE));
	answered(1, -EBUSY);
	assert_false(seen[0].s->still);
	fake_free(fake_expect(PROTO_RUN));
	send_exit(1, PROTO_HOW_DONE, 0);
	until_exit(&seen[0]);
	close_it(&seen[0]);
}

/* A save that has failed just now was to be prepared for, or to stand still. */
static void behind_a_save(void **state)
{
	(void)state;
	open_ready(&seen[0], 0);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(sandbox_save(seen[0].s, true), 0);
		if (i == 0) {
			expect(PROTO_FREEZE_PREPARE);
			fake_pointed(-ENOSPC);
		} else {
			fake_prepared();
			expect(PROTO_FREEZE_ALL);
			fake_pointed(-ENOSPC);
			expect(PROTO_THAW);
		}
		assert_int_equal(seen[0].nsaved, i + 1);
		assert_null(seen[0].saved);
		assert_int_equal(freeze(), 0);
		say(i ? ECANCELED : 0);
		answered(0, 0);
		expect(PROTO_FREEZE_ALL);
		say(0);
		answered(1, 0);
		thaw();
		expect(PROTO_THAW);
	}
	close_it(&seen[0]);
}

#define TEST(name) \
	cmocka_unit_test_setup_teardown(name, sandbox_fixture_setup, sandbox_fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(again),
		TEST(not_again),
		TEST(too_late),
		TEST(behind_a_save),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
