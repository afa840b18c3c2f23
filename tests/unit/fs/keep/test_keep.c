/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions as records: what was written, read, and written again is the same, whatever the session was doing. */
/* modules: tests/unit/fixture/fixture.c tests/unit/fixture/shelf.c vm/base/record.c vm/base/estate.c vm/base/estate_file.c vm/base/estate_items.c vm/base/estate_load.c vm/base/estate_tidy.c vm/base/memory.c fs/handover/generations.c */
/* modules: fs/handover/sessions.c fs/handover/savings.c fs/handover/texts.c fs/handover/outputs.c fs/handover/sink.c fs/handover/files.c fs/handover/calls.c fs/handover/handles.c vm/base/problem_record.c */
/* modules: fs/keep/aside.c fs/keep/code.c fs/keep/front.c fs/keep/job.c fs/keep/join.c fs/keep/lasting.c fs/keep/live.c fs/keep/output.c fs/keep/run.c fs/keep/session.c fs/keep/sound.c fs/keep/value.c vm/base/problem_record.c */
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "fs/handover/internal.h"
#include "fs/keep/keep.h"
#include "fs/session/binding.h"
#include "fs/session/fork.h"
#include "fs/session/job.h"
#include "fs/session/scratch.h"
#include "tests/unit/fixture/fixture.h"
#include "tests/unit/fixture/shelf.h"
#include "vm/base/estate.h"

#define TOP "python/demo/"

/* ---- who keeps what is in no record ---- */

static bool away; /* long outputs are elsewhere */
static unsigned naway, nback;

static const char *fake_name(void *data, const struct saved *saved)
{
	(void)data;
	return shelf_name(saved);
}

static int fake_find(void *data, const char *name, struct saved **ret_saved, struct problem *why)
{
	(void)data;
	*ret_saved = shelf_find(name);
	if (*ret_saved)
		return 0;
	problem_set(why, PROBLEM_DAMAGED, "", "there is no %s", name);
	return -ENOENT;
}

static bool fake_away(void *data, const struct keep_output *o, const struct spool *sp)
{
	(void)data;
	assert_true(sp->len > SPOOL_MEMORY && o->number > 0);
	naway += away;
	return away;
}

static int fake_back(void *data, const struct keep_output *o, struct spool *sp)
{
	(void)data;
	assert_true(sp->away && o->number > 0);
	nback++;
	return 0;
}

/* Code that was put away, by the number of its run; NULL: it can't be read. */
static struct buf shelf_code[8];
static bool code_away;

static bool fake_code_away(void *data, const struct keep_output *o, struct run *r)
{
	struct buf *place = &shelf_code[o->number];

	(void)data;
	assert_true(o->which == KEEP_CODE && o->number < ARRAY_SIZE(shelf_code));
	if (code_away && r->code.len) {
		place->len = 0;
		assert_int_equal(buf_append(place, r->code.data, r->code.len), 0);
	}
	return code_away;
}

static int fake_code_back(void *data, const struct session *s, const struct keep_output *o,
			  struct run *r, uint64_t len)
{
	const struct buf *place = &shelf_code[o->number];

	(void)data;
	assert_true(s && len > KEEP_CODE_SHORT);
	return place->len == len ? buf_append(&r->code, place->data, len) : -EBADMSG;
}

static struct keep_io at_rest = {.away = fake_away,
				 .back = fake_back,
				 .code_away = fake_code_away,
				 .code_back = fake_code_back,
				 .name = fake_name,
				 .find = fake_find};
/* This form is written and read with what it refers to: fs/handover/. */
static const struct keep_io live = {.live = true};

static void saves(struct sandbox *s)
{
	assert_true(s->saving);
	fake_saved(s, shelf_add(fake_saved_new(100, true)), NULL);
}

/* ---- another mount, which reads it ---- */

static void begin(struct second *two, struct fixture *fx)
{
	second_begin(two, fx);
	memcpy(two->fs->depot.key, fx->fs->depot.key, sizeof(fx->fs->depot.key));
	assert_int_equal(depot_resume(&two->fs->depot, dup(fx->fs->depot.fd), fx->fs->depot.nslots),
			 0);
}

static void end(struct second *two)
{
	mount_stop(two->fs);
	clock_work();
	second_free(two);
}

static int append(void *data, const struct record *rec, uint64_t sub)
{
	struct buf *out = data;
	const size_t at = record_begin(out, rec->kind, rec->key);

	(void)sub;
	(void)buf_append(out, rec->fields.at, (size_t)(rec->fields.end - rec->fields.at));
	return record_end(out, at);
}

/* Return: 0 or -errno. */
static int put_live(struct fs *fs, struct estate **ret_e)
{
	struct handover_sink sink;
	struct fdbag fds = {0};
	int r;

	assert_int_equal(estate_new(ret_e), 0);
	sink_to_estate(&sink, *ret_e, &fds);
	sink.anew = true;
	r = handover_put_sessions(fs, &sink);
	sink_fini(&sink);
	fdbag_clear(&fds);
	return r;
}

/* The sandboxes stay with the first mount. */
static void dump_live(struct fs *fs, struct buf *out)
{
	static const uint32_t kinds[] = {HANDOVER_SAVED, KEEP_TEXT, KEEP_BLOCK,	 KEEP_SESSION,
					 KEEP_RUN,	 KEEP_JOB,  KEEP_SCRATCH};
	struct estate *e;

	assert_int_equal(put_live(fs, &e), 0);
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		assert_int_equal(estate_each(e, kinds[i], append, out), 0);
	estate_free(e);
}

static void dump(struct fs *fs, const struct keep_io *io, struct buf *out)
{
	const struct session *s;

	if (io->live) {
		dump_live(fs, out);
		return;
	}
	LIST_FOREACH(s, &fs->sessions, kept)
		if (!s->dead)
			assert_int_equal(keep_put(out, s, io), 0);
}

/* Records of what was read last come first: a list grows at its head. */
static void load_backwards(struct fs *fs, struct record_reader r, const struct keep_io *io)
{
	struct problem why = {0};
	struct session *s;
	struct record record;
	const int n = record_next(&r, &record);

	assert_true(n >= 0);
	if (n == 0)
		return;
	load_backwards(fs, r, io);
	if (keep_get(fs, &record, io, &why, &s) < 0)
		fail_msg("%s", why.cause);
}

/* Return: 0, or what the first record was refused with. */
static int load_live(struct fs *fs, const struct buf *from, struct problem *why)
{
	struct record_reader r = record_reader(from->data, from->len);
	struct fdbag fds = {0};
	struct record record;
	int e = 0;

	while (e == 0 && record_next(&r, &record) > 0) {
		if (record.kind == HANDOVER_SAVED)
			e = handover_get_saved(fs, &record, &fds);
		else
			e = handover_get_session(fs, &record, why);
	}
	return e == 0 ? keep_complete(fs, why) : e;
}

static void load(struct second *two, const struct buf *from, const struct keep_io *io)
{
	struct problem why = {0};

	if (!io->live)
		load_backwards(two->fs, record_reader(from->data, from->len), io);
	else if (load_live(two->fs, from, &why) < 0)
		fail_msg("%s", why.cause);
	keep_join(two->fs);
	depot_resumed(&two->fs->depot);
}

static void expect_same(const struct buf *a, const struct buf *b)
{
	size_t i = 0;

	while (i < a->len && i < b->len && a->data[i] == b->data[i])
		i++;
	if (i < a->len || i < b->len)
		fail_msg("%zu and %zu bytes, different from byte %zu on", a->len, b->len, i);
}

static void check(struct fixture *fx, const struct keep_io *io, struct second *two)
{
	struct buf first = {0}, again = {0};

	dump(fx->fs, io, &first);
	begin(two, fx);
	load(two, &first, io);
	dump(two->fs, io, &again);
	expect_same(&first, &again);
	buf_clear(&first);
	buf_clear(&again);
	if (io->live)
		handover_join_sessions(two->fs);
}

/* In both ways. */
static void check_both(struct fixture *fx)
{
	struct second two;

	check(fx, &live, &two);
	end(&two);
	check(fx, &at_rest, &two);
	end(&two);
}

static struct session *in_second(struct second *two, const char *name)
{
	struct session *s = session_find(two->fs, 0, name);

	assert_non_null(s);
	return s;
}

static int teardown(void **state)
{
	shelf_clear();
	away = code_away = false;
	naway = nback = 0;
	for (size_t i = 0; i < ARRAY_SIZE(shelf_code); i++)
		buf_clear(&shelf_code[i]);
	return fx_teardown(state);
}

#define keep_test(name) cmocka_unit_test_setup_teardown(name, fx_setup, teardown)

/* ---- tests ---- */

static void test_new(void **state)
{
	struct fixture *fx = *state;

	check_both(fx);
	fx_put(fx, TOP "config", "memory_mb = 256\nenv.A = \" b \"\nnetwork = on\nallow = a.org\n");
	fx_put(fx, TOP "stdin", "for later");
	fx_put(fx, TOP "config", "nonsense\n");
	check_both(fx);
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
	check_both(fx);

	check(fx, &live, &two);
	back = in_second(&two, "demo");
	assert_int_equal(back->state, SESSION_RUNNING);
	assert_int_equal(back->active->number, 3);
	assert_int_equal(back->nqueued, 1);
	assert_int_equal(back->front.last_code.len, 6);
	assert_memory_equal(back->front.last_code.data, "fourth", 6);
	end(&two);

	check(fx, &at_rest, &two);
	back = in_second(&two, "demo");
	assert_int_equal(back->state, SESSION_CLOSED);
	assert_int_equal(problem_kept(&back->front.error)->code, PROBLEM_NOT_KEPT);
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
	end(&two);
	fake_die(s, PROBLEM_AGENT_LOST);
	check_both(fx);
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
	struct second two;
	char bytes[64];
	const struct spool *sp;

	write_much(s, VM_STDOUT, 160 << 10);
	check_both(fx); /* it grows, and nothing is on the disk */
	clock_work();
	write_much(s, VM_STDERR, 80 << 10);
	check_both(fx); /* blocks are shared, and some are on the disk */
	fake_exit(s, VM_DONE, 0);
	clock_work();
	check(fx, &live, &two);
	sp = run_spool(session_run(in_second(&two, "demo"), 1), RUN_BOTH);
	assert_int_equal(sp->len, 240 << 10);
	assert_ptr_equal(sp->block[0],
			 run_spool(session_run(in_second(&two, "demo"), 1), RUN_STDOUT)->block[0]);
	assert_int_equal(spool_read(sp, &two.fs->depot, 100, bytes, sizeof(bytes)), sizeof(bytes));
	end(&two);
	/* At rest they are elsewhere, */
	away = true;
	check(fx, &at_rest, &two);
	sp = run_spool(session_run(in_second(&two, "demo"), 1), RUN_STDOUT);
	assert_true(sp->away);
	assert_int_equal(sp->len, 160 << 10);
	assert_int_equal(nback, 3);
	assert_int_equal(spool_read(sp, &two.fs->depot, 0, bytes, sizeof(bytes)), -EAGAIN);
	end(&two);
	/* ... or lost, which reading says. */
	away = false;
	check(fx, &at_rest, &two);
	sp = run_spool(session_run(in_second(&two, "demo"), 1), RUN_STDOUT);
	assert_int_equal(spool_size(sp), 160 << 10);
	assert_int_equal(spool_read(sp, &two.fs->depot, sp->len, bytes, sizeof(bytes)), -EIO);
	end(&two);
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
	struct second two;
	struct session *back;
	struct buf text = {0};

	for (int i = 0; i < 3; i++) {
		memset(code[i], 'a' + i, sizeof(code[i]) - 1);
		if (i == 0)
			fake_exit(fx_run(fx, code[i]), VM_DONE, 0);
		else
			fx_put(fx, TOP "in", code[i]);
	}
	check_both(fx); /* as before there was such a thing */
	dump(fx->fs, &at_rest, &text);
	assert_true(text.len > 3 * KEEP_CODE_SHORT);
	text.len = 0;
	code_away = true;
	check_both(fx);
	dump(fx->fs, &at_rest, &text);
	assert_true(text.len < KEEP_CODE_SHORT);
	check(fx, &at_rest, &two);
	back = in_second(&two, "demo");
	expect_code(session_run(back, 1), code[0]);
	assert_true(session_run(back, 1)->code_kept);
	assert_int_equal(back->front.last_code.len, strlen(code[2]));
	end(&two);
	/* Two of them are gone; that is said, and stays so. */
	buf_clear(&shelf_code[1]);
	buf_clear(&shelf_code[3]);
	begin(&two, fx);
	load(&two, &text, &at_rest);
	back = in_second(&two, "demo");
	assert_int_equal(session_run(back, 2)->code.len, strlen(code[1]));
	assert_int_equal(session_run(back, 2)->code_lost, 0);
	assert_int_equal(session_run(back, 3)->code.len, 0);
	assert_int_equal(session_run(back, 3)->code_lost, strlen(code[2]));
	assert_int_equal(back->front.code_lost, strlen(code[2]));
	assert_int_equal(problem_kept(&back->front.error)->code, PROBLEM_DAMAGED);
	assert_non_null(strstr(problem_kept(&back->front.error)->cause, "run 1"));
	assert_non_null(strstr(problem_kept(&back->front.error)->cause, "1 more"));
	end(&two);
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
	check_both(fx);
	check(fx, &live, &two);
	assert_int_equal(session_run(in_second(&two, "demo"), 1)->code_lost, 5000);
	assert_int_equal(in_second(&two, "demo")->front.code_lost, 5000);
	end(&two);
	fx_expect_in(fx, TOP "runs/1/status.json", "\"code_lost_bytes\": 5000");
	assert_int_equal(fx_open(fx, TOP "runs/1/in", O_RDONLY, &f), -EIO);
	fx_expect_error(fx, "python/demo", "damaged");
	assert_int_equal(fx_open(fx, TOP "in", O_RDONLY, &f), -EIO);
	assert_int_equal(fx_open(fx, TOP "in", O_RDWR, &f), -EIO);
	fx_put(fx, TOP "in", "two");
	fx_expect(fx, TOP "in", "two");
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
	check_both(fx);
	/* The newest one is shown, also behind its removal. */
	fake_exit(s, VM_DONE, 0);
	assert_int_equal(fx_rmdir(fx, TOP "runs/2"), 0);
	check_both(fx);
	error = fx_opened(fx, TOP "error", O_RDONLY);
	assert_int_equal(fx_rmdir(fx, "python/demo"), 0);
	check_both(fx); /* it is gone, and open */
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
	check_both(fx);
	fake_job_output(s, fake_job(s, 0), VM_STDOUT, "line\n");
	fake_job_exit(s, fake_job(s, 0), VM_KILLED, 137);
	fx_put(fx, TOP "runs/named/in", "print()");
	check_both(fx);
	fake_exit(s, VM_DONE, 0);
	check_both(fx);
	check(fx, &at_rest, &two);
	back = job_find(in_second(&two, "demo"), "one", false);
	assert_string_equal(job_state_str(back), "killed");
	assert_string_equal(back->settings.cwd, "/tmp");
	back = job_find(in_second(&two, "demo"), "two", false);
	assert_string_equal(job_state_str(back), "lost");
	assert_string_equal(job_state_str(job_find(in_second(&two, "demo"), "three", false)),
			    "new");
	back = job_find(in_second(&two, "demo"), "named", true);
	assert_ptr_equal(back->front.latest, in_second(&two, "demo")->front.latest);
	end(&two);
	/* One that is removed, and open. */
	open = fx_opened(fx, TOP "jobs/one/stdout", O_RDONLY);
	assert_int_equal(fx_rmdir(fx, TOP "jobs/one"), 0);
	check_both(fx);
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
	check_both(fx);
	assert_int_equal(fx_close(fx, &in), 0);
	check_both(fx);
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
	check_both(fx);
	assert_int_equal(fx_unlink(fx, TOP ".in.swp"), 0);
	check_both(fx);
	check(fx, &at_rest, &two);
	assert_int_equal(in_second(&two, "demo")->scratch.n, 0);
	end(&two);
	fx_close(fx, &open);
	assert_int_equal(fx_open(fx, TOP "jobs/one/x.tmp", O_CREAT | O_RDWR, &open), 0);
	assert_int_equal(fx_write(fx, &open, "a job's"), 0);
	fx_close(fx, &open);
	check_both(fx);
}

static void test_asleep(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = fx_run(fx, "x");
	struct estate *e;
	struct second two;

	fake_exit(s, VM_DONE, 0);
	assert_int_equal(fx_mkdir(fx, TOP "checkpoints/a"), 0);
	check_both(fx); /* it is being saved */
	saves(s);
	fx_put(fx, TOP "config", "timeout_s = 9\n");
	assert_int_equal(fx_put(fx, TOP "ctl", "sleep"), 0);
	saves(s);
	fx_expect(fx, TOP "state", "asleep\n");
	check_both(fx);
	fake_settle();
	check(fx, &at_rest, &two);
	assert_int_equal(in_second(&two, "demo")->state, SESSION_ASLEEP);
	assert_ptr_equal(in_second(&two, "demo")->asleep.saved, shelf.saved[1]);
	assert_ptr_equal(checkpoint_find(in_second(&two, "demo"), "a")->saved, shelf.saved[0]);
	assert_int_equal(checkpoint_find(in_second(&two, "demo"), "a")->settings.timeout_s, 30);
	end(&two);

	/* What is not on the disk yet is not promised. */
	shelf.hides = true;
	check(fx, &at_rest, &two);
	assert_int_equal(in_second(&two, "demo")->state, SESSION_CLOSED);
	assert_int_equal(problem_kept(&in_second(&two, "demo")->front.error)->code,
			 PROBLEM_NOT_KEPT);
	assert_int_equal(checkpoint_find(in_second(&two, "demo"), "a")->state, CHECKPOINT_FAILED);
	end(&two);
	/* Another daemon is to have it as it is, or not at all. */
	assert_int_equal(put_live(fx->fs, &e), -ENOMEM);
	estate_free(e);
	shelf.hides = false;

	/* It wakes up, and may sleep again as it did. */
	assert_int_equal(fx_put(fx, TOP "ctl", "wake"), 0);
	check_both(fx);
	check(fx, &at_rest, &two);
	assert_int_equal(in_second(&two, "demo")->state, SESSION_ASLEEP);
	end(&two);
	fake_state(fake_sandbox(), SANDBOX_READY);
	check_both(fx);
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
	saves(s);
	assert_int_equal(fx_put(fx, TOP "ctl", "sleep"), 0);
	saves(s);
	fake_settle();
	dump(fx->fs, &at_rest, &text);
	shelf_clear();
	begin(&two, fx);
	load(&two, &text, &at_rest);
	back = in_second(&two, "demo");
	assert_int_equal(back->state, SESSION_CLOSED);
	assert_int_equal(problem_kept(&back->front.error)->code, PROBLEM_DAMAGED);
	assert_non_null(strstr(problem_kept(&back->front.error)->cause, "there is no s1"));
	assert_int_equal(checkpoint_find(back, "a")->state, CHECKPOINT_FAILED);
	assert_int_equal(problem_kept(&checkpoint_find(back, "a")->problem)->code, PROBLEM_DAMAGED);
	assert_int_equal(session_run(back, 1)->state, RUN_DONE);
	end(&two);
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
	check(fx, &live, &two);
	assert_int_equal(checkpoint_find(in_second(&two, "demo"), "a")->behind, 2);
	assert_int_equal(in_second(&two, "copy")->saving.behind, 2);
	end(&two);
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
	check_both(fx); /* it waits */
	check(fx, &live, &two);
	assert_ptr_equal(in_second(&two, "copy")->saving.of, in_second(&two, "demo"));
	end(&two);
	check(fx, &at_rest, &two);
	assert_int_equal(in_second(&two, "copy")->state, SESSION_CLOSED);
	end(&two);
	saves(s);
	check_both(fx);
	check(fx, &at_rest, &two);
	back = in_second(&two, "copy");
	assert_int_equal(back->state, SESSION_ASLEEP);
	assert_int_equal(back->origin.slot, in_second(&two, "demo")->slot);
	end(&two);
	/* Another one of that name is not what it is a copy of. */
	assert_int_equal(fx_rmdir(fx, "python/demo"), 0);
	assert_int_equal(fx_mkdir(fx, "python/demo"), 0);
	check_both(fx);
	check(fx, &at_rest, &two);
	assert_null(session_by_slot(two.fs, in_second(&two, "copy")->origin.slot,
				    in_second(&two, "copy")->origin.generation));
	end(&two);
}

static void test_beside(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s;
	struct file events;
	char name[32];

	fx_put(fx, TOP "config", "network = on\nallow = a.org\n");
	s = fx_ready(fx);
	for (int i = 0; i < 300; i++) {
		snprintf(name, sizeof(name), "host%d.org", i);
		fake_denied(s, name, 443, "not allowed");
		if (i == 3)
			check_both(fx);
	}
	fake_console(s, "a line of the kernel's\n");
	check_both(fx);
	events = fx_opened(fx, TOP "files.events", O_RDONLY);
	fake_change(s, PROTO_CHANGE_WATCHING, "", "");
	fake_change(s, PROTO_CHANGE_CREATED, "a", "");
	check_both(fx);
	fx_close(fx, &events);
	check_both(fx);
	/* Paused, as if its agent had answered. */
	fx_demo(fx)->pause = (struct pause){.state = PAUSE_STILL, .asked = true};
	session_set_state(fx_demo(fx), SESSION_PAUSED);
	check_both(fx);
}

/* The administrator has changed his mind: the session has the template's settings, and says why. */
static void test_settings_not_allowed(void **state)
{
	struct fixture *fx = *state;
	struct buf text = {0};
	struct second two;
	struct session *back;

	fx_put(fx, TOP "config", "memory_mb = 1024\nenv.A = b\n");
	dump(fx->fs, &at_rest, &text);
	begin(&two, fx);
	two.conf.limits.max_memory_mb = 512;
	load(&two, &text, &at_rest);
	back = in_second(&two, "demo");
	assert_int_equal(back->settings.spec.memory_mb, 192);
	assert_int_equal(problem_kept(&back->front.error)->code, PROBLEM_LIMIT);
	end(&two);
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
	dump(fx->fs, &at_rest, &text);
	r = record_reader(text.data, text.len);
	assert_int_equal(record_next(&r, &record), 1);
	assert_int_equal(keep_get_name(&record, &name), 0);
	assert_string_equal(name.name, "demo");
	assert_string_equal(name.template, "python");
	assert_int_equal(name.uid, fx_demo(fx)->uid);
	begin(&two, fx);
	two.conf.ntemplates = 0;
	assert_int_equal(keep_get(two.fs, &record, &at_rest, &why, &s), -ENOENT);
	assert_int_equal(why.code, PROBLEM_NO_SUCH_TEMPLATE);
	two.conf.ntemplates = fx->conf.ntemplates;
	assert_int_equal(keep_get(two.fs, &record, &at_rest, &why, &s), 0);
	assert_int_equal(keep_get(two.fs, &record, &at_rest, &why, &s), -EEXIST);
	end(&two);
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
	dump(fx->fs, &live, &text);
	begin(&two, fx);
	for (size_t i = 0; i < text.len; i++) {
		struct session *back;
		const char was = text.data[i];
		int e;

		text.data[i] = (char)(was ^ (i % 3 == 0 ? 1 : i % 3 == 1 ? 0x80 : 0xff));
		e = load_live(two.fs, &text, &why);
		refused += e < 0;
		assert_true(e == 0 || e == -EBADMSG || e == -ENOENT || e == -EEXIST);
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
	end(&two);
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
	assert_int_equal(keep_put(&out, fx_demo(fx), &at_rest), -EFBIG);
	assert_int_equal(out.len, 0);
	assert_true(out.cap < 4096);
	buf_clear(&out);
	buf_clear(&fx_demo(fx)->front.next_stdin);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		keep_test(test_new),
		keep_test(test_states_of_runs),
		keep_test(test_long_outputs),
		keep_test(test_history),
		keep_test(test_jobs),
		keep_test(test_input),
		keep_test(test_scratch_files),
		keep_test(test_asleep),
		keep_test(test_nothing_there),
		keep_test(test_copies),
		keep_test(test_saved_later),
		keep_test(test_beside),
		keep_test(test_settings_not_allowed),
		keep_test(test_no_template),
		keep_test(test_damaged),
		keep_test(test_too_long),
		keep_test(test_long_code),
		keep_test(test_lost_code),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
