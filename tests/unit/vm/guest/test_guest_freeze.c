/* SPDX-License-Identifier: Apache-2.0 */
/* Sandboxes that are frozen while their agent, which the test plays, still owes the answer to something before. */
/* modules: tests/unit/fixture/records.c tests/unit/fixture/sandbox_fixture.c tests/unit/fixture/fake_agent.c vm */
/* libs: uv crypto jansson seccomp */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

#include "tests/unit/fixture/records.h"
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

/* A job was removed, and is still ending: one that goes on is in the way, that one is waited for. */
static void behind_a_job(void **state)
{
	const struct sandbox_job job = {
		.id = SANDBOX_JOB_ID + 1, .code = proto_cstr("echo"), .limit = {1000, 1000}};

	(void)state;
	open_ready(&seen[0], 0);
	in_call = true;
	assert_int_equal(sandbox_job(seen[0].s, &job), 0);
	in_call = false;
	fake_free(fake_expect(PROTO_JOB));
	assert_int_equal(freeze(), -EBUSY);
	assert_int_equal(sandbox_job_forget(seen[0].s, job.id), 0);
	assert_int_equal(freeze(), 0);
	fake_free(fake_expect(PROTO_JOB_FORGET));
	fake_settle();
	assert_false(fake_got(PROTO_FREEZE));
	fake_send(PROTO_JOB_GONE, 0, job.id, "", 0);
	fake_settle();
	expect(PROTO_FREEZE_ALL);
	answered(0, 0);
	say(0);
	answered(1, 0);
	close_it(&seen[0]);
}

/* ---- what is paused, and saved ---- */

static void pause_it(void)
{
	assert_int_equal(freeze(), 0);
	expect(PROTO_FREEZE_ALL);
	say(0);
	answered(1, 0);
}

static void save(bool memory)
{
	seen[0].nsaved = 0;
	in_call = true;
	assert_int_equal(sandbox_save(seen[0].s, memory), 0);
	in_call = false;
}

/* All of its files: there are none. */
static void give_files(void)
{
	uint8_t wire[16];
	struct proto_out o = {wire, 0, sizeof(wire), false};
	struct fake_frame *f = fake_expect(PROTO_PACK);

	assert_non_null(f);
	records_begin(NULL);
	records_dir("");
	records_up();
	put_u32(&o, 0);
	put_u32(&o, 0);
	put_u32(&o, 0);
	put_str(&o, proto_cstr(""));
	fake_send(PROTO_PACKED, 0, f->h.id, records_bytes, records_out.len);
	fake_send(PROTO_PACKED, PROTO_F_EOF, f->h.id, wire, o.len);
	fake_free(f);
}

/* It stands still, its files are read, and something has run: it is stopped anew. */
static void runs_meanwhile(void)
{
	say(0);
	give_files();
	expect(PROTO_FREEZE_ALL);
	say(ECANCELED);
	expect(PROTO_FREEZE_ALL);
}

static bool has_answered(void *data)
{
	return ((struct seen *)data)->nsaved > 0;
}

static void is_saved(void)
{
	assert_true(fake_spin(has_answered, &seen[0]));
	assert_non_null(seen[0].saved);
	saved_unref(seen[0].saved);
}

/* A timer wakes something in it before it is saved, and once more meanwhile: all of it is stopped again at once, and saved as it is
 * then. */
static void paused_and_woken(void **state)
{
	(void)state;
	open_ready(&seen[0], 0);
	pause_it();
	save(false);
	expect(PROTO_FREEZE_ALL);
	say(ECANCELED);
	expect(PROTO_FREEZE_ALL);
	runs_meanwhile();
	assert_int_equal(seen[0].s->save.step, SAVE_AGAIN);
	say(0);
	expect(PROTO_FREEZE_ALL);
	say(0);
	give_files();
	expect(PROTO_FREEZE_ALL);
	assert_true(seen[0].s->still && seen[0].s->save.paused);
	say(0);
	is_saved();
	assert_int_equal(seen[0].err_of_freeze, 0);
	assert_true(seen[0].s->still);
	assert_false(fake_got(PROTO_FREEZE));
	close_it(&seen[0]);
}

/* It is woken each time. */
static void paused_and_always_woken(void **state)
{
	(void)state;
	open_ready(&seen[0], 0);
	pause_it();
	save(false);
	for (unsigned i = 0; i < 5; i++) {
		assert_int_equal(seen[0].nsaved, 0);
		expect(PROTO_FREEZE_ALL);
		runs_meanwhile();
		say(0);
	}
	assert_int_equal(seen[0].nsaved, 1);
	assert_non_null(strstr(seen[0].not_saved.cause, "ran although it was stopped, 5 times"));
	assert_int_equal(seen[0].err_of_freeze, 0);
	assert_true(seen[0].s->still);
	close_it(&seen[0]);
}

/* What can't be stopped any more is paused no more: that is told, and it goes on behind the save. */
static void paused_no_more(void **state)
{
	(void)state;
	open_ready(&seen[0], 0);
	for (unsigned i = 0; i < 2; i++) {
		pause_it();
		save(false);
		expect(PROTO_FREEZE_ALL);
		if (i == 0) {
			say(EBUSY);
		} else {
			runs_meanwhile();
			say(EBUSY);
		}
		answered(1, -EBUSY);
		assert_false(seen[0].s->still);
		expect(PROTO_FREEZE_ALL);
		say(0);
		give_files();
		expect(PROTO_THAW_CHECKED);
		say(0);
		is_saved();
		answered(0, 0);
	}
	close_it(&seen[0]);
}

/* It goes on when nothing comes of the save. */
static void resumed_meanwhile(void **state)
{
	(void)state;
	open_ready(&seen[0], 0);
	pause_it();
	save(true);
	expect(PROTO_FREEZE_PREPARE);
	thaw();
	fake_pointed(-ENOSPC);
	assert_int_equal(seen[0].nsaved, 1);
	assert_null(seen[0].saved);
	expect(PROTO_THAW);
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
		TEST(behind_a_job),
		TEST(paused_and_woken),
		TEST(paused_and_always_woken),
		TEST(paused_no_more),
		TEST(resumed_meanwhile),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
