/* SPDX-License-Identifier: Apache-2.0 */
/* Attributes below `files/` that the kernel may keep for a moment, and when it is told to drop them. */
/* modules: tests/unit/fixture/fixture.c tests/unit/fixture/fixture_files.c */
#include "tests/unit/fixture/fixture_files.h"

#define FILES "python/demo/files"

/* Looks a name up during a lease. Return: what the kernel may keep. */
static enum reply_keep kept(struct fixture *fx, struct sandbox *s, uint64_t dir, const char *name,
			    const struct vm_file_reply *like)
{
	struct vm_file_reply reply = *like;
	struct req *req = fx_lookup(fx, dir, name);

	reply.leased = true;
	fake_answer(s, 0, &reply);
	assert_int_equal(req->kind, ANSWER_ENTRY);
	return req->keep;
}

static void end_run(struct fixture *fx, struct sandbox *s)
{
	fake_exit(s, VM_DONE, 0);
	fake_state(s, SANDBOX_READY);
	assert_null(fx_demo(fx)->active);
}

/* Attributes, during a lease; they are dropped before a run, and before a reset. */
static void test_attributes_for_a_moment(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = fx_ready(fx);
	struct reply_fake_dropped dropped = {0};
	const uint64_t root = fx_ino(fx, FILES), file = fx_found(fx, s, root, "f", &fx_a_file);
	struct vm_file_reply leased = fx_a_file;
	struct req *req;

	fx->fs->kernel = (struct kernel *)&dropped;
	leased.leased = true;
	assert_int_equal(kept(fx, s, root, "f", &fx_a_file), REPLY_KEEP_ATTR);
	req = fx_getattr_ino(fx, file);
	fake_answer(s, 0, &leased);
	assert_int_equal(req->keep, REPLY_KEEP_ATTR);
	req = fx_getattr_ino(fx, file);
	fake_answer(s, 0, &fx_a_file);
	assert_int_equal(req->keep, REPLY_KEEP_NOTHING);
	assert_int_equal(dropped.n, 0);
	(void)fx_run(fx, "1");
	assert_int_equal(dropped.n, 1);
	assert_int_equal(dropped.ino[0], file);
	end_run(fx, s);
	(void)fx_run(fx, "2");
	assert_int_equal(dropped.n, 1);
	end_run(fx, s);
	assert_int_equal(kept(fx, s, root, "f", &fx_a_file), REPLY_KEEP_ATTR);
	fake_stirs(s);
	assert_int_equal(dropped.n, 2);
	assert_int_equal(kept(fx, s, root, "f", &fx_a_file), REPLY_KEEP_ATTR);
	assert_int_equal(session_reset(fx_demo(fx)), 0);
	assert_int_equal(dropped.n, 3);
	fx->fs->kernel = NULL;
}

/* Not of what the kernel meets for the first time, of what is shown differently to others, of a directory in two
 * places. */
static void test_attributes_not_kept(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = fx_ready(fx);
	struct reply_fake_dropped dropped = {0};
	const enum owner_shown shown = fx->fs->shown;
	const uint64_t root = fx_ino(fx, FILES);

	assert_int_equal(kept(fx, s, root, "f", &fx_a_file), REPLY_KEEP_NOTHING);
	assert_int_equal(kept(fx, s, root, "f", &fx_a_file), REPLY_KEEP_NOTHING); /* no kernel */
	fx->fs->kernel = (struct kernel *)&dropped;
	fx->fs->shown = OWNER_NOBODY_BY_STAT;
	assert_int_equal(kept(fx, s, root, "f", &fx_a_file), REPLY_KEEP_NOTHING);
	fx->fs->shown = shown;
	assert_int_equal(kept(fx, s, root, "f", &fx_a_file), REPLY_KEEP_ATTR);
	assert_int_equal(kept(fx, s, root, "d", &fx_a_dir), REPLY_KEEP_NOTHING);
	assert_int_equal(kept(fx, s, root, "d", &fx_a_dir), REPLY_KEEP_ATTR);
	assert_int_equal(kept(fx, s, root, "e", &fx_a_dir), REPLY_KEEP_NOTHING);
	assert_int_equal(kept(fx, s, root, "e", &fx_a_dir), REPLY_KEEP_NOTHING);
	assert_int_equal(kept(fx, s, root, "d", &fx_a_dir), REPLY_KEEP_NOTHING);
	assert_int_equal(kept(fx, s, root, "f", &fx_a_file), REPLY_KEEP_ATTR);
	fx->fs->kernel = NULL;
}

/* Nothing is told of nodes that are forgotten, and all of the others when the sandbox is gone. */
static void test_attributes_at_the_end(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = fx_ready(fx);
	struct reply_fake_dropped dropped = {0};
	const uint64_t root = fx_ino(fx, FILES), file = fx_found(fx, s, root, "f", &fx_a_file),
		       dir = fx_found(fx, s, root, "d", &fx_a_dir);

	fx->fs->kernel = (struct kernel *)&dropped;
	assert_int_equal(kept(fx, s, root, "f", &fx_a_file), REPLY_KEEP_ATTR);
	assert_int_equal(kept(fx, s, root, "d", &fx_a_dir), REPLY_KEEP_ATTR);
	fx_forget_ino(file, 2);
	fake_die(s, PROBLEM_QEMU_FAILED);
	assert_int_equal(dropped.n, 1);
	assert_int_equal(dropped.ino[0], dir);
	fx->fs->kernel = NULL;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		fx_test(test_attributes_for_a_moment),
		fx_test(test_attributes_not_kept),
		fx_test(test_attributes_at_the_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
