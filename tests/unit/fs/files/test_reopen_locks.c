/* SPDX-License-Identifier: Apache-2.0 */
/* What is locked, unlocked and opened while a session wakes. */
/* modules: tests/unit/fixture/fixture.c tests/unit/fixture/fixture_files.c */
#include <errno.h>
#include <fuse_lowlevel.h>
#include <sys/file.h>

#include "fs/files/files.h"
#include "fs/fuse/ops.h"
#include "tests/unit/fixture/fixture_files.h"

#define TOP   "python/demo/"
#define FILES TOP "files"
#define A     FILES "/a.txt"
#define B     FILES "/d/b" /* the same file */

/* What the pack says of it, as the agent has it. */
static const struct vm_file_reply an_a = {.node = 7,
					  .handle = 70,
					  .attr = {.ino = 31,
						   .mode = S_IFREG | 0640,
						   .nlink = 2,
						   .size = 5,
						   .mtime = {.tv_sec = 1700000001}}},
				  a_b = {.node = 7,
					 .handle = 71,
					 .attr = {.ino = 31,
						  .mode = S_IFREG | 0640,
						  .nlink = 2,
						  .size = 5,
						  .mtime = {.tv_sec = 1700000003}}};
static const struct vm_file_reply granted = {.handle = 0};

static struct sandbox *wake(struct fixture *fx)
{
	struct sandbox *s;

	fx_put(fx, TOP "in", "y");
	s = fake_sandbox();
	fake_state(s, SANDBOX_READY);
	return s;
}

static struct file opened(struct fixture *fx, const char *name)
{
	if (fx_demo(fx)->state != SESSION_ASLEEP)
		fx_asleep(fx);
	return fx_opened(fx, name, O_RDONLY);
}

static struct req *test_range(const struct file *f, uint64_t owner)
{
	struct fuse_file_info fi = {.fh = f->fh, .lock_owner = owner};
	struct flock fl = {.l_type = F_WRLCK, .l_start = 0, .l_len = 10, .l_pid = 9};
	struct req *req = req_new(0);

	ops.getlk(req_native(req), f->ino, &fi, &fl);
	return req;
}

/* Answers what finds the oldest file, and opens it. */
static void a_is_opened(struct sandbox *s)
{
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(s->file[0].rq.op, i ? VM_OPEN : VM_LOOKUP);
		fake_answer(s, 0, &an_a);
	}
}

static void asked_lock(const struct sandbox *s, uint64_t owner)
{
	assert_int_equal(s->nfiles, 1);
	assert_int_equal(s->file[0].rq.op, VM_LOCK);
	assert_int_equal(s->file[0].rq.lock.owner, owner);
}

/* Who waits gets it because somebody closes his, for whom it is being asked for: there he has it still. */
static void test_lock_is_on_its_way(void **state)
{
	struct fixture *fx = *state;
	struct file f = opened(fx, A), g = opened(fx, A);
	struct req *waiter;
	struct sandbox *s;

	assert_error(fx_flock(&f, 1, LOCK_EX), 0);
	waiter = fx_flock(&g, 2, LOCK_EX);
	s = wake(fx);
	fake_answer(s, 0, &an_a);
	fake_answer_at(s, 1, 0, &an_a);
	assert_int_equal(s->file[0].rq.op, VM_LOOKUP); /* of the other one */
	asked_lock(&(struct sandbox){.nfiles = 1, .file = {s->file[1]}}, 1);
	fx_release(fx, &f);
	assert_error(waiter, 0);
	fake_answer(s, 0, &an_a);
	fake_answer_at(s, 1, 0, &an_a);
	asked_lock(s, 1);
	fake_answer(s, 0, &granted);
	assert_int_equal(s->nreleases, 1);
	asked_lock(s, 2);
	assert_false(fx_demo(fx)->ready);
	fake_answer(s, 0, &granted);
	assert_true(fx_demo(fx)->ready);
	assert_int_equal(s->nreleases, 1);
	fx_release(fx, &g);
	assert_int_equal(s->nreleases, 2);
	fake_exit(s, VM_DONE, 0);
}

/* As many as one likes. */
static void test_many_ranges(void **state)
{
	struct fixture *fx = *state;
	struct file f = opened(fx, A);
	struct sandbox *s;

	for (unsigned i = 0; i < 1000; i++)
		assert_error(fx_setlk(&f, 1, F_RDLCK, 20 * i, 10, false), 0);
	s = wake(fx);
	a_is_opened(s);
	for (unsigned i = 0; i < 1000; i++) {
		asked_lock(s, 1);
		assert_int_equal(s->file[0].rq.lock.start, 20 * i);
		fake_answer(s, 0, &granted);
	}
	assert_true(fx_demo(fx)->ready);
	assert_int_equal(s->nfiles, 0);
	assert_int_equal(s->nreleases, 0);
	fx_release(fx, &f);
	fake_exit(s, VM_DONE, 0);
}

/* The sandbox dies: what waited for it is answered as it is asleep, in the order in which it came. */
static void test_the_sandbox_dies_meanwhile(void **state)
{
	struct fixture *fx = *state;
	struct file f = opened(fx, A), g = opened(fx, A);
	struct req *unlock, *lock, *open, *other, *test, *writes, *reads;
	struct sandbox *s;

	assert_error(fx_flock(&f, 1, LOCK_EX), 0);
	assert_error(fx_setlk(&f, 1, F_RDLCK, 0, 10, false), 0);
	s = wake(fx);
	unlock = fx_flock(&f, 1, LOCK_UN);
	lock = fx_flock(&g, 2, LOCK_EX | LOCK_NB);
	other = fx_flock(&f, 1, LOCK_EX | LOCK_NB);
	test = test_range(&g, 2);
	open = fx_open_ino(fx, f.ino, O_RDONLY);
	writes = fx_create(fx, fx_ino(fx, FILES), "new");
	reads = fx_read(fx, &f, 10, 0);
	assert_waits(unlock);
	assert_waits(lock);
	assert_waits(other);
	assert_waits(test);
	assert_waits(open);
	assert_waits(reads);
	fake_die(s, PROBLEM_CLOSED);
	fx_expect(fx, TOP "state", "asleep\n");
	assert_error(unlock, 0);
	assert_error(lock, 0);
	assert_error(other, -EAGAIN);
	assert_int_equal(test->kind, ANSWER_LOCK);
	assert_int_equal(open->kind, ANSWER_OPEN);
	assert_error(writes, -EIO);
	assert_bytes(reads, "hello");
	fx_release_ino(f.ino, open->fh, false);
	fx_release(fx, &f);
	fx_release(fx, &g);
	assert_null(LIST_FIRST(&fx->fs->locks.holders));
}

/* Whoever gives up a lock has given it up, though he waits for that no more. */
static void test_unlock_interrupted(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s;
	struct req *req;
	struct file f;

	for (unsigned dies = 0; dies < 2; dies++) {
		f = opened(fx, A);
		assert_error(fx_flock(&f, 1, LOCK_EX), 0);
		s = wake(fx);
		a_is_opened(s);
		asked_lock(s, 1);
		req = fx_flock(&f, 1, LOCK_UN);
		if (dies)
			files_renew(fx_demo(fx)->files, UINT64_MAX);
		else
			req_interrupt(req);
		assert_error(req, 0);
		if (dies) {
			assert_non_null(LIST_FIRST(&fx->fs->locks.holders));
			fake_die(s, PROBLEM_CLOSED);
			assert_null(LIST_FIRST(&fx->fs->locks.holders));
		} else {
			fake_answer(s, 0, &granted);
			asked_lock(s, 1);
			assert_int_equal(s->file[0].rq.lock.type, PROTO_UNLOCK);
			fake_answer(s, 0, &granted);
			fake_exit(s, VM_DONE, 0);
		}
		fx_release(fx, &f);
	}
}

/* Another session that wakes, or is closed, has nothing to do with it: locks of one that is closed go with the handles. */
static void test_closed_meanwhile_with_locks(void **state)
{
	struct fixture *fx = *state;
	struct file f = opened(fx, A);
	struct req *unlock;

	assert_error(fx_flock(&f, 1, LOCK_EX), 0);
	wake(fx);
	unlock = fx_flock(&f, 1, LOCK_UN);
	assert_waits(unlock);
	assert_int_equal(fx_put(fx, TOP "ctl", "close\n"), 0);
	fake_settle();
	assert_error(unlock, -ESTALE);
	fx_release(fx, &f);
	assert_null(LIST_FIRST(&fx->fs->locks.holders));
}

/* Asleep each name is a node, but a lock is one of the file. */
static void test_two_names(void **state)
{
	struct fixture *fx = *state;
	struct file f = opened(fx, A), g = opened(fx, B);
	struct req *waiter;
	struct sandbox *s;

	assert_int_not_equal(f.ino, g.ino);
	assert_error(fx_flock(&f, 1, LOCK_EX), 0);
	assert_error(fx_flock(&g, 2, LOCK_EX | LOCK_NB), -EAGAIN);
	waiter = fx_flock(&g, 2, LOCK_EX);
	assert_waits(waiter);
	assert_error(fx_flock(&f, 1, LOCK_UN), 0);
	assert_error(waiter, 0);
	assert_error(fx_flock(&f, 1, LOCK_SH | LOCK_NB), -EAGAIN);
	/* Of another moment it is another one. */
	assert_int_equal(fx_put(fx, TOP "ctl", "close\n"), 0);
	assert_int_equal(fx_put(fx, TOP "ctl", "reset\n"), 0);
	s = fx_run(fx, "x");
	fake_exit(s, VM_DONE, 0);
	assert_int_equal(fx_put(fx, TOP "ctl", "sleep\n"), 0);
	fx_saved(s);
	waiter = fx_lookup(fx, fx_ino(fx, FILES), "a.txt");
	assert_int_equal(waiter->kind, ANSWER_ENTRY);
	fx_close(fx, &f);
	f = fx_opened(fx, A, O_RDONLY);
	assert_error(fx_flock(&f, 1, LOCK_EX | LOCK_NB), 0);
	fx_close(fx, &f);
	fx_release(fx, &g);
	assert_null(LIST_FIRST(&fx->fs->locks.holders));
}

/* Awake they are two nodes for one file: who closes the one gives up what he has locked through the other. */
static void test_two_nodes_of_a_file(void **state)
{
	struct fixture *fx = *state;
	struct file f = opened(fx, A), g = opened(fx, B);
	struct fuse_file_info fi = {.fh = g.fh, .lock_owner = 1};
	struct sandbox *s = wake(fx);
	struct req *req;

	while (s->nfiles) {
		const struct vm_file *rq = &s->file[0].rq;
		const bool first = rq->op == VM_LOOKUP && rq->node == VM_FILES_ROOT;

		fake_answer(s, 0, !first ? &a_b : strcmp(rq->name, "d") == 0 ? &fx_a_dir : &an_a);
	}
	assert_true(fx_demo(fx)->ready);
	req = fx_setlk(&f, 1, F_RDLCK, 0, 10, false);
	asked_lock(s, 1);
	fake_answer(s, 0, &granted);
	assert_error(req, 0);
	req = req_new(0);
	ops.flush(req_native(req), g.ino, &fi);
	assert_int_equal(s->nfiles, 1);
	assert_int_equal(s->file[0].rq.op, VM_DROP_LOCKS);
	fake_answer(s, 0, &granted);
	assert_error(req, 0);
	fx_release(fx, &f);
	fx_release(fx, &g);
	fake_exit(s, VM_DONE, 0);
}

/* A tree that was unpacked has one time for all: another file takes the name, before anybody looks. */
static void test_looks_the_same(void **state)
{
	struct fixture *fx = *state;
	struct vm_file_reply found = an_a;
	struct file f;
	struct sandbox *s;

	for (uint64_t number = 31; number < 33; number++) {
		fake_numbers = 30; /* the file's is the next one */
		f = opened(fx, A);
		s = wake(fx);
		found.attr.ino = number;
		fake_answer(s, 0, &found);
		if (number == 31)
			fake_answer(s, 0, &found);
		fake_numbers = 0;
		assert_int_equal(s->nfiles, 0);
		assert_true(fx_demo(fx)->ready);
		if (number != 31)
			assert_error(fx_read(fx, &f, 10, 0), -ESTALE);
		fx_close(fx, &f);
		assert_int_equal(s->nreleases, number == 31);
		fake_exit(s, VM_DONE, 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		fx_test(test_lock_is_on_its_way),	   fx_test(test_many_ranges),
		fx_test(test_the_sandbox_dies_meanwhile),  fx_test(test_unlock_interrupted),
		fx_test(test_closed_meanwhile_with_locks), fx_test(test_two_names),
		fx_test(test_two_nodes_of_a_file),	   fx_test(test_looks_the_same),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
