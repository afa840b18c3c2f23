/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions as records, that sleep, begin as copies, or have checkpoints: what they are of is in no record. */
/* modules: tests/unit/fixture/fixture.c tests/unit/fixture/shelf.c tests/unit/fixture/keep_fixture.c vm/base/record.c vm/base/estate.c vm/base/estate_file.c vm/base/estate_items.c vm/base/estate_load.c vm/base/estate_tidy.c vm/base/memory.c fs/handover/generations.c */
/* modules: fs/handover/sessions.c fs/handover/savings.c fs/handover/texts.c fs/handover/outputs.c fs/handover/sink.c fs/handover/files.c fs/handover/calls.c fs/handover/handles.c vm/base/problem_record.c */
/* modules: fs/keep/aside.c fs/keep/policy.c fs/keep/code.c fs/keep/front.c fs/keep/job.c fs/keep/join.c fs/keep/lasting.c fs/keep/live.c fs/keep/output.c fs/keep/run.c fs/keep/replay.c fs/keep/revive.c fs/keep/session.c fs/keep/sound.c fs/keep/value.c vm/base/problem_record.c */
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "fs/handover/internal.h"
#include "fs/keep/keep.h"
#include "tests/unit/fixture/fixture.h"
#include "tests/unit/fixture/keep_fixture.h"
#include "tests/unit/fixture/shelf.h"

#define TOP "python/demo/"

static bool advises(const struct session *s, const char *words)
{
	return strstr(problem_kept(&s->front.error)->fix, words);
}

static void test_asleep(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = fx_run(fx, "x");
	struct estate *e;
	struct second two;

	fake_exit(s, VM_DONE, 0);
	assert_int_equal(fx_mkdir(fx, TOP "checkpoints/a"), 0);
	kx_check_both(fx); /* it is being saved */
	kx_saves(s);
	fake_settle();
	kx_check(fx, &kx_at_rest, &two); /* as after a power cut */
	assert_int_equal(problem_kept(&kx_in_second(&two, "demo")->front.error)->code,
			 PROBLEM_NOT_KEPT);
	assert_true(advises(kx_in_second(&two, "demo"), "`restore` goes back to a checkpoint"));
	kx_end(&two);
	fx_put(fx, TOP "config", "timeout_s = 9\n");
	assert_int_equal(fx_put(fx, TOP "ctl", "sleep"), 0);
	kx_saves(s);
	fx_expect(fx, TOP "state", "asleep\n");
	kx_check_both(fx);
	fake_settle();
	kx_check(fx, &kx_at_rest, &two);
	assert_int_equal(kx_in_second(&two, "demo")->state, SESSION_ASLEEP);
	assert_ptr_equal(kx_in_second(&two, "demo")->asleep.saved, shelf.saved[1]);
	assert_ptr_equal(checkpoint_find(kx_in_second(&two, "demo"), "a")->saved, shelf.saved[0]);
	assert_int_equal(checkpoint_find(kx_in_second(&two, "demo"), "a")->settings.timeout_s, 30);
	kx_end(&two);

	/* What is not on the disk yet is not promised. */
	shelf.hides = true;
	kx_check(fx, &kx_at_rest, &two);
	assert_int_equal(kx_in_second(&two, "demo")->state, SESSION_CLOSED);
	assert_int_equal(problem_kept(&kx_in_second(&two, "demo")->front.error)->code,
			 PROBLEM_NOT_KEPT);
	assert_false(advises(kx_in_second(&two, "demo"), "restore"));
	assert_int_equal(checkpoint_find(kx_in_second(&two, "demo"), "a")->state,
			 CHECKPOINT_FAILED);
	kx_end(&two);
	/* Another daemon is to have it as it is, or not at all. */
	assert_int_equal(kx_put_live(fx->fs, &e), -ENOMEM);
	estate_free(e);
	shelf.hides = false;

	/* It wakes up, and may sleep again as it did. */
	assert_int_equal(fx_put(fx, TOP "ctl", "wake"), 0);
	kx_check_both(fx);
	kx_check(fx, &kx_at_rest, &two);
	assert_int_equal(kx_in_second(&two, "demo")->state, SESSION_ASLEEP);
	kx_end(&two);
	fake_state(fake_sandbox(), SANDBOX_READY);
	kx_check_both(fx);
}

/* What was saved is named, but not there. */
static void test_nothing_there(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = fx_run(fx, "x");
	struct buf text = {0};
	struct second two;
	struct session *back;

	fake_exit(s, VM_DONE, 0);
	assert_int_equal(fx_mkdir(fx, TOP "checkpoints/a"), 0);
	kx_saves(s);
	assert_int_equal(fx_put(fx, TOP "ctl", "sleep"), 0);
	kx_saves(s);
	fake_settle();
	kx_dump(fx->fs, &kx_at_rest, &text);
	shelf_clear();
	kx_begin(&two, fx);
	kx_load(&two, &text, &kx_at_rest);
	back = kx_in_second(&two, "demo");
	assert_int_equal(back->state, SESSION_CLOSED);
	assert_int_equal(problem_kept(&back->front.error)->code, PROBLEM_DAMAGED);
	assert_non_null(strstr(problem_kept(&back->front.error)->cause, "there is no s1"));
	assert_true(advises(back, "echo reset > ctl") && advises(back, "rmdir removes it."));
	assert_false(advises(back, "restore")); /* there is none to go back to */
	assert_int_equal(checkpoint_find(back, "a")->state, CHECKPOINT_FAILED);
	assert_int_equal(problem_kept(&checkpoint_find(back, "a")->problem)->code, PROBLEM_DAMAGED);
	assert_int_equal(session_run(back, 1)->state, RUN_DONE);
	kx_end(&two);
	buf_clear(&text);
}

/* Behind which runs it is to be saved goes on to the next daemon. */
static void test_saved_later(void **state)
{
	struct fixture *fx = *state;
	struct second two;

	fx_run(fx, "x");
	fx_put(fx, TOP "in", "y");
	assert_int_equal(fx_put(fx, TOP "ctl", "checkpoint a when idle\n"), 0);
	assert_int_equal(fx_mkdir(fx, "python/copy"), 0);
	assert_int_equal(fx_put(fx, "python/copy/config", "from = demo\nwhen = idle\n"), 0);
	fx_put(fx, TOP "in", "z");
	kx_check(fx, &kx_live, &two);
	assert_int_equal(checkpoint_find(kx_in_second(&two, "demo"), "a")->behind, 2);
	assert_int_equal(kx_in_second(&two, "copy")->saving.behind, 2);
	kx_end(&two);
}

static void test_copies(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = fx_run(fx, "x");
	struct second two;
	struct session *back;

	fake_exit(s, VM_DONE, 0);
	assert_int_equal(fx_mkdir(fx, "python/copy"), 0);
	assert_int_equal(fx_put(fx, "python/copy/config", "from = demo\n"), 0);
	kx_check_both(fx); /* it waits */
	kx_check(fx, &kx_live, &two);
	assert_ptr_equal(kx_in_second(&two, "copy")->saving.of, kx_in_second(&two, "demo"));
	kx_end(&two);
	kx_check(fx, &kx_at_rest, &two);
	assert_int_equal(kx_in_second(&two, "copy")->state, SESSION_CLOSED);
	kx_end(&two);
	kx_saves(s);
	kx_check_both(fx);
	kx_check(fx, &kx_at_rest, &two);
	back = kx_in_second(&two, "copy");
	assert_int_equal(back->state, SESSION_ASLEEP);
	assert_int_equal(back->origin.slot, kx_in_second(&two, "demo")->slot);
	kx_end(&two);
	/* Another one of that name is not what it is a copy of. */
	assert_int_equal(fx_rmdir(fx, "python/demo"), 0);
	assert_int_equal(fx_mkdir(fx, "python/demo"), 0);
	kx_check_both(fx);
	kx_check(fx, &kx_at_rest, &two);
	assert_null(session_by_slot(two.fs, kx_in_second(&two, "copy")->origin.slot,
				    kx_in_second(&two, "copy")->origin.generation));
	kx_end(&two);
}

static void test_beside(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s;
	struct second two;
	struct file events;
	char name[32];

	fx_put(fx, TOP "config", "network = on\nallow = a.org\n");
	s = fx_ready(fx);
	fx_demo(fx)->netlog.connections =
		(struct netlog_rate){.quiet = 3, .rate = {.left = 2, .filled_ms = 1}};
	kx_check(fx, &kx_live, &two);
	assert_memory_equal(&kx_in_second(&two, "demo")->netlog.connections,
			    &fx_demo(fx)->netlog.connections, sizeof(struct netlog_rate));
	kx_end(&two);
	for (int i = 0; i < 300; i++) {
		snprintf(name, sizeof(name), "host%d.org", i);
		fake_denied(s, name, 443, "not allowed");
		if (i == 3)
			kx_check_both(fx);
	}
	fake_console(s, "a line of the kernel's\n");
	kx_check_both(fx);
	events = fx_opened(fx, TOP "files.events", O_RDONLY);
	fake_change(s, PROTO_CHANGE_WATCHING, "", "");
	fake_change(s, PROTO_CHANGE_CREATED, "a", "");
	kx_check_both(fx);
	fx_close(fx, &events);
	kx_check_both(fx);
	/* Paused, as if its agent had answered. */
	fx_demo(fx)->pause = (struct pause){.state = PAUSE_STILL, .asked = true};
	session_set_state(fx_demo(fx), SESSION_PAUSED);
	kx_check_both(fx);
}
int main(void)
{
	const struct CMUnitTest tests[] = {
		kx_test(test_asleep), kx_test(test_nothing_there), kx_test(test_saved_later),
		kx_test(test_copies), kx_test(test_beside),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
