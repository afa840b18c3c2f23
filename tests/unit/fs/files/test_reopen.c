/* SPDX-License-Identifier: Apache-2.0 */
/* Files that are open when the session wakes. */
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
#define B     FILES "/d/b"

/* What the pack says of them, as the agent has them. */
static const struct vm_file_reply an_a = {.node = 7,
					  .handle = 70,
					  .attr = {.mode = S_IFREG | 0640,
						   .nlink = 2,
						   .size = 5,
						   .mtime = {.tv_sec = 1700000001}}},
				  a_b = {.node = 7,
					 .handle = 71,
					 .attr = {.mode = S_IFREG | 0640,
						  .nlink = 2,
						  .size = 5,
						  .mtime = {.tv_sec = 1700000003}}};
static const struct vm_file_reply granted = {.handle = 0};

/* Return: the sandbox, READY, that was woken by a run. */
static struct sandbox *wake(struct fixture *fx)
{
	struct sandbox *s;

	fx_put(fx, TOP "in", "y");
	s = fake_sandbox();
	assert_false(s->up);
	fake_state(s, SANDBOX_READY);
	return s;
}

/* Return: a file that is open, asleep. */
static struct file opened(struct fixture *fx, const char *name)
{
	struct file f;

	if (fx_demo(fx)->state != SESSION_ASLEEP)
		fx_asleep(fx);
	f = fx_opened(fx, name, O_RDONLY);
	assert_bytes(fx_read(fx, &f, 10, 0), "hello");
	return f;
}

static void is_let_in(struct fixture *fx, const struct sandbox *s, bool is)
{
	assert_int_equal(fx_demo(fx)->ready, is);
	assert_int_equal(s->run != 0, is);
	fx_expect(fx, TOP "state", is ? "running\n" : "starting\n");
}

/* Answers what finds the file, and opens it. */
static void a_is_opened(struct sandbox *s)
{
	fx_asked(s, VM_LOOKUP, VM_FILES_ROOT, "a.txt");
	fake_answer(s, 0, &an_a);
	fx_asked(s, VM_OPEN, an_a.node, NULL);
	assert_int_equal(s->file[0].rq.flags, O_RDONLY);
	fake_answer(s, 0, &an_a);
}

static void reads_as(struct fixture *fx, struct sandbox *s, const struct file *f, uint64_t handle)
{
	struct req *req = fx_read(fx, f, 10, 0);

	assert_int_equal(s->nfiles, 1);
	fx_asked(s, VM_READ, an_a.node, NULL);
	assert_int_equal(s->file[0].rq.handle, handle);
	fake_answer(s, 0, &(struct vm_file_reply){.data = "there", .size = 5});
	assert_bytes(req, "there");
}

/* Two of one file, and what comes before they are there. */
static void test_before_anybody_else(void **state)
{
	struct fixture *fx = *state;
	struct file f = opened(fx, B), g = opened(fx, B);
	struct req *first, *second, *third;
	struct sandbox *s;

	first = fx_create(fx, fx_ino(fx, FILES), "new");
	second = fx_read(fx, &g, 10, 0);
	s = wake(fx);
	third = fx_read(fx, &f, 10, 0);
	is_let_in(fx, s, false);
	assert_int_equal(s->nfiles, 2);
	for (unsigned i = 0; i < 2; i++) {
		fx_asked(s, VM_LOOKUP, VM_FILES_ROOT, "d");
		fake_answer(s, 0, &fx_a_dir);
	}
	assert_int_equal(s->forgotten, 0);
	for (unsigned i = 0; i < 2; i++) {
		fx_asked(s, VM_LOOKUP, fx_a_dir.node, "b");
		fake_answer(s, 0, &a_b);
	}
	assert_int_equal(s->forgotten, 2); /* the directory, twice */
	is_let_in(fx, s, false);
	fx_asked(s, VM_OPEN, a_b.node, NULL);
	fake_answer(s, 0, &a_b);
	fake_answer(s, 0, &a_b);
	is_let_in(fx, s, true);
	assert_int_equal(s->forgotten, 3); /* the file, once */
	assert_int_equal(s->nreleases, 0);
	fx_asked(s, VM_CREATE, VM_FILES_ROOT, "new");
	fake_answer(s, -EACCES, NULL);
	for (unsigned i = 0; i < 2; i++) {
		fx_asked(s, VM_READ, a_b.node, NULL);
		assert_int_equal(s->file[0].rq.handle, a_b.handle);
		fake_answer(s, 0, &(struct vm_file_reply){.data = "there", .size = 5});
	}
	assert_error(first, -EACCES);
	assert_bytes(second, "there");
	assert_bytes(third, "there");
	first = fx_getattr_ino(fx, f.ino); /* the node is the sandbox's as well */
	fx_asked(s, VM_GETATTR, a_b.node, NULL);
	fake_answer(s, 0, &a_b);
	assert_int_equal(first->kind, ANSWER_ATTR);
	fx_close(fx, &f);
	fx_close(fx, &g);
	assert_int_equal(s->nreleases, 2);
	fake_exit(s, VM_DONE, 0);
}

/* What else may be answered to one of the questions. */
static void is_none(struct fixture *fx, unsigned step, int err, const struct vm_file_reply *reply,
		    unsigned forgotten)
{
	struct file f = opened(fx, B);
	struct sandbox *s = wake(fx);

	if (step > 0)
		fake_answer(s, 0, &fx_a_dir);
	if (step > 1)
		fake_answer(s, 0, &a_b);
	is_let_in(fx, s, false);
	fake_answer(s, err, reply);
	is_let_in(fx, s, true);
	assert_int_equal(s->nfiles, 0);
	assert_int_equal(s->forgotten, forgotten);
	assert_error(fx_read(fx, &f, 10, 0), -ESTALE);
	fx_close(fx, &f);
	assert_int_equal(s->nreleases, 0);
	fake_exit(s, VM_DONE, 0);
}

static void test_another_file(void **state)
{
	struct fixture *fx = *state;
	struct vm_file_reply other = a_b;

	is_none(fx, 0, -ENOENT, NULL, 0);
	is_none(fx, 0, 0, &a_b, 1);
	is_none(fx, 1, -ENOENT, NULL, 1);
	is_none(fx, 1, 0, &fx_a_dir, 2);
	other.attr.mtime.tv_nsec = 1;
	is_none(fx, 1, 0, &other, 2);
	other = a_b;
	other.attr.size = 6;
	is_none(fx, 1, 0, &other, 2);
	other = a_b;
	other.attr.mode = S_IFSOCK | 0600;
	is_none(fx, 1, 0, &other, 2);
	is_none(fx, 2, -EACCES, NULL, 2);
}

static void test_nothing_is_open(void **state)
{
	struct fixture *fx = *state;
	struct file f = opened(fx, A);
	struct sandbox *s;

	fx_close(fx, &f);
	s = wake(fx);
	is_let_in(fx, s, true);
	assert_int_equal(s->nfiles, 0);
	fake_exit(s, VM_DONE, 0);
}

/* Then it is asleep as it was, and is read as it was; and once more. */
static void test_the_sandbox_dies(void **state)
{
	struct fixture *fx = *state;
	struct file f = opened(fx, B), g = opened(fx, A);
	struct sandbox *s;

	for (unsigned step = 0; step < 4; step++) {
		s = wake(fx);
		if (step > 0) /* d, and then the other one is found, and opened */
			fake_answer(s, 0, &fx_a_dir);
		if (step > 1)
			fake_answer(s, 0, &an_a);
		if (step > 2)
			fake_answer_at(s, 1, 0, &an_a);
		is_let_in(fx, s, false);
		fake_die(s, PROBLEM_CLOSED);
		fx_expect(fx, TOP "state", "asleep\n");
		assert_bytes(fx_read(fx, &f, 10, 0), "hello");
		assert_bytes(fx_read(fx, &g, 10, 0), "hello");
	}
	fx_close(fx, &f);
	s = wake(fx);
	a_is_opened(s);
	is_let_in(fx, s, true);
	reads_as(fx, s, &g, an_a.handle);
	fx_close(fx, &g);
	fake_exit(s, VM_DONE, 0);
}

/* The session is closed, or removed; a late answer finds nobody. */
static void test_the_session_goes(void **state)
{
	struct fixture *fx = *state;
	struct file f = opened(fx, A);
	struct sandbox *s;

	wake(fx);
	assert_int_equal(fx_put(fx, TOP "ctl", "close\n"), 0);
	fake_settle();
	assert_error(fx_read(fx, &f, 10, 0), -ESTALE);
	assert_int_equal(fx_put(fx, TOP "ctl", "reset\n"), 0);
	fx_close(fx, &f);
	f = opened(fx, A);
	s = wake(fx);
	fake_answer(s, 0, &an_a);
	assert_int_equal(fx_rmdir(fx, "python/demo"), 0);
	fake_settle();
	assert_error(fx_read(fx, &f, 10, 0), -ESTALE);
	fx_close(fx, &f);
}

/* Of one that was closed asleep, nothing is taken for another sandbox'. */
static void test_open_and_closed_asleep(void **state)
{
	struct fixture *fx = *state;
	struct file f = opened(fx, A);
	struct sandbox *s;

	assert_int_equal(fx_put(fx, TOP "ctl", "close\n"), 0);
	assert_int_equal(fx_put(fx, TOP "ctl", "reset\n"), 0);
	s = wake(fx);
	is_let_in(fx, s, true);
	assert_error(fx_read(fx, &f, 10, 0), -ESTALE);
	assert_error(fx_getattr_ino(fx, f.ino), -ESTALE);
	assert_int_equal(s->nfiles, 0);
	fx_close(fx, &f);
	fake_exit(s, VM_DONE, 0);
}

/* Back at a checkpoint it is another file, though it looks the same. */
static void test_restored_asleep(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = fx_idle(fx);
	struct file f;

	fx_checkpoint(fx, s, "c");
	f = opened(fx, A);
	assert_int_equal(fx_put(fx, TOP "ctl", "restore c\n"), 0);
	assert_error(fx_read(fx, &f, 10, 0), -ESTALE);
	s = wake(fx);
	is_let_in(fx, s, true);
	assert_error(fx_read(fx, &f, 10, 0), -ESTALE);
	fx_close(fx, &f);
	fake_exit(s, VM_DONE, 0);
}

/* It is closed meanwhile; others go on. */
static void test_closed_meanwhile(void **state)
{
	struct fixture *fx = *state;
	struct file f = opened(fx, A), g = opened(fx, A), h = opened(fx, A);
	struct sandbox *s = wake(fx);

	fx_close(fx, &f);
	for (unsigned i = 0; i < 3; i++)
		fake_answer(s, 0, &an_a);
	assert_int_equal(s->nfiles, 2);
	fx_release(fx, &g);
	fake_answer(s, 0, &an_a);
	fake_answer(s, 0, &an_a);
	is_let_in(fx, s, true);
	assert_int_equal(s->forgotten, 2);
	assert_int_equal(s->nreleases, 1);
	reads_as(fx, s, &h, an_a.handle);
	fx_close(fx, &h);
	fake_exit(s, VM_DONE, 0);
}

/* An agent that does not answer: the session does not wait for ever. */
static void test_no_answer(void **state)
{
	struct fixture *fx = *state;
	struct file f = opened(fx, A), g = opened(fx, A), h = opened(fx, A);
	struct sandbox *s = wake(fx);

	fake_answer_at(s, 2, 0, &an_a);
	fake_answer_at(s, 2, 0, &an_a);
	fake_answer_at(s, 1, 0, &an_a);
	clock_advance(19000);
	is_let_in(fx, s, false);
	clock_advance(2000);
	is_let_in(fx, s, true);
	assert_error(fx_read(fx, &f, 10, 0), -ESTALE);
	assert_error(fx_read(fx, &g, 10, 0), -ESTALE);
	assert_int_equal(s->nfiles, 2);
	fake_answer(s, 0, &an_a);
	assert_int_equal(s->forgotten, 1);
	fake_answer(s, 0, &an_a);
	assert_int_equal(s->forgotten, 2);
	assert_int_equal(s->nreleases, 1);
	reads_as(fx, s, &h, an_a.handle);
	fx_close(fx, &f);
	fx_close(fx, &g);
	fx_close(fx, &h);
	fake_exit(s, VM_DONE, 0);
}

/* As many at once as are sensible. */
static void test_many(void **state)
{
	struct fixture *fx = *state;
	struct file f[100];
	struct sandbox *s;

	for (unsigned i = 0; i < 100; i++)
		f[i] = opened(fx, A);
	s = wake(fx);
	for (unsigned i = 0; i < 200; i++) {
		is_let_in(fx, s, false);
		assert_int_equal(s->nfiles, i <= 100   ? 64
					    : i <= 128 ? 164 - i
					    : i <= 164 ? 36
						       : 200 - i);
		fake_answer(s, 0, &an_a);
	}
	is_let_in(fx, s, true);
	for (unsigned i = 0; i < 100; i++)
		fx_close(fx, &f[i]);
	assert_int_equal(s->nreleases, 100);
	fake_exit(s, VM_DONE, 0);
}

/* ---- locks ---- */

static struct req *flush(const struct file *f, uint64_t owner)
{
	struct fuse_file_info fi = {.fh = f->fh, .lock_owner = owner};
	struct req *req = req_new(0);

	ops.flush(req_native(req), f->ino, &fi);
	return req;
}

static void asked_lock(const struct sandbox *s, uint64_t owner, bool whole, uint64_t start,
		       enum proto_lock_type type)
{
	const struct vm_lock *l = &s->file[0].rq.lock;

	assert_int_equal(s->nfiles, 1);
	fx_asked(s, VM_LOCK, an_a.node, NULL);
	assert_int_equal(s->file[0].rq.handle, an_a.handle);
	assert_int_equal(l->owner, owner);
	assert_int_equal(l->whole, whole);
	assert_int_equal(l->start, start);
	assert_int_equal(l->end, whole ? INT64_MAX : (int64_t)start + 9);
	assert_int_equal(l->type, type);
}

static void test_locks_of_it(void **state)
{
	struct fixture *fx = *state;
	struct file f = opened(fx, A);
	struct sandbox *s;
	struct req *req;

	assert_error(fx_setlk(&f, 1, F_RDLCK, 20, 10, false), 0);
	assert_error(fx_setlk(&f, 1, F_RDLCK, 50, 10, false), 0);
	assert_error(fx_flock(&f, 2, LOCK_EX), 0);
	fx_put(fx, TOP "in", "y");
	assert_error(fx_setlk(&f, 1, F_UNLCK, 50, 10, false), 0); /* it is not up yet */
	s = fake_sandbox();
	fake_state(s, SANDBOX_READY);
	a_is_opened(s);
	is_let_in(fx, s, false);
	asked_lock(s, 2, true, 0, PROTO_LOCK_EXCLUSIVE);
	assert_false(s->file[0].rq.lock.wait);
	assert_int_not_equal(s->file[0].rq.lock.token, 0);
	fake_answer(s, 0, &granted);
	asked_lock(s, 1, false, 20, PROTO_LOCK_SHARED);
	fake_answer(s, 0, &granted);
	is_let_in(fx, s, true);
	assert_null(LIST_FIRST(&fx->fs->locks.holders));
	reads_as(fx, s, &f, an_a.handle);
	req = fx_flock(&f, 2, LOCK_UN);
	asked_lock(s, 2, true, 0, PROTO_UNLOCK);
	fake_answer(s, 0, &granted);
	assert_error(req, 0);
	req = flush(&f, 1); /* of the locks of ranges the agent knows */
	assert_int_equal(s->file[0].rq.op, VM_DROP_LOCKS);
	fake_answer(s, 0, &granted);
	assert_error(req, 0);
	fx_release(fx, &f);
	fake_exit(s, VM_DONE, 0);
}

/* Something in it has the lock. Nobody is told that he has what he has not. */
static void test_lock_refused(void **state)
{
	struct fixture *fx = *state;
	struct file f = opened(fx, A), g = opened(fx, A);
	struct req *waiter;
	struct sandbox *s;

	assert_error(fx_flock(&f, 1, LOCK_EX), 0);
	waiter = fx_flock(&f, 2, LOCK_EX);
	assert_waits(waiter);
	s = wake(fx);
	for (unsigned i = 0; i < 4; i++)
		fake_answer(s, 0, &an_a);
	asked_lock(s, 1, true, 0, PROTO_LOCK_EXCLUSIVE);
	fake_answer(s, -EAGAIN, NULL);
	is_let_in(fx, s, true);
	assert_int_equal(s->nreleases, 1);
	assert_error(waiter, -ESTALE);
	assert_error(fx_read(fx, &f, 10, 0), -ESTALE);
	assert_error(fx_flock(&f, 1, LOCK_SH), -ESTALE);
	assert_null(LIST_FIRST(&fx->fs->locks.holders));
	reads_as(fx, s, &g, an_a.handle);
	fx_release(fx, &f);
	fx_release(fx, &g);
	fake_exit(s, VM_DONE, 0);
}

/* Who waits for a lock waits on, in the sandbox; who asks for one, or opens, while it wakes, asks there. */
static void test_lock_that_waits(void **state)
{
	struct fixture *fx = *state;
	struct file f = opened(fx, A), g = opened(fx, A);
	struct req *waiter, *unlock, *lock;
	struct sandbox *s;

	assert_error(fx_flock(&f, 1, LOCK_EX), 0);
	waiter = fx_flock(&g, 2, LOCK_EX);
	s = wake(fx);
	unlock = fx_flock(&f, 1, LOCK_UN);
	lock = fx_flock(&f, 1, LOCK_SH | LOCK_NB);
	assert_waits(unlock);
	assert_waits(lock);
	for (unsigned i = 0; i < 4; i++)
		fake_answer(s, 0, &an_a);
	asked_lock(s, 1, true, 0, PROTO_LOCK_EXCLUSIVE);
	assert_waits(waiter);
	fake_answer(s, 0, &granted);
	is_let_in(fx, s, true);
	assert_waits(waiter);
	assert_int_equal(s->nfiles, 3);
	assert_int_equal(s->file[0].rq.lock.owner, 2);
	assert_true(s->file[0].rq.lock.wait);
	assert_int_equal(s->file[1].rq.lock.type, PROTO_UNLOCK);
	fake_answer_at(s, 1, 0, &granted);
	assert_error(unlock, 0);
	fake_answer(s, 0, &granted);
	assert_error(waiter, 0);
	fake_answer(s, -EAGAIN, NULL);
	assert_error(lock, -EAGAIN);
	fx_release(fx, &f);
	fx_release(fx, &g);
	fake_exit(s, VM_DONE, 0);
}

/* He gets it because somebody closes his, at the last moment. */
static void test_lock_that_comes_meanwhile(void **state)
{
	struct fixture *fx = *state;
	struct file f = opened(fx, A), g = opened(fx, A);
	struct req *waiter;
	struct sandbox *s;

	assert_error(fx_flock(&f, 1, LOCK_EX), 0);
	waiter = fx_flock(&g, 2, LOCK_EX);
	s = wake(fx);
	for (unsigned i = 0; i < 4; i++)
		fake_answer(s, 0, &an_a);
	fx_release(fx, &f);
	assert_error(waiter, 0);
	fake_answer(s, 0, &granted); /* to whom is gone */
	is_let_in(fx, s, false);
	assert_int_equal(s->nreleases, 1); /* the sandbox would refuse it */
	asked_lock(s, 2, true, 0, PROTO_LOCK_EXCLUSIVE);
	fake_answer(s, 0, &granted);
	is_let_in(fx, s, true);
	assert_int_equal(s->nreleases, 1);
	fx_release(fx, &g);
	fake_exit(s, VM_DONE, 0);
}

/* The same, and then the time is up: what was not asked for is not had by a handle that can be used. */
static void test_lock_that_comes_too_late(void **state)
{
	struct fixture *fx = *state;
	struct file f = opened(fx, A), g = opened(fx, A), h = opened(fx, A);
	struct req *waiter;
	struct sandbox *s;

	assert_error(fx_flock(&f, 1, LOCK_EX), 0);
	waiter = fx_flock(&g, 2, LOCK_EX);
	s = wake(fx);
	fake_answer(s, 0, &an_a);
	fake_answer(s, 0, &an_a);
	fake_answer_at(s, 1, 0, &an_a);
	fake_answer_at(s, 1, 0, &an_a);
	fake_answer_at(s, 1, 0, &granted);
	assert_int_equal(s->nfiles, 1); /* of the third, which is not answered */
	fx_release(fx, &f);
	assert_error(waiter, 0);
	clock_advance(21000);
	is_let_in(fx, s, true);
	assert_error(fx_read(fx, &g, 10, 0), -ESTALE);
	fake_answer(s, -ENOENT, NULL);
	fx_release(fx, &g);
	fx_release(fx, &h);
	fake_exit(s, VM_DONE, 0);
}

/* A process that closes it gives up its ranges: there as well. And where the sandbox dies, here. */
static void test_flush_meanwhile(void **state)
{
	struct fixture *fx = *state;
	struct file f = opened(fx, A);
	struct sandbox *s;
	struct req *req;

	for (unsigned dies = 1; dies < 2; dies--) {
		assert_error(fx_setlk(&f, 1, F_RDLCK, 20, 10, false), 0);
		s = wake(fx);
		a_is_opened(s);
		asked_lock(s, 1, false, 20, PROTO_LOCK_SHARED);
		req = flush(&f, 1);
		assert_waits(req);
		if (dies) {
			fake_die(s, PROBLEM_CLOSED);
			assert_error(req, 0);
			assert_null(LIST_FIRST(&fx->fs->locks.holders));
		}
	}
	fake_answer(s, 0, &granted);
	is_let_in(fx, s, true);
	assert_int_equal(s->file[0].rq.op, VM_DROP_LOCKS);
	assert_int_equal(s->file[0].rq.handle, an_a.handle);
	fake_answer(s, 0, &granted);
	assert_error(req, 0);
	fx_release(fx, &f);
	fake_exit(s, VM_DONE, 0);
}

/* Whoever is killed while the session wakes closes it all the same, and asks nobody to drop his locks once more. */
static void test_flush_interrupted(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s;
	struct req *req;
	struct file f;

	for (unsigned how = 0; how < 3; how++) {
		f = opened(fx, A);
		assert_error(fx_setlk(&f, 1, F_RDLCK, 20, 10, false), 0);
		s = wake(fx);
		a_is_opened(s);
		asked_lock(s, 1, false, 20, PROTO_LOCK_SHARED);
		if (how == 0) { /* before it was asked */
			struct fuse_file_info fi = {.fh = f.fh, .lock_owner = 1};

			req = req_new(0);
			req->interrupted = true;
			ops.flush(req_native(req), f.ino, &fi);
		} else {
			req = flush(&f, 1);
			assert_waits(req);
		}
		if (how == 1)
			req_interrupt(req);
		else if (how == 2) /* the kernel waits no longer */
			files_renew(fx_demo(fx)->files, UINT64_MAX);
		assert_error(req, 0);
		fake_answer(s, 0, &granted);
		is_let_in(fx, s, true);
		assert_int_equal(s->nfiles, 1);
		assert_int_equal(s->file[0].rq.op, VM_DROP_LOCKS);
		assert_int_equal(s->file[0].rq.handle, an_a.handle);
		assert_int_equal(s->file[0].rq.lock.owner, 1);
		fake_answer(s, 0, &granted);
		fx_release(fx, &f);
		fake_exit(s, VM_DONE, 0);
	}
}

/* The sandbox dies as well: nobody is asked then. */
static void test_flush_interrupted_and_died(void **state)
{
	struct fixture *fx = *state;
	struct file f = opened(fx, A);
	struct sandbox *s;
	struct req *req;

	assert_error(fx_setlk(&f, 1, F_RDLCK, 20, 10, false), 0);
	s = wake(fx);
	a_is_opened(s);
	req = flush(&f, 1);
	req_interrupt(req);
	assert_error(req, 0);
	fake_die(s, PROBLEM_CLOSED);
	assert_null(LIST_FIRST(&fx->fs->locks.holders));
	assert_bytes(fx_read(fx, &f, 10, 0), "hello"); /* still asleep */
	s = wake(fx);
	a_is_opened(s);
	is_let_in(fx, s, true);
	assert_int_equal(s->nfiles, 0);
	fx_release(fx, &f);
	fake_exit(s, VM_DONE, 0);
}

/* Whoever waits longest is the first there as well, whichever of the descriptors he has. */
static void test_waits_in_order(void **state)
{
	struct fixture *fx = *state;
	struct file f = opened(fx, A), g = opened(fx, A), h = opened(fx, A);
	const struct file *in_order[] = {&g, &h, &f, &h, &g};
	struct req *waiter[5];
	struct sandbox *s;

	assert_error(fx_flock(&f, 1, LOCK_EX), 0);
	for (unsigned i = 0; i < 5; i++)
		waiter[i] = fx_flock(in_order[i], 10 + i, LOCK_EX);
	s = wake(fx);
	for (unsigned i = 0; i < 6; i++)
		fake_answer(s, 0, &an_a);
	fake_answer(s, 0, &granted);
	is_let_in(fx, s, true);
	assert_int_equal(s->nfiles, 5);
	for (unsigned i = 0; i < 5; i++)
		assert_int_equal(s->file[i].rq.lock.owner, 10 + i);
	for (unsigned i = 0; i < 5; i++) {
		fake_answer(s, 0, &granted);
		assert_error(waiter[i], 0);
	}
	fx_release(fx, &f);
	fx_release(fx, &g);
	fx_release(fx, &h);
	fake_exit(s, VM_DONE, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		fx_test(test_before_anybody_else),
		fx_test(test_another_file),
		fx_test(test_nothing_is_open),
		fx_test(test_the_sandbox_dies),
		fx_test(test_the_session_goes),
		fx_test(test_open_and_closed_asleep),
		fx_test(test_restored_asleep),
		fx_test(test_closed_meanwhile),
		fx_test(test_no_answer),
		fx_test(test_many),
		fx_test(test_locks_of_it),
		fx_test(test_lock_refused),
		fx_test(test_lock_that_waits),
		fx_test(test_lock_that_comes_meanwhile),
		fx_test(test_lock_that_comes_too_late),
		fx_test(test_flush_meanwhile),
		fx_test(test_flush_interrupted),
		fx_test(test_flush_interrupted_and_died),
		fx_test(test_waits_in_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
