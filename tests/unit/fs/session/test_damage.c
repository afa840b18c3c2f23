/* SPDX-License-Identifier: Apache-2.0 */
/* What was saved is damaged on the disk: nothing that is whole is lost for it, and it stays until somebody has decided. */
/* modules: tests/unit/fixture/fixture.c */
#include <errno.h>
#include <stdio.h>

#include "tests/unit/fixture/fixture.h"
#include "vm/base/util.h"

#define TOP "python/demo/"

/* What can't be read stays until somebody has decided: it may have been for a moment, or is mended. */
static void test_what_is_damaged_stays(void **state)
{
	struct fixture *fx = *state;
	struct saved *saved;

	fx_loses_sleep(fx);
	saved = fx_demo(fx)->asleep.before;
	assert_non_null(saved);
	fx_expect_in(fx, TOP "error", "echo wake > ctl tries it again");
	fx_expect_in(fx, TOP "error", "`restore` goes back to a checkpoint.");
	/* It is still damaged. */
	assert_int_equal(fx_put(fx, TOP "ctl", "wake\n"), 0);
	fake_die(fake_sandbox(), PROBLEM_NOT_RESTORED);
	fake_die(fake_sandbox(), PROBLEM_NOT_RESTORED);
	fx_expect(fx, TOP "state", "closed\n");
	assert_ptr_equal(fx_demo(fx)->asleep.before, saved);
	/* It was mended. */
	saved->damaged = false;
	assert_int_equal(fx_put(fx, TOP "ctl", "wake\n"), 0);
	assert_true(fx_woken(fx)->from_memory);
	fx_expect(fx, TOP "error", "");
	fx_expect(fx, TOP "state", "idle\n");
}

/* Whoever wants something else of the session lets go of it. */
static void test_what_is_damaged_goes(void **state)
{
	static const char *const orders[] = {"reset\n", "close\n"};
	struct fixture *fx = *state;

	for (size_t i = 0; i < ARRAY_SIZE(orders); i++) {
		fx_loses_sleep(fx);
		assert_non_null(fx_demo(fx)->asleep.before);
		assert_int_equal(fx_put(fx, TOP "ctl", orders[i]), 0);
		assert_null(fx_demo(fx)->asleep.before);
		assert_false(fx_demo(fx)->asleep.damaged);
		assert_int_equal(fx_put(fx, TOP "ctl", "reset\n"), 0);
		assert_int_equal(fx_rmdir(fx, TOP "checkpoints/a"), 0);
	}
}

/* ---- what `restore` goes back to is read first ---- */

static const struct problem unread = {.code = PROBLEM_NOT_RESTORED,
				      .cause = "what was saved is damaged on the disk"};

/* Of demo, which is idle, on the disk. */
static struct saved *has_checkpoint(struct fixture *fx)
{
	struct saved *saved;

	fx_checkpoint(fx, fx_idle(fx), "a");
	fake_settle();
	saved = checkpoint_find(fx_demo(fx), "a")->saved;
	fake_saved_store(saved);
	return saved;
}

static struct req *restores(struct fixture *fx, struct file *f, const char *orders)
{
	*f = fx_opened(fx, TOP "ctl", O_WRONLY);
	return fx_write_req(fx, f, orders, strlen(orders), false);
}

static void test_restore_of_a_damaged_one(void **state)
{
	struct fixture *fx = *state;
	struct saved *saved = has_checkpoint(fx);
	struct sandbox *s = fake_sandbox();
	struct file f;
	struct req *req = restores(fx, &f, "restore a\n");

	assert_waits(req);
	fx_expect(fx, TOP "state", "idle\n");
	saved->damaged = true;
	fake_saved_loaded(saved, &unread);
	assert_error(req, -EIO);
	fx_close(fx, &f);
	/* All is as it was. */
	assert_false(s->closing);
	fx_expect(fx, TOP "state", "idle\n");
	fx_expect_error(fx, "python/demo", "damaged");
	fx_expect_in(fx, TOP "error", "the checkpoint \"a\" can't be read from state_dir");
	fx_expect_in(fx, TOP "checkpoints/a/status.json", "\"state\": \"failed\"");
	assert_int_equal(fx_put(fx, TOP "ctl", "restore a\n"), -ENOENT);
	fx_put(fx, TOP "in", "z");
	assert_string_equal(s->code, "z");
}

/* What keeps it from being read for now is no damage, though there is nothing to lose. */
static void test_restore_without_room(void **state)
{
	static const struct problem no_memory = {.code = PROBLEM_NO_MEMORY, .cause = "none left"};
	struct fixture *fx = *state;
	struct saved *saved = has_checkpoint(fx);
	struct file f;
	struct req *req;

	assert_int_equal(fx_put(fx, TOP "ctl", "close\n"), 0);
	req = restores(fx, &f, "restore a\n");
	assert_waits(req);
	fake_saved_loaded(saved, &no_memory);
	assert_error(req, -ENOMEM);
	fx_close(fx, &f);
	fx_expect(fx, TOP "state", "closed\n");
	fx_expect_error(fx, "python/demo", "no-memory");
	fx_expect_in(fx, TOP "error", "none left");
}

/* Nor is the `ctl` of a session locked for longer than that. */
static void test_restore_in_time(void **state)
{
	struct fixture *fx = *state;
	struct saved *saved = has_checkpoint(fx);
	struct file f;
	struct req *req = restores(fx, &f, "restore a\n");

	clock_advance(RESTORING_MS - 1000);
	assert_waits(req);
	clock_advance(2000);
	assert_error(req, -EIO);
	fx_close(fx, &f);
	fx_expect(fx, TOP "state", "idle\n");
	fx_expect_in(fx, TOP "error", "did not answer in time");
	fake_saved_loaded(saved, NULL); /* it does, when nobody waits any longer */
	fx_expect(fx, TOP "state", "idle\n");
}

/* Nor does a sleeper lose what it sleeps with. */
static void test_restore_of_a_damaged_one_asleep(void **state)
{
	struct fixture *fx = *state;
	struct saved *saved = has_checkpoint(fx), *sleep;
	struct file f;
	struct req *req;

	assert_int_equal(fx_put(fx, TOP "ctl", "sleep\n"), 0);
	fx_saved(fake_sandbox());
	sleep = fx_demo(fx)->asleep.saved;
	req = restores(fx, &f, "restore a\n");
	assert_waits(req);
	saved->damaged = true;
	fake_saved_loaded(saved, &unread);
	assert_error(req, -EIO);
	fx_close(fx, &f);
	assert_ptr_equal(fx_demo(fx)->asleep.saved, sleep);
	fx_expect(fx, TOP "state", "asleep\n");
}

/* One without its memory is better than nothing, and only than that. A disk that can't be read now may be another time. */
static void test_restore_without_memory(void **state)
{
	static const struct problem disk = {.code = PROBLEM_NO_RESOURCES,
					    .cause = "what was saved could not be read"};
	struct fixture *fx = *state;
	struct saved *saved = has_checkpoint(fx);
	struct file f;
	struct req *req = restores(fx, &f, "restore a\n");

	fake_saved_loaded(saved, &disk);
	assert_error(req, -EIO);
	fx_expect_error(fx, "python/demo", "no-resources");
	fx_close(fx, &f);
	req = restores(fx, &f, "restore a\n");
	fake_saved_read(saved, &unread);
	assert_error(req, -EIO);
	fx_expect_in(fx, TOP "error", "the checkpoint \"a\" has no memory any more");
	fx_expect(fx, TOP "state", "idle\n");
	fx_close(fx, &f);
	saved_unload(saved);
	assert_int_equal(fx_put(fx, TOP "ctl", "close\n"), 0);
	req = restores(fx, &f, "restore a\n");
	fake_saved_read(saved, &unread);
	assert_int_equal(req->kind, ANSWER_WRITE);
	fx_close(fx, &f);
	fx_expect(fx, TOP "state", "asleep\n");
}

/* It goes on meanwhile, and nothing of a write is done before all of it can be. */
static void test_restore_waits(void **state)
{
	struct fixture *fx = *state;
	struct saved *saved = has_checkpoint(fx);
	struct sandbox *s = fake_sandbox();
	struct file f;
	struct req *req = restores(fx, &f, "pause\nresume\nrestore a\n");

	assert_waits(req);
	fx_expect(fx, TOP "state", "idle\n");
	fx_put(fx, TOP "in", "z");
	assert_string_equal(s->code, "z");
	fake_saved_read(saved, NULL);
	assert_error(req, -EBUSY);
	fx_close(fx, &f);
	fake_exit(s, VM_DONE, 0);
	assert_int_equal(fx_put(fx, TOP "ctl", "restore a\n"), 0); /* that is in memory */
	fx_expect(fx, TOP "state", "asleep\n");
	assert_ptr_equal(fx_demo(fx)->asleep.saved, saved);
}

static void test_restore_is_given_up(void **state)
{
	struct fixture *fx = *state;
	struct saved *saved = saved_ref(has_checkpoint(fx));
	struct file f;
	struct req *req = restores(fx, &f, "restore a\n");

	req_interrupt(req);
	assert_error(req, -EINTR);
	fake_saved_read(saved, NULL);
	saved_unload(saved);
	fx_expect(fx, TOP "state", "idle\n");
	fx_close(fx, &f);
	req = restores(fx, &f, "restore a\n");
	assert_int_equal(fx_rmdir(fx, "python/demo"), 0);
	assert_error(req, -ESTALE);
	fx_close(fx, &f);
	fake_saved_read(saved, NULL);
	saved_unref(saved);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		fx_test(test_what_is_damaged_stays),
		fx_test(test_what_is_damaged_goes),
		fx_test(test_restore_without_room),
		fx_test(test_restore_in_time),
		fx_test(test_restore_of_a_damaged_one),
		fx_test(test_restore_of_a_damaged_one_asleep),
		fx_test(test_restore_without_memory),
		fx_test(test_restore_waits),
		fx_test(test_restore_is_given_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
