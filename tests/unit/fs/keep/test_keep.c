/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions as records: what was written, read, and written again is the same, whatever the session was doing. */
/* modules: tests/unit/fixture/fixture.c tests/unit/fixture/shelf.c tests/unit/fixture/keep_fixture.c vm/base/record.c vm/base/estate.c vm/base/estate_file.c vm/base/estate_items.c vm/base/estate_load.c vm/base/estate_tidy.c vm/base/memory.c fs/handover/generations.c */
/* modules: fs/handover/sessions.c fs/handover/savings.c fs/handover/texts.c fs/handover/outputs.c fs/handover/sink.c fs/handover/files.c fs/handover/calls.c fs/handover/handles.c vm/base/problem_record.c */
/* modules: fs/keep/aside.c fs/keep/policy.c fs/keep/code.c fs/keep/front.c fs/keep/job.c fs/keep/join.c fs/keep/lasting.c fs/keep/live.c fs/keep/output.c fs/keep/run.c fs/keep/replay.c fs/keep/revive.c fs/keep/session.c fs/keep/sound.c fs/keep/value.c vm/base/problem_record.c */
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "fs/handover/internal.h"
#include "fs/keep/keep.h"
#include "fs/session/binding.h"
#include "fs/session/job.h"
#include "tests/unit/fixture/fixture.h"
#include "tests/unit/fixture/keep_fixture.h"
#include "tests/unit/fixture/shelf.h"

#define TOP "python/demo/"

static void test_new(void **state)
{
	struct fixture *fx = *state;

	kx_check_both(fx);
	fx_put(fx, TOP "config", "memory_mb = 256\nenv.A = \" b \"\nnetwork = on\nallow = a.org\n");
	fx_put(fx, TOP "stdin", "for later");
	fx_put(fx, TOP "config", "nonsense\n");
	kx_check_both(fx);
}

static void test_states_of_runs(void **state)
{
	struct fixture *fx = *state;
	struct second two;
	struct sandbox *s = fx_run(fx, "first");
	struct session *back;
	struct run *r;

	fake_output(s, VM_STDOUT, "out");
	fake_output(s, VM_STDERR, "err");
	fake_exit(s, VM_DONE, 3);
	fx_put(fx, TOP "in", "second");
	fake_exit(s, VM_TIMEOUT, 124);
	fx_put(fx, TOP "in", "third");
	fake_output(s, VM_STDOUT, "half");
	fx_put(fx, TOP "in", "fourth");
	kx_check_both(fx);

	kx_check(fx, &kx_live, &two);
	back = kx_in_second(&two, "demo");
	assert_int_equal(back->state, SESSION_RUNNING);
	assert_int_equal(back->active->number, 3);
	assert_int_equal(back->nqueued, 1);
	assert_int_equal(back->front.last_code.len, 6);
	assert_memory_equal(back->front.last_code.data, "fourth", 6);
	kx_end(&two);

	kx_check(fx, &kx_at_rest, &two);
	back = kx_in_second(&two, "demo");
	assert_int_equal(back->state, SESSION_CLOSED);
	assert_int_equal(problem_kept(&back->front.error)->code, PROBLEM_NOT_KEPT);
	assert_string_equal(problem_kept(&back->front.error)->fix,
			    "echo reset > ctl gives the session a new sandbox.");
	assert_int_equal(back->nruns, 4);
	r = session_run(back, 1);
	assert_int_equal(r->state, RUN_DONE);
	assert_int_equal(r->result.status, 3);
	assert_int_equal(run_spool(r, RUN_BOTH)->len, 6);
	r = session_run(back, 3);
	assert_int_equal(r->state, RUN_LOST);
	assert_int_equal(run_spool(r, RUN_STDOUT)->len, 4);
	assert_int_equal(session_run(back, 4)->state, RUN_REFUSED);
	assert_int_equal(problem_kept(&session_run(back, 4)->problem)->code, PROBLEM_UNMOUNTED);
	kx_end(&two);
	fake_die(s, PROBLEM_AGENT_LOST);
	kx_check_both(fx);
}

static void write_much(struct sandbox *s, enum vm_stream stream, size_t n)
{
	char block[8192];

	memset(block, 'x', sizeof(block));
	for (; n; n -= sizeof(block))
		fake_output_bytes(s, stream, block, sizeof(block));
}

static void test_long_outputs(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = fx_run(fx, "much");
	struct second two, third;
	struct buf text = {0};
	struct session *back;
	char bytes[64];
	const struct spool *sp;

	write_much(s, VM_STDOUT, 160 << 10);
	kx_check_both(fx); /* it grows, and nothing is on the disk */
	clock_work();
	write_much(s, VM_STDERR, 80 << 10);
	kx_check_both(fx); /* blocks are shared, and some are on the disk */
	fake_exit(s, VM_DONE, 0);
	clock_work();
	kx_check(fx, &kx_live, &two);
	sp = run_spool(session_run(kx_in_second(&two, "demo"), 1), RUN_BOTH);
	assert_int_equal(sp->len, 240 << 10);
	assert_ptr_equal(
		sp->block[0],
		run_spool(session_run(kx_in_second(&two, "demo"), 1), RUN_STDOUT)->block[0]);
	assert_int_equal(spool_read(sp, &two.fs->depot, 100, bytes, sizeof(bytes)), sizeof(bytes));
	kx_end(&two);
	/* At rest they are elsewhere, */
	kx_away = true;
	kx_check(fx, &kx_at_rest, &two);
	sp = run_spool(session_run(kx_in_second(&two, "demo"), 1), RUN_STDOUT);
	assert_true(sp->away);
	assert_int_equal(sp->len, 160 << 10);
	assert_int_equal(kx_nback, 3);
	assert_int_equal(spool_read(sp, &two.fs->depot, 0, bytes, sizeof(bytes)), -EAGAIN);
	kx_end(&two);
	/* ... or lost, which reading says. */
	kx_away = false;
	kx_dump(fx->fs, &kx_at_rest, &text);
	kx_begin(&two, fx);
	kx_load(&two, &text, &kx_at_rest);
	back = kx_in_second(&two, "demo");
	sp = run_spool(session_run(back, 1), RUN_STDOUT);
	assert_int_equal(spool_size(sp), 160 << 10);
	assert_int_equal(spool_read(sp, &two.fs->depot, sp->len, bytes, sizeof(bytes)), -EIO);
	assert_int_equal(problem_kept(&session_run(back, 1)->problem)->code, PROBLEM_OUTPUT_LOST);
	assert_non_null(strstr(problem_kept(&back->front.error)->cause,
			       "ended before all output of run 1 was written to state_dir"));
	/* That stays so, and is said once. */
	text.len = 0;
	kx_dump(two.fs, &kx_at_rest, &text);
	kx_begin(&third, fx);
	kx_load(&third, &text, &kx_at_rest);
	assert_string_equal(
		problem_kept(&session_run(kx_in_second(&third, "demo"), 1)->problem)->cause,
		problem_kept(&session_run(back, 1)->problem)->cause);
	kx_end(&third);
	kx_end(&two);
	buf_clear(&text);
}

static void expect_code(const struct run *r, const char *code)
{
	assert_int_equal(r->code.len, strlen(code));
	assert_memory_equal(r->code.data, code, r->code.len);
}

/* Long code is not in the record, and what can't be read is lost for one run alone. */
static void test_long_code(void **state)
{
	static char code[3][KEEP_CODE_SHORT + 100];
	struct fixture *fx = *state;
	struct second two, third;
	struct session *back;
	struct buf text = {0};

	for (int i = 0; i < 3; i++) {
		memset(code[i], 'a' + i, sizeof(code[i]) - 1);
		if (i == 0)
			fake_exit(fx_run(fx, code[i]), VM_DONE, 0);
		else
			fx_put(fx, TOP "in", code[i]);
	}
	kx_check_both(fx); /* as before there was such a thing */
	kx_dump(fx->fs, &kx_at_rest, &text);
	assert_true(text.len > 3 * KEEP_CODE_SHORT);
	text.len = 0;
	kx_code_away = true;
	kx_check_both(fx);
	kx_dump(fx->fs, &kx_at_rest, &text);
	assert_true(text.len < KEEP_CODE_SHORT);
	kx_check(fx, &kx_at_rest, &two);
	back = kx_in_second(&two, "demo");
	expect_code(session_run(back, 1), code[0]);
	assert_true(session_run(back, 1)->code_kept);
	assert_int_equal(back->front.last_code.len, strlen(code[2]));
	kx_end(&two);
	/* Two of them are gone; that is said, and stays so. */
	buf_clear(&kx_shelf_code[1]);
	buf_clear(&kx_shelf_code[3]);
	kx_begin(&two, fx);
	kx_load(&two, &text, &kx_at_rest);
	back = kx_in_second(&two, "demo");
	assert_int_equal(session_run(back, 2)->code.len, strlen(code[1]));
	assert_int_equal(session_run(back, 2)->code_lost, 0);
	assert_int_equal(session_run(back, 3)->code.len, 0);
	assert_int_equal(session_run(back, 3)->code_lost, strlen(code[2]));
	assert_int_equal(back->front.code_lost, strlen(code[2]));
	/* ... behind what is said of the session. */
	assert_int_equal(problem_kept(&back->front.error)->code, PROBLEM_NOT_KEPT);
	assert_non_null(strstr(problem_kept(&back->front.error)->cause,
			       "its files and variables are lost; the code of run 1 can't be"));
	assert_non_null(strstr(problem_kept(&back->front.error)->cause, "1 more"));
	/* Once, however often it is read. */
	text.len = 0;
	kx_dump(two.fs, &kx_at_rest, &text);
	kx_begin(&third, fx);
	kx_load(&third, &text, &kx_at_rest);
	assert_string_equal(problem_kept(&kx_in_second(&third, "demo")->front.error)->cause,
			    problem_kept(&back->front.error)->cause);
	kx_end(&third);
	kx_end(&two);
	buf_clear(&text);
}

/* One without its code, in records of both forms. */
static void test_lost_code(void **state)
{
	struct fixture *fx = *state;
	struct second two;
	struct file f;
	struct run *r;

	fake_exit(fx_run(fx, "one"), VM_DONE, 0);
	r = session_run(fx_demo(fx), 1);
	buf_clear(&r->code);
	buf_clear(&fx_demo(fx)->front.last_code);
	r->code_lost = fx_demo(fx)->front.code_lost = 5000;
	r->code_kept = true;
	kx_check_both(fx);
	kx_check(fx, &kx_live, &two);
	assert_int_equal(session_run(kx_in_second(&two, "demo"), 1)->code_lost, 5000);
	assert_int_equal(kx_in_second(&two, "demo")->front.code_lost, 5000);
	kx_end(&two);
	fx_expect_in(fx, TOP "runs/1/status.json", "\"code_lost_bytes\": 5000");
	assert_int_equal(fx_open(fx, TOP "runs/1/in", O_RDONLY, &f), -EIO);
	fx_expect_error(fx, "python/demo", "damaged");
	assert_int_equal(fx_open(fx, TOP "in", O_RDONLY, &f), -EIO);
	assert_int_equal(fx_open(fx, TOP "in", O_RDWR, &f), -EIO);
	fx_put(fx, TOP "in", "two");
	fx_expect(fx, TOP "in", "two");
}

/* One that can't be read from the disk says so still, whoever serves. */
static void test_live_damaged(void **state)
{
	static const struct problem why = {
		.code = PROBLEM_DAMAGED, .cause = "its record is damaged", .fix = "rmdir"};
	struct fixture *fx = *state;
	struct session *s = fx_demo(fx);
	struct problem p = {0};
	struct second two;

	s->on_disk.damaged = true;
	problem_keep(&s->closed, &why);
	session_set_state(s, SESSION_FAILED);
	session_problem(s, &why);
	kx_check(fx, &kx_live, &two);
	s = kx_in_second(&two, "demo");
	assert_int_equal(session_may_begin(s, NULL, &p), -ESTALE);
	assert_int_equal(p.code, PROBLEM_DAMAGED);
	assert_int_equal(session_check_damaged(s), -ESTALE);
	assert_int_equal(problem_kept(&s->front.error)->code, PROBLEM_DAMAGED);
	kx_end(&two);
}

/* Whoever comes next does not write an output again that is on the disk. */
static void test_kept_output(void **state)
{
	static char much[32 << 10];
	struct fixture *fx = *state;
	struct sandbox *s = fx_run(fx, "one");
	struct second two;

	memset(much, 'x', sizeof(much));
	fake_output_bytes(s, VM_STDOUT, much, sizeof(much));
	fake_exit(s, VM_DONE, 0);
	kx_check(fx, &kx_live, &two);
	assert_false(session_run(kx_in_second(&two, "demo"), 1)->spool[RUN_STDOUT].kept);
	kx_end(&two);
	session_run(fx_demo(fx), 1)->spool[RUN_STDOUT].kept = true;
	kx_check(fx, &kx_live, &two);
	assert_true(session_run(kx_in_second(&two, "demo"), 1)->spool[RUN_STDOUT].kept);
	kx_end(&two);
}

static void test_history(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = fx_run(fx, "first");
	struct file open, error;

	fake_output(s, VM_STDOUT, "kept by who reads it");
	fake_exit(s, VM_DONE, 0);
	open = fx_opened(fx, TOP "stdout", O_RDONLY);
	fx_put(fx, TOP "in", "second");
	assert_int_equal(fx_rmdir(fx, TOP "runs/1"), 0);
	kx_check_both(fx);
	/* The newest one is shown, also behind its removal. */
	fake_exit(s, VM_DONE, 0);
	assert_int_equal(fx_rmdir(fx, TOP "runs/2"), 0);
	kx_check_both(fx);
	error = fx_opened(fx, TOP "error", O_RDONLY);
	assert_int_equal(fx_rmdir(fx, "python/demo"), 0);
	kx_check_both(fx); /* it is gone, and open */
	fx_close(fx, &open);
	fx_close(fx, &error);
}

static void start_job(struct fixture *fx, const char *name)
{
	char path[128];

	snprintf(path, sizeof(path), TOP "jobs/%s", name);
	assert_int_equal(fx_mkdir(fx, path), 0);
	snprintf(path, sizeof(path), TOP "jobs/%s/config", name);
	assert_int_equal(fx_put(fx, path, "cwd = /tmp\nenv.A = 'a b'\nargv = make 'x y'\n"), 0);
	snprintf(path, sizeof(path), TOP "jobs/%s/ctl", name);
	assert_int_equal(fx_put(fx, path, "start"), 0);
}

static void test_jobs(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = fx_ready(fx);
	struct second two;
	struct job *back;
	struct file open;

	start_job(fx, "one");
	start_job(fx, "two");
	assert_int_equal(fx_mkdir(fx, TOP "jobs/three"), 0);
	assert_int_equal(fx_mkdir(fx, TOP "runs/named"), 0);
	fx_put(fx, TOP "jobs/three/stdin", "input");
	fx_put(fx, TOP "jobs/three/config", "nice = 11\ntty = yes\n");
	fx_put(fx, TOP "runs/named/config", "timeout_s = 7\nstdin = open\n");
	kx_check_both(fx);
	fake_job_output(s, fake_job(s, 0), VM_STDOUT, "line\n");
	fake_job_exit(s, fake_job(s, 0), VM_KILLED, 137);
	fx_put(fx, TOP "runs/named/in", "print()");
	kx_check_both(fx);
	fake_exit(s, VM_DONE, 0);
	kx_check_both(fx);
	kx_check(fx, &kx_at_rest, &two);
	back = job_find(kx_in_second(&two, "demo"), "one", false);
	assert_string_equal(job_state_str(back), "killed");
	assert_string_equal(back->settings.cwd, "/tmp");
	back = job_find(kx_in_second(&two, "demo"), "two", false);
	assert_string_equal(job_state_str(back), "lost");
	assert_string_equal(job_state_str(job_find(kx_in_second(&two, "demo"), "three", false)),
			    "new");
	back = job_find(kx_in_second(&two, "demo"), "named", true);
	assert_ptr_equal(back->front.latest, kx_in_second(&two, "demo")->front.latest);
	kx_end(&two);
	/* One that is removed, and open. */
	open = fx_opened(fx, TOP "jobs/one/stdout", O_RDONLY);
	assert_int_equal(fx_rmdir(fx, TOP "jobs/one"), 0);
	kx_check_both(fx);
	fx_close(fx, &open);
}

static void test_input(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s;
	struct file in;

	fx_put(fx, TOP "stdin", "given before");
	s = fx_run(fx, "read");
	in = fx_opened(fx, TOP "stdin", O_WRONLY);
	assert_int_equal(fx_write(fx, &in, "and while it runs"), 0);
	kx_check_both(fx);
	assert_int_equal(fx_close(fx, &in), 0);
	kx_check_both(fx);
	fake_exit(s, VM_DONE, 0);
}

static void test_scratch_files(void **state)
{
	struct fixture *fx = *state;
	struct second two;
	struct file open;

	assert_int_equal(fx_mkdir(fx, TOP "jobs/one"), 0);
	assert_int_equal(fx_open(fx, TOP ".in.swp", O_CREAT | O_RDWR, &open), 0);
	assert_int_equal(fx_write(fx, &open, "half a program"), 0);
	kx_check_both(fx);
	assert_int_equal(fx_unlink(fx, TOP ".in.swp"), 0);
	kx_check_both(fx);
	kx_check(fx, &kx_at_rest, &two);
	assert_int_equal(kx_in_second(&two, "demo")->scratch.n, 0);
	kx_end(&two);
	fx_close(fx, &open);
	assert_int_equal(fx_open(fx, TOP "jobs/one/x.tmp", O_CREAT | O_RDWR, &open), 0);
	assert_int_equal(fx_write(fx, &open, "a job's"), 0);
	fx_close(fx, &open);
	kx_check_both(fx);
}

/* The administrator has changed his mind: then there is no session, rather than one with other settings. */
static void test_settings_not_allowed(void **state)
{
	struct fixture *fx = *state;
	struct buf text = {0};
	struct problem why = {0};
	struct record_reader r;
	struct record record;
	struct session *s = NULL;
	struct second two;

	fx_put(fx, TOP "config", "memory_mb = 1024\nenv.A = b\n");
	kx_dump(fx->fs, &kx_at_rest, &text);
	kx_begin(&two, fx);
	two.conf.limits.max_memory_mb = 512;
	r = record_reader(text.data, text.len);
	assert_int_equal(record_next(&r, &record), 1);
	assert_int_equal(keep_get(two.fs, &record, &kx_at_rest, &why, &s), -EACCES);
	assert_null(s);
	assert_null(session_find(two.fs, 0, "demo"));
	assert_int_equal(why.code, PROBLEM_LIMIT);
	assert_non_null(strstr(why.cause, "memory_mb: 1024 is more than"));
	kx_end(&two);
	buf_clear(&text);
}

static void test_no_template(void **state)
{
	struct fixture *fx = *state;
	struct buf text = {0};
	struct problem why = {0};
	struct record_reader r;
	struct record record;
	struct keep_name name;
	struct session *s;
	struct second two;

	fx_run(fx, "x");
	kx_dump(fx->fs, &kx_at_rest, &text);
	r = record_reader(text.data, text.len);
	assert_int_equal(record_next(&r, &record), 1);
	assert_int_equal(keep_get_name(&record, &name), 0);
	assert_string_equal(name.name, "demo");
	assert_string_equal(name.template, "python");
	assert_int_equal(name.uid, fx_demo(fx)->uid);
	kx_begin(&two, fx);
	two.conf.ntemplates = 0;
	assert_int_equal(keep_get(two.fs, &record, &kx_at_rest, &why, &s), -ENOENT);
	assert_int_equal(why.code, PROBLEM_NO_SUCH_TEMPLATE);
	two.conf.ntemplates = fx->conf.ntemplates;
	assert_int_equal(keep_get(two.fs, &record, &kx_at_rest, &why, &s), 0);
	assert_int_equal(keep_get(two.fs, &record, &kx_at_rest, &why, &s), -EEXIST);
	kx_end(&two);
	buf_clear(&text);
}

/* Whatever byte is another one, or missing: it is read, or refused, and nothing is left of it then. */
static void test_damaged(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = fx_run(fx, "x");
	struct buf text = {0};
	struct problem why = {0};
	struct second two;
	unsigned refused = 0;

	fake_exit(s, VM_DONE, 0);
	assert_int_equal(fx_mkdir(fx, TOP "checkpoints/a"), 0);
	problem_set(&why, PROBLEM_NOT_SAVED, "", "no room");
	fake_saved(s, NULL, &why);
	assert_int_equal(checkpoint_find(fx_demo(fx), "a")->state, CHECKPOINT_FAILED);
	start_job(fx, "one");
	fx_put(fx, TOP "in", "y");
	kx_dump(fx->fs, &kx_live, &text);
	kx_begin(&two, fx);
	for (size_t i = 0; i < text.len; i++) {
		struct session *back;
		const char was = text.data[i];
		int e;

		text.data[i] = (char)(was ^ (i % 3 == 0 ? 1 : i % 3 == 1 ? 0x80 : 0xff));
		e = kx_load_live(two.fs, &text, &why);
		refused += e < 0;
		assert_true(e == 0 || e == -EBADMSG || e == -ENOENT || e == -EEXIST ||
			    e == -EACCES); /* settings that there can't be */
		(void)keep_complete(two.fs, &why);
		handover_join_sessions(two.fs);
		two.fs->inherited.complete = false;
		while ((back = LIST_FIRST(&two.fs->sessions))) {
			binding_unsave(back, &why);
			session_destroy(back);
		}
		text.data[i] = was;
	}
	assert_true(refused > 100);
	kx_end(&two);
	buf_clear(&text);
}

/* One that is too long for a record is known to be so before it was copied. */
static void test_too_long(void **state)
{
	struct fixture *fx = *state;
	struct buf out = {0};

	fx_run(fx, "x");
	fx_demo(fx)->front.next_stdin.limit = 0;
	assert_int_equal(buf_truncate(&fx_demo(fx)->front.next_stdin, RECORD_MAX + 1), 0);
	assert_int_equal(keep_put(&out, fx_demo(fx), &kx_at_rest), -EFBIG);
	assert_int_equal(out.len, 0);
	assert_true(out.cap < 4096);
	buf_clear(&out);
	buf_clear(&fx_demo(fx)->front.next_stdin);
}
int main(void)
{
	const struct CMUnitTest tests[] = {
		kx_test(test_new),
		kx_test(test_states_of_runs),
		kx_test(test_long_outputs),
		kx_test(test_long_code),
		kx_test(test_lost_code),
		kx_test(test_kept_output),
		kx_test(test_history),
		kx_test(test_jobs),
		kx_test(test_input),
		kx_test(test_scratch_files),
		kx_test(test_settings_not_allowed),
		kx_test(test_no_template),
		kx_test(test_damaged),
		kx_test(test_live_damaged),
		kx_test(test_too_long),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
