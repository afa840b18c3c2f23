/* SPDX-License-Identifier: Apache-2.0 */
/* Replays of runs: what is asked for and refused, how one is made and what becomes of it, and what is compared. */
/* modules: tests/unit/fixture/fixture.c */
#include <errno.h>
#include <stdio.h>

#include "fs/session/depot.h"
#include "fs/session/rerun_verbs.h"
#include "tests/unit/fixture/fixture.h"
#include "vm/base/util.h"

#define TOP    "python/demo/"
#define REPLAY TOP "runs/1/replay"
#define COPY   "python/demo-replay-1"

static int setup(void **state)
{
	fake_tree = FAKE_FILES;
	return fx_setup(state);
}

/* A run that has ended with this, and was saved. */
static struct sandbox *ended(struct fixture *fx, const char *code, const char *out, unsigned status)
{
	struct sandbox *s = fx_run(fx, code);

	fake_output(s, VM_STDOUT, out);
	fake_exit(s, VM_DONE, status);
	if (s->saving)
		fx_saved(s);
	return s;
}

/* The first run of a session whose states are kept. */
static struct sandbox *first(struct fixture *fx, const char *out)
{
	assert_int_equal(fx_add(fx, TOP "config", "checkpoint_runs = 5\n"), 0);
	return ended(fx, "x", out, 0);
}

/* Return: the sandbox of a replay that was asked for, which has begun. */
static struct sandbox *begun(struct fixture *fx)
{
	struct sandbox *s;

	assert_int_equal(fx_put(fx, TOP "ctl", "replay 1\n"), 0);
	assert_true(fx_exists(fx, COPY));
	s = fake_sandbox();
	assert_string_equal(s->name, "python-demo"); /* what it says of itself is as it was */
	fake_state(s, SANDBOX_READY);
	assert_string_equal(s->code, "x");
	return s;
}

/* It looks, compares, and goes. */
static void looks(struct fixture *fx)
{
	clock_advance(RERUN_TICK_MS);
	clock_work();
	fake_settle();
	assert_false(fx_exists(fx, COPY));
}

static void ends(struct fixture *fx, struct sandbox *s, const char *out, unsigned status)
{
	fake_output(s, VM_STDOUT, out);
	fake_exit(s, VM_DONE, status);
	fx_saved(s);
	looks(fx);
}

static void test_the_same(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s;
	struct file f;
	struct req *req;

	first(fx, "out\n");
	fx_expect_in(fx, REPLAY, "none\nnote: echo 'replay 1' > ctl runs it once more");
	s = begun(fx);
	assert_false(s->from_memory);
	f = fx_opened(fx, REPLAY, O_RDONLY);
	req = fx_read(fx, &f, 1000, 0);
	assert_waits(req);
	ends(fx, s, "out\n", 0);
	assert_bytes(
		req,
		"same\nstdout: same, 4 bytes\nstderr: same, 0 bytes\nexit status: same, 0 (done)\n"
		"files: same, 7 of them\n");
	fx_release(fx, &f);
	assert_int_equal(fx_size(fx, REPLAY), strlen(fx_cat(fx, REPLAY)));
	assert_string_equal(fx_ls(fx, TOP "runs"), "latest 1 ");
	fx_expect(fx, TOP "state", "idle\n");
}

/* A run that is not the first begins with what the one before has left. */
static void test_of_a_later_one(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s;

	first(fx, "");
	assert_int_equal(fx_put(fx, TOP "stdin", "typed"), 0);
	s = fx_run(fx, "y");
	fake_exit(s, VM_DONE, 0);
	fx_saved(s);
	assert_int_equal(fx_put(fx, TOP "ctl", "replay 2\n"), 0);
	s = fake_sandbox();
	assert_true(s->from_memory);
	fake_state(s, SANDBOX_READY);
	assert_string_equal(s->code, "y");
	assert_memory_equal(s->in.got.data, "typed", 5);
	assert_true(s->in.eof);
	assert_string_equal(fx_ls(fx, "python/demo-replay-2/runs"), "latest 2 ");
	fake_exit(s, VM_DONE, 0);
	fx_saved(s);
	looks(fx);
	fx_expect_in(fx, TOP "runs/2/replay", "same\n");
}

static void test_differs(void **state)
{
	struct fixture *fx = *state;

	first(fx, "out 1 and on\n");
	fake_tree = FAKE_OTHER_FILES;
	ends(fx, begun(fx), "out 2", 3);
	fx_expect_in(fx, REPLAY,
		     "differs\nstdout: differs from byte 4 on (13 bytes, in the replay 5)\n"
		     "  run:    31 20 61 6e 64 20 6f 6e 0a  \"1 and on.\"\n"
		     "  replay: 32  \"2\"\nstderr: same, 0 bytes\n"
		     "exit status: differs: 0 (done), in the replay 3 (done)\nfiles: 6 differ\n");
	fx_expect_in(fx, REPLAY,
		     "\n  a.txt: differs from byte 3 on (5 bytes, in the replay 4)\n"
		     "  run:    6c 6f  \"lo\"\n  replay: 70  \"p\"\n");
	fx_expect_in(fx, REPLAY, "\n  d/b: mode 100640, in the replay 100600\n");
	fx_expect_in(
		fx, REPLAY,
		"\n  d/sparse: differs from byte 8193 on (16389 bytes, in the replay 16389)\n");
	fx_expect_in(fx, REPLAY, "\n  d/up: the link has another target\n");
	fx_expect_in(fx, REPLAY, "\n  out: only behind the run\n");
	fx_expect_in(fx, REPLAY, "\n  new\\012\\134: only in the replay\n");
	fx_expect_in(
		fx, REPLAY,
		"usual causes: random numbers, which a session with a seed has the same; the time");
}

/* Names as long as any are shown, and the rest is counted. */
static void test_many_files(void **state)
{
	struct fixture *fx = *state;

	fake_tree = FAKE_LONG_NAMES;
	first(fx, "");
	fake_tree = FAKE_LONG_CHANGED;
	ends(fx, begun(fx), "", 0);
	assert_int_equal(strncmp(fx_cat(fx, REPLAY), "differs\n", 8), 0);
	fx_expect_in(fx, REPLAY, "\nfiles: 25 differ\n");
	fx_expect_in(fx, REPLAY, "\n  and 5 more\nusual causes: ");
}

/* Each block, wherever it lies. */
static void test_long_outputs(void **state)
{
	static char text[3 * DEPOT_BLOCK + 2];
	struct fixture *fx = *state;
	char words[100];

	memset(text, 'a', sizeof(text) - 1);
	first(fx, text);
	clock_work(); /* to the disk */
	ends(fx, begun(fx), text, 0);
	snprintf(words, sizeof(words), "same\nstdout: same, %zu bytes\n", sizeof(text) - 1);
	fx_expect_in(fx, REPLAY, words);
	text[sizeof(text) - 2] = 'b';
	ends(fx, begun(fx), text, 0);
	snprintf(words, sizeof(words), "differs\nstdout: differs from byte %zu on (",
		 sizeof(text) - 2);
	fx_expect_in(fx, REPLAY, words);
	text[DEPOT_BLOCK] = '\0';
	ends(fx, begun(fx), text, 0);
	snprintf(words, sizeof(words), "stdout: differs from byte %u on (", DEPOT_BLOCK);
	fx_expect_in(fx, REPLAY, words);
	fx_expect_in(fx, REPLAY, "  replay: (its end)\n");
}

/* ---- refused ---- */

static void is_refused(struct fixture *fx, const char *what, int err, const char *words)
{
	const char *before = fx_ls(fx, "python");

	assert_int_equal(fx_put(fx, TOP "ctl", what), err);
	fx_expect_in(fx, TOP "error", words);
	assert_string_equal(fx_ls(fx, "python"), before);
}

static void test_of_what_there_is_not(void **state)
{
	static const char *const mistakes[] = {"replay", "replay 0", "replay x", "replay 1 2",
					       "replay -1"};
	struct fixture *fx = *state;
	struct sandbox *s;

	is_refused(fx, "replay 1", -EINVAL, "replay: there is no run 1");
	for (size_t i = 0; i < ARRAY_SIZE(mistakes); i++)
		is_refused(fx, mistakes[i], -EINVAL, "");
	s = fx_run(fx, "x");
	is_refused(fx, "replay 1", -EBUSY, "replay: the first time of run 1 goes on");
	fake_die(s, PROBLEM_OUT_OF_MEMORY);
	is_refused(fx, "replay 1", -EINVAL, "replay: of run 1 it is not known what came of it");
	assert_int_equal(fx_put(fx, TOP "ctl", "reset\n"), 0);
	ended(fx, "y", "", 0);
	ended(fx, "z", "", 0);
	is_refused(fx, "replay 3", -ENOENT,
		   "replay: the state that run 3 began with was not saved");
}

/* It was there, and is not any more. */
static void test_of_what_has_gone(void **state)
{
	struct fixture *fx = *state;

	assert_int_equal(fx_put(fx, TOP "config", "checkpoint_runs = 1\n"), 0);
	ended(fx, "x", "", 0);
	ended(fx, "y", "", 0);
	is_refused(fx, "replay 2", -ENOENT,
		   "replay: the state that run 2 began with is not there any more");
	fx_expect_in(fx, TOP "error", "checkpoint_runs = 10 in config keeps");
}

static void test_more_input_than_is_kept(void **state)
{
	static char text[RERUN_INPUT_MAX + 2];
	struct fixture *fx = *state;
	struct sandbox *s;

	memset(text, 'i', sizeof(text) - 1);
	assert_int_equal(fx_put(fx, TOP "stdin", text), 0);
	s = fx_run(fx, "x");
	fake_room(s, s->run, sizeof(text));
	fake_exit(s, VM_DONE, 0);
	is_refused(fx, "replay 1", -EOPNOTSUPP,
		   "standard input of run 1 is longer than the 64 KiB");
}

static void test_of_directories_of_the_host(void **state)
{
	struct fixture *fx = *state;

	first(fx, "");
	fx_demo(fx)->settings.spec.work = strdup("/work");
	is_refused(fx, "replay 1", -EOPNOTSUPP, "the session changes directories of this machine");
}

static void test_one_at_a_time(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s;

	first(fx, "");
	s = begun(fx);
	is_refused(fx, "replay 1", -EBUSY, "replay: a replay of run 1 goes on");
	ends(fx, s, "", 0);
	fx->conf.quota.each.sessions = 1;
	is_refused(fx, "replay 1", -EDQUOT, "replay: there are as many sessions as you may have");
	fx_expect_error(fx, "python/demo", "too-many-sessions");
	fx_expect_in(fx, REPLAY, "same\n"); /* the last result stays */
}

/* ---- what becomes of it ---- */

static void test_name_is_taken(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s;

	first(fx, "");
	assert_int_equal(fx_mkdir(fx, COPY), 0);
	assert_int_equal(fx_put(fx, TOP "ctl", "replay 1\n"), 0);
	assert_true(fx_exists(fx, COPY "-1"));
	s = fake_sandbox();
	fake_state(s, SANDBOX_READY);
	fake_exit(s, VM_DONE, 0);
	fx_saved(s);
	clock_advance(RERUN_TICK_MS);
	clock_work();
	assert_false(fx_exists(fx, COPY "-1"));
	assert_true(fx_exists(fx, COPY));
	fx_expect_in(fx, REPLAY, "same\n");
}

static void test_removed(void **state)
{
	struct fixture *fx = *state;

	first(fx, "");
	begun(fx);
	assert_int_equal(fx_rmdir(fx, COPY), 0);
	fx_expect(
		fx, REPLAY,
		"failed\ncause: the session python/demo-replay-1, in which it ran, was removed\n");
	begun(fx);
	assert_int_equal(fx_put(fx, TOP "ctl", "close\n"), 0);
	fx_expect(fx, REPLAY, "failed\ncause: the session was closed\n");
	looks(fx);
	/* Of a session that is closed, as of any other. */
	ends(fx, begun(fx), "", 0);
	fx_expect_in(fx, REPLAY, "same\n");
	begun(fx);
	assert_int_equal(fx_rmdir(fx, TOP "runs/1"), 0);
	looks(fx);
}

/* The session goes while both are compared: nobody is told. */
static void test_nobody_wants_it(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s;

	first(fx, "");
	s = begun(fx);
	fake_exit(s, VM_DONE, 0);
	fx_saved(s);
	clock_advance(RERUN_TICK_MS);
	assert_true(clock_has_work());
	assert_int_equal(fx_rmdir(fx, "python/demo"), 0);
	clock_work();
	looks(fx);
	assert_int_equal(fx->fs->comparing, 0);
}

static void test_sandbox_dies(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s;

	first(fx, "");
	fake_die(begun(fx), PROBLEM_OUT_OF_MEMORY);
	looks(fx);
	fx_expect_in(fx, REPLAY, "failed\ncause: ");
	/* Ended and not saved: all else is compared. */
	s = begun(fx);
	fake_exit(s, VM_DONE, 0);
	fx_not_saved(s);
	looks(fx);
	fx_expect_in(fx, REPLAY, "same, but for files, which were not compared\n");
	fx_expect_in(fx, REPLAY, "\nfiles: not compared: the replay was not saved\n");
	fake_faults.new_err = -ENOMEM;
	assert_int_equal(fx_put(fx, TOP "ctl", "replay 1\n"), 0);
	fake_faults.new_err = 0;
	looks(fx);
	fx_expect_in(fx, REPLAY, "failed\ncause: ");
}

static void test_mount_ends(void **state)
{
	struct fixture *fx = *state;

	first(fx, "");
	begun(fx);
	rerun_end_all(fx->fs);
	fx_expect(fx, REPLAY, "failed\ncause: xsbxfs was ended before it was done\n");
	assert_false(fx_exists(fx, COPY));
}

/* What was saved of the run lies on a disk, and is read first; or it can't be; or nobody wants it any more. */
static void test_files_on_disk(void **state)
{
	static const struct problem gone = {.code = PROBLEM_NOT_SAVED, .cause = "it is gone"};
	static const char *const words[] = {
		"\nfiles: same, 7 of them\n",
		"\nfiles: not compared: what was saved behind the run can't be read\n",
		"was removed\n"};
	struct fixture *fx = *state;
	struct saved *saved;
	struct sandbox *s;

	first(fx, "");
	saved = checkpoint_find(fx_demo(fx), "run-1")->saved;
	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		fake_saved_store(saved);
		s = begun(fx);
		fake_exit(s, VM_DONE, 0);
		fx_saved(s);
		clock_advance(10 * RERUN_TICK_MS);
		assert_false(clock_has_work());
		if (i == 2)
			assert_int_equal(fx_rmdir(fx, COPY), 0);
		fake_saved_loaded(saved, i == 1 ? &gone : NULL);
		looks(fx);
		fx_expect_in(fx, REPLAY, words[i]);
	}
}

/* What the replay has not in common with the run is said. */
static void test_notes(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s;

	fx_network(fx, "checkpoint_runs = 5\nseed = 1\n");
	s = ended(fx, "x", "", 0);
	fake_job_exit(s, fx_job(fx, "between"), VM_DONE, 0);
	ended(fx, "y", "1", 0);
	assert_int_equal(fx_put(fx, TOP "ctl", "replay 2\n"), 0);
	s = fake_sandbox();
	fake_state(s, SANDBOX_READY);
	fake_output(s, VM_STDOUT, "2");
	fake_exit(s, VM_DONE, 0);
	fx_saved(s);
	looks(fx);
	fx_expect_in(fx, TOP "runs/2/replay",
		     "\nnote: between what was saved and the run, files were changed from outside, "
		     "or jobs ran");
	fx_expect_in(fx, TOP "runs/2/replay",
		     "\nnote: what the run does over the network, the replay has done once more\n"
		     "usual causes: the time, which clock = TIME fixed sets; what came over the "
		     "network; ");
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, fx_teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_the_same),
		TEST(test_of_a_later_one),
		TEST(test_differs),
		TEST(test_many_files),
		TEST(test_long_outputs),
		TEST(test_of_what_there_is_not),
		TEST(test_of_what_has_gone),
		TEST(test_more_input_than_is_kept),
		TEST(test_of_directories_of_the_host),
		TEST(test_one_at_a_time),
		TEST(test_name_is_taken),
		TEST(test_removed),
		TEST(test_nobody_wants_it),
		TEST(test_sandbox_dies),
		TEST(test_mount_ends),
		TEST(test_files_on_disk),
		TEST(test_notes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
