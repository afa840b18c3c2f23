/* SPDX-License-Identifier: Apache-2.0 */
/* Saved files that are opened for writing, or changed, by their path: that wakes the session, and is done to them. */
/* modules: tests/unit/fixture/fixture.c tests/unit/fixture/fixture_files.c */
#include <errno.h>
#include <fuse_lowlevel.h>

#include "fs/files/files.h"
#include "fs/fuse/ops.h"
#include "tests/unit/fixture/fixture_files.h"

#define FILES "python/demo/files"
#define A     FILES "/a.txt"
#define B     FILES "/d/b"

/* As the agent has it, and what was saved of it. */
static const struct vm_file_reply an_a = {
	.node = 7,
	.handle = 70,
	.attr = {.mode = S_IFREG | 0640, .nlink = 2, .size = 5, .mtime = {.tv_sec = 1700000001}}};

static struct req *truncate_ino(uint64_t ino)
{
	struct stat st = {.st_size = 3};
	struct req *req = req_new(0);

	ops.setattr(req_native(req), ino, &st, FUSE_SET_ATTR_SIZE, NULL);
	return req;
}

static struct sandbox *is_woken(void)
{
	struct sandbox *s = fake_sandbox();

	assert_false(s->up);
	assert_int_equal(s->nfiles, 0);
	fake_state(s, SANDBOX_READY);
	return s;
}

/* However many there are, it is looked for once. */
static void test_changed(void **state)
{
	struct fixture *fx = *state;
	struct req *req[2];
	struct sandbox *s;
	struct file f;
	uint64_t ino;

	fx_asleep(fx);
	ino = fx_ino(fx, A);
	req[0] = truncate_ino(ino);
	req[1] = fx_open_ino(fx, ino, O_RDWR);
	s = is_woken();
	assert_int_equal(s->nfiles, 1);
	fx_asked(s, VM_LOOKUP, VM_FILES_ROOT, "a.txt");
	fake_answer(s, 0, &an_a);
	assert_int_equal(s->nfiles, 2);
	fx_asked(s, VM_SETATTR, an_a.node, NULL);
	fake_answer(s, 0, &an_a);
	assert_int_equal(req[0]->kind, ANSWER_ATTR);
	fx_asked(s, VM_OPEN, an_a.node, NULL);
	assert_int_equal(s->file[0].rq.flags & O_ACCMODE, O_RDWR);
	fake_answer(s, 0, &an_a);
	assert_int_equal(req[1]->kind, ANSWER_OPEN);
	assert_int_equal(s->forgotten, 0);
	f = (struct file){.ino = ino, .fh = req[1]->fh};
	fx_release(fx, &f);
	assert_int_equal(s->nreleases, 1);
}

/* It is further down, and open for reading as well. */
static void test_open_and_changed(void **state)
{
	struct fixture *fx = *state;
	struct vm_file_reply b = an_a;
	struct sandbox *s;
	struct req *req;
	struct file f;

	b.attr.mtime.tv_sec = 1700000003;
	fx_asleep(fx);
	f = fx_opened(fx, B, O_RDONLY);
	req = truncate_ino(f.ino);
	s = is_woken();
	for (unsigned i = 0; i < 2; i++) {
		fx_asked(s, VM_LOOKUP, VM_FILES_ROOT, "d");
		fake_answer(s, 0, &fx_a_dir);
	}
	for (unsigned i = 0; i < 2; i++) {
		fx_asked(s, VM_LOOKUP, fx_a_dir.node, "b");
		fake_answer(s, 0, &b);
	}
	fx_asked(s, VM_OPEN, b.node, NULL);
	fake_answer(s, 0, &b);
	assert_int_equal(s->forgotten, 3); /* the directory twice, the file once */
	fx_asked(s, VM_SETATTR, b.node, NULL);
	fake_answer(s, 0, &b);
	assert_int_equal(req->kind, ANSWER_ATTR);
	fx_release(fx, &f);
}

/* What is there now is another one. */
static void test_another_one(void **state)
{
	struct fixture *fx = *state;
	struct vm_file_reply other = an_a;
	struct sandbox *s;
	struct req *req;

	other.attr.mtime.tv_nsec = 1;
	for (unsigned i = 0; i < 2; i++) {
		fx_asleep(fx);
		req = fx_open_ino(fx, fx_ino(fx, A), O_WRONLY);
		s = is_woken();
		fake_answer(s, i ? 0 : -ENOENT, i ? &other : NULL);
		assert_error(req, -ESTALE);
		assert_int_equal(s->nfiles, 0);
		assert_int_equal(s->forgotten, i);
	}
}

/* Nobody waits for it any more. */
static void test_given_up(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s;
	struct req *req;
	uint64_t ino;

	fx_asleep(fx);
	ino = fx_ino(fx, A);
	req = fx_open_ino(fx, ino, O_WRONLY);
	s = is_woken();
	req_interrupt(req);
	assert_error(req, -EINTR);
	fake_answer(s, 0, &an_a);
	assert_int_equal(s->nfiles, 0);
	req = fx_getattr_ino(fx, ino);
	fx_asked(s, VM_GETATTR, an_a.node, NULL);
	fake_answer(s, 0, &an_a);
	assert_int_equal(req->kind, ANSWER_ATTR);
}

/* ... and the kernel has forgotten the node, and knows another file by that number. */
static void test_another_in_its_place(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s;
	uint64_t dir, ino;
	struct req *req;

	fx_asleep(fx);
	dir = fx_ino(fx, FILES "/d");
	ino = fx_ino(fx, A);
	req = fx_open_ino(fx, ino, O_WRONLY);
	s = is_woken();
	req_interrupt(req);
	assert_error(req, -EINTR);
	fx_forget_ino(ino, 1);
	assert_int_equal(fx_lookup(fx, dir, "b")->ino, ino);
	fake_answer(s, 0, &an_a);
	assert_true(fx_demo(fx)->ready);
	assert_int_equal(s->forgotten, 1);
	assert_error(fx_getattr_ino(fx, ino), -ESTALE);
}

/* Then it is not done. */
static void test_the_sandbox_dies(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s;
	struct req *req;

	fx_asleep(fx);
	req = fx_open_ino(fx, fx_ino(fx, A), O_WRONLY);
	s = is_woken();
	fake_die(s, PROBLEM_AGENT_LOST);
	assert_error(req, -EIO);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		fx_test(test_changed),
		fx_test(test_open_and_changed),
		fx_test(test_another_one),
		fx_test(test_given_up),
		fx_test(test_another_in_its_place),
		fx_test(test_the_sandbox_dies),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
