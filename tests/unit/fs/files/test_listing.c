/* SPDX-License-Identifier: Apache-2.0 */
/* Open directories: a listing goes on, whatever becomes of the session meanwhile. */
/* modules: tests/unit/fixture/fixture.c tests/unit/fixture/fixture_files.c */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "fs/session/quota.h"
#include "tests/unit/fixture/fixture_files.h"

#define TOP   "python/demo/"
#define FILES TOP "files"

static const struct vm_file_reply opened = {.handle = 50}, none = {.entries = NULL};

static struct vm_dirent first[] = {
	{.ino = 1, .next = 100, .type = S_IFREG, .name = "one"},
	{.ino = 2, .next = INT64_MAX, .type = S_IFDIR, .name = "two"},
};
static struct vm_dirent last[] = {{.ino = 3, .next = 7, .type = S_IFREG, .name = "three"}};
static const struct vm_file_reply two = {.entries = first, .nentries = 2},
				  one = {.entries = last, .nentries = 1};

/* Return: names of an answer; *@ret_next is where the next one is asked for. */
static const char *names_of(struct req *req, uint64_t *ret_next)
{
	static char names[256];
	const char *name;
	size_t pos = 0;

	assert_int_equal(req->kind, ANSWER_BUF);
	names[0] = '\0';
	while ((name = req_dirent(req, &pos, ret_next)))
		sprintf(names + strlen(names), "%s ", name);
	return names;
}

/* The next one, if the kernel has room for few. */
static const char *goes_on(struct fixture *fx, uint64_t dir, uint64_t fh, uint64_t *next)
{
	return names_of(fx_readdir_ino(fx, dir, fh, 64, *next), next);
}

/* Return: a READDIR of the whole directory, of which the sandbox was not asked yet. */
static struct req *listed(struct fixture *fx, uint64_t dir, uint64_t fh)
{
	return fx_readdir_ino(fx, dir, fh, 4096, 0);
}

static void asked(const struct sandbox *s, enum vm_file_op op, uint64_t handle, uint64_t offset)
{
	assert_int_equal(s->nfiles, 1);
	assert_int_equal(s->file[0].rq.op, op);
	assert_int_equal(s->file[0].rq.handle, handle);
	assert_int_equal(s->file[0].rq.offset, offset);
}

static void answers(struct sandbox *s, const struct vm_file_reply *pieces, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		fake_answer(s, 0, &pieces[i]);
	asked(s, VM_READDIR, opened.handle, pieces[n - 1].entries[pieces[n - 1].nentries - 1].next);
	fake_answer(s, 0, &none);
	assert_int_equal(s->nfiles, 0);
}

static void sleeps(struct fixture *fx, struct sandbox *s)
{
	assert_int_equal(fx_put(fx, TOP "ctl", "sleep\n"), 0);
	fx_saved(s);
	fx_expect(fx, TOP "state", "asleep\n");
}

/* It is read whole, by the agent's offsets, and from there on by its own. */
static void test_read_whole(void **state)
{
	const struct vm_file_reply pieces[] = {two, one};
	struct fixture *fx = *state;
	struct sandbox *s = fx_ready(fx);
	const uint64_t root = fx_ino(fx, FILES);
	struct req *dir = fx_opendir_ino(fx, root), *r;
	uint64_t next;

	fake_answer(s, 0, &opened);
	r = listed(fx, root, dir->fh);
	asked(s, VM_READDIR, opened.handle, 0);
	assert_in_range(s->file[0].rq.size, 65536, PROTO_DATA_MAX);
	answers(s, pieces, 2);
	assert_string_equal(names_of(r, &next), ". .. one three two ");
	assert_string_equal(goes_on(fx, root, dir->fh, &next), "");
	next = 1; /* behind "." */
	assert_string_equal(goes_on(fx, root, dir->fh, &next), ".. one ");
	assert_string_equal(goes_on(fx, root, dir->fh, &next), "three two ");
	next = 2; /* back */
	assert_string_equal(goes_on(fx, root, dir->fh, &next), "one three ");
	next = 77;
	assert_string_equal(goes_on(fx, root, dir->fh, &next), "");
	assert_int_equal(s->nfiles, 0);
	r = listed(fx, root, dir->fh); /* what there is by then */
	answers(s, &one, 1);
	assert_string_equal(names_of(r, &next), ". .. three ");
	fx_release_ino(root, dir->fh, true);
	assert_int_equal(s->nreleases, 1);
}

/* The session goes in the turn in which its sandbox has ended. */
static void test_removed_at_once(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = fx_ready(fx);
	const uint64_t root = fx_ino(fx, FILES);
	struct req *dir = fx_opendir_ino(fx, root), *r;

	fake_answer(s, 0, &opened);
	r = listed(fx, root, dir->fh);
	asked(s, VM_READDIR, opened.handle, 0);
	assert_int_equal(fx_put(fx, TOP "ctl", "close\n"), 0);
	fake_answer(s, -ESTALE, NULL);
	assert_waits(r);
	assert_int_equal(fx_rmdir(fx, "python/demo"), 0);
	assert_error(r, -ESTALE);
	fx_release_ino(root, dir->fh, true);
}

/* Opened while there is no sandbox: empty, until somebody looks again. */
static void test_before_the_sandbox(void **state)
{
	struct fixture *fx = *state;
	const uint64_t root = fx_ino(fx, FILES);
	struct req *dir = fx_opendir_ino(fx, root), *r = listed(fx, root, dir->fh);
	struct sandbox *s;
	uint64_t next;

	assert_string_equal(names_of(r, &next), ". .. ");
	s = fx_ready(fx);
	assert_string_equal(goes_on(fx, root, dir->fh, &next), "");
	r = listed(fx, root, dir->fh);
	asked(s, VM_OPENDIR, 0, 0);
	assert_int_equal(s->file[0].rq.node, VM_FILES_ROOT);
	fake_answer(s, 0, &opened);
	asked(s, VM_READDIR, opened.handle, 0);
	answers(s, &one, 1);
	assert_string_equal(names_of(r, &next), ". .. three ");
	r = listed(fx, root, dir->fh); /* it is open now */
	asked(s, VM_READDIR, opened.handle, 0);
	answers(s, &two, 1);
	assert_string_equal(names_of(r, &next), ". .. one two ");
	fx_release_ino(root, dir->fh, true);
	assert_int_equal(s->nreleases, 1);
}

/* In the middle of a directory the session falls asleep, and wakes up. */
static void test_asleep_and_awake(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = fx_idle(fx);
	const uint64_t root = fx_ino(fx, FILES);
	struct req *dir = fx_opendir_ino(fx, root), *r;
	uint64_t next = 1;

	fake_answer(s, 0, &opened);
	(void)listed(fx, root, dir->fh);
	answers(s, &two, 1);
	assert_string_equal(goes_on(fx, root, dir->fh, &next), ".. one ");
	sleeps(fx, s);
	assert_string_equal(goes_on(fx, root, dir->fh, &next), "two ");
	assert_string_equal(goes_on(fx, root, dir->fh, &next), "");
	r = listed(fx, root, dir->fh); /* what was saved */
	assert_string_equal(names_of(r, &next), ". .. a.txt d out sock ");
	fx_expect(fx, TOP "state", "asleep\n");
	next = 3;
	fx_put(fx, TOP "in", "y");
	s = fx_woken(fx);
	assert_string_equal(goes_on(fx, root, dir->fh, &next), "d out ");
	assert_int_equal(s->nfiles, 0);
	r = listed(fx, root, dir->fh);
	asked(s, VM_OPENDIR, 0, 0);
	fake_answer(s, 0, &opened);
	answers(s, &one, 1);
	assert_string_equal(names_of(r, &next), ". .. three ");
	fx_release_ino(root, dir->fh, true);
	assert_int_equal(s->nreleases, 1);
	fake_exit(s, VM_DONE, 0);
}

/* The same in a directory, which is found again. */
static void test_of_a_directory(void **state)
{
	struct fixture *fx = *state;
	struct req *dir, *r;
	struct sandbox *s;
	uint64_t ino, next;

	fx_asleep(fx);
	ino = fx_ino(fx, FILES "/d");
	dir = fx_opendir_ino(fx, ino);
	assert_string_equal(names_of(listed(fx, ino, dir->fh), &next), ". .. b sparse up ");
	next = 1;
	fx_put(fx, TOP "in", "y");
	s = fx_woken(fx);
	assert_string_equal(goes_on(fx, ino, dir->fh, &next), ".. b ");
	r = listed(fx, ino, dir->fh);
	asked(s, VM_LOOKUP, 0, 0);
	fake_answer(s, 0, &fx_a_dir);
	asked(s, VM_OPENDIR, 0, 0);
	assert_int_equal(s->file[0].rq.node, fx_a_dir.node);
	fake_answer(s, 0, &opened);
	answers(s, &one, 1);
	assert_string_equal(names_of(r, &next), ". .. three ");
	r = listed(fx, ino, dir->fh);
	fake_answer(s, -EACCES, NULL);
	assert_error(r, -EACCES);
	fx_release_ino(ino, dir->fh, true);
	fx_forget_ino(ino, 1);
	fake_exit(s, VM_DONE, 0);
}

/* It has begun to be read, and then the sandbox is gone: nobody was told anything, and it begins anew. */
static void test_asleep_while_it_is_read(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = fx_idle(fx);
	const uint64_t root = fx_ino(fx, FILES);
	struct req *dir = fx_opendir_ino(fx, root), *r;
	uint64_t next;

	fake_answer(s, 0, &opened);
	r = listed(fx, root, dir->fh);
	fake_answer(s, 0, &two);
	assert_int_equal(s->nfiles, 1);
	sleeps(fx, s);
	assert_waits(r);
	fake_settle();
	clock_advance(1);
	assert_string_equal(names_of(r, &next), ". .. a.txt d out sock ");
	r = listed(fx, root, dir->fh);
	assert_string_equal(names_of(r, &next), ". .. a.txt d out sock ");
	fx_release_ino(root, dir->fh, true);
}

/* ... and never comes back. */
static void test_gone_while_it_is_read(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = fx_idle(fx);
	const uint64_t root = fx_ino(fx, FILES);
	struct req *dir = fx_opendir_ino(fx, root), *r, *second;
	uint64_t next = 1;

	fake_answer(s, 0, &opened);
	r = listed(fx, root, dir->fh);
	fake_answer(s, 0, &two);
	fake_die(s, PROBLEM_CLOSED);
	fake_settle();
	clock_advance(1);
	assert_error(r, -ESTALE);
	assert_error(fx_readdir_ino(fx, root, dir->fh, 64, next), -ESTALE);
	assert_error(listed(fx, root, dir->fh), -ESTALE);
	fx_put(fx, TOP "ctl", "reset");
	fx_release_ino(root, dir->fh, true);
	s = fx_idle(fx);
	dir = fx_opendir_ino(fx, root);
	fake_answer(s, 0, &opened);
	r = listed(fx, root, dir->fh);
	answers(s, &two, 1);
	second = listed(fx, root, dir->fh);
	fake_answer(s, 0, &two);
	assert_int_equal(fx_rmdir(fx, "python/demo"), 0);
	fake_settle();
	clock_advance(1);
	assert_error(second, -ESTALE);
	assert_error(fx_readdir_ino(fx, root, dir->fh, 64, 1), -ESTALE);
	(void)names_of(r, &next);
	fx_release_ino(root, dir->fh, true);
}

/* The caller is interrupted: what comes later is not mixed with what he asks then. */
static void test_interrupted(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = fx_idle(fx);
	const uint64_t root = fx_ino(fx, FILES);
	struct req *dir = fx_opendir_ino(fx, root), *r, *second;
	uint64_t next;

	fake_answer(s, 0, &opened);
	r = listed(fx, root, dir->fh);
	fake_answer(s, 0, &two);
	req_interrupt(r);
	clock_advance(1000);
	assert_error(r, -EINTR);
	second = listed(fx, root, dir->fh);
	assert_int_equal(s->nfiles, 2);
	fake_answer(s, 0, &one); /* to whom has gone */
	answers(s, &two, 1);
	assert_string_equal(names_of(second, &next), ". .. one two ");
	fx_release_ino(root, dir->fh, true);
	assert_int_equal(s->nreleases, 1);
}

/* What is too long is not kept, and goes on by the agent's offsets; asleep, by those of what was saved. */
static void test_too_long(void **state)
{
	static char name[201];
	static struct vm_dirent many[400];
	const struct vm_file_reply piece = {.entries = many, .nentries = 400};
	struct fixture *fx = *state;
	struct sandbox *s = fx_idle(fx);
	const uint64_t root = fx_ino(fx, FILES);
	struct req *dir = fx_opendir_ino(fx, root), *r;
	uint64_t next = 0;

	memset(name, 'n', sizeof(name) - 1);
	for (unsigned i = 0; i < 400; i++)
		many[i] = (struct vm_dirent){
			.ino = i + 1, .next = i + 1000, .type = S_IFREG, .name = name};
	fake_answer(s, 0, &opened);
	r = listed(fx, root, dir->fh);
	for (unsigned i = 0; i < 1000 && (i == 0 || s->file[0].rq.offset); i++)
		fake_answer(s, 0, &piece);
	asked(s, VM_READDIR, opened.handle, 0);
	assert_in_range(s->file[0].rq.size, 1, 4096);
	assert_int_equal(handle_get(&fx->fs->handles, dir->fh)->text.len, 0);
	fake_answer(s, 0, &one);
	assert_string_equal(names_of(r, &next), ". .. three ");
	r = fx_readdir_ino(fx, root, dir->fh, 4096, next);
	asked(s, VM_READDIR, opened.handle, last[0].next);
	fake_answer(s, 0, &none);
	assert_string_equal(names_of(r, &next), "");
	sleeps(fx, s);
	assert_error(fx_readdir_ino(fx, root, dir->fh, 4096, next), -ESTALE);
	r = listed(fx, root, dir->fh);
	assert_string_equal(names_of(r, &next), ". .. a.txt d out sock ");
	fx_release_ino(root, dir->fh, true);
}

/* Nor what its user has no room for. */
static void test_no_room(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s;
	const uint64_t root = fx_ino(fx, FILES);
	struct req *dir, *r;
	struct handle *full;
	uint64_t next;

	dir = fx_opendir_ino(fx, root);
	full = handle_get(&fx->fs->handles, dir->fh);
	assert_int_equal(buf_reserve(&full->text, 1), 0);
	full->text.len = QUOTA_BYTES; /* so much is said */
	s = fx_ready(fx);
	dir = fx_opendir_ino(fx, root);
	fake_answer(s, 0, &opened);
	r = listed(fx, root, dir->fh);
	fake_answer(s, 0, &two);
	asked(s, VM_READDIR, opened.handle, 0);
	assert_in_range(s->file[0].rq.size, 1, 4096);
	fake_answer(s, 0, &two);
	assert_string_equal(names_of(r, &next), ". .. one two ");
	fx_expect(fx, TOP "error", "");
	full->text.len = 0;
	fx_release_ino(root, dir->fh, true);
	fx_release_ino(root, handle_id(full), true);
}

/* What was saved is listed by name, too, in whatever order it was; also of a disk, and goes on where it was. */
static void test_of_a_checkpoint(void **state)
{
	struct fixture *fx = *state;
	struct saved *saved;
	struct req *dir, *r;
	uint64_t files, next;

	fake_tree = FAKE_OTHER_FILES;
	fx_checkpoint(fx, fx_idle(fx), "a");
	files = fx_ino(fx, TOP "checkpoints/a/files");
	dir = fx_opendir_ino(fx, files);
	assert_string_equal(names_of(listed(fx, files, dir->fh), &next),
			    ". .. a.txt d new\n\\ sock ");
	assert_string_equal(goes_on(fx, files, dir->fh, &next), "");
	next = 2;
	assert_string_equal(goes_on(fx, files, dir->fh, &next), "a.txt d ");
	assert_string_equal(goes_on(fx, files, dir->fh, &next), "new\n\\ sock ");
	saved = checkpoint_find(fx_demo(fx), "a")->saved;
	fake_saved_store(saved);
	next = 3; /* what is there needs no disk */
	assert_string_equal(goes_on(fx, files, dir->fh, &next), "d new\n\\ ");
	r = listed(fx, files, dir->fh);
	assert_waits(r);
	fake_saved_loaded(saved, NULL);
	assert_string_equal(names_of(r, &next), ". .. a.txt d new\n\\ sock ");
	assert_int_equal(fx_rmdir(fx, TOP "checkpoints/a"), 0);
	assert_error(fx_readdir_ino(fx, files, dir->fh, 64, 2), -ESTALE);
	fx_release_ino(files, dir->fh, true);
	fake_tree = FAKE_FILES;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		fx_test(test_read_whole),
		fx_test(test_removed_at_once),
		fx_test(test_before_the_sandbox),
		fx_test(test_asleep_and_awake),
		fx_test(test_of_a_directory),
		fx_test(test_asleep_while_it_is_read),
		fx_test(test_gone_while_it_is_read),
		fx_test(test_interrupted),
		fx_test(test_too_long),
		fx_test(test_no_room),
		fx_test(test_of_a_checkpoint),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
