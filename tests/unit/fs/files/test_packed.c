/* SPDX-License-Identifier: Apache-2.0 */
/* Files that were saved: of checkpoints, and of sessions that are asleep. */
/* modules: tests/unit/fixture/fixture.c tests/unit/fixture/fixture_files.c */
#include <errno.h>
#include <fuse_lowlevel.h>
#include <stdio.h>

#include "tests/unit/fixture/fixture_files.h"
#include "fs/files/files.h"
#include "fs/fuse/ops.h"
#include "fs/session/quota.h"

#define TOP   "python/demo/"
#define FILES TOP "files"
#define SAVED TOP "checkpoints/a/files"

static struct sandbox *with_checkpoint(struct fixture *fx)
{
	struct sandbox *s = fx_idle(fx);

	assert_int_equal(fx_mkdir(fx, TOP "checkpoints/a"), 0);
	fx_saved(s);
	return s;
}

static const char *ls(uint64_t ino)
{
	static char names[256];
	struct fuse_file_info fi = {.flags = O_RDONLY};
	struct req *req = req_new(0);
	const char *name;
	uint64_t next;
	size_t pos = 0;

	ops.opendir(req_native(req), ino, &fi);
	assert_int_equal(req->kind, ANSWER_OPEN);
	fi.fh = req->fh;
	req = req_new(0);
	ops.readdir(req_native(req), ino, 65536, 0, &fi);
	assert_int_equal(req->kind, ANSWER_BUF);
	names[0] = '\0';
	while ((name = req_dirent(req, &pos, &next)))
		sprintf(names + strlen(names), "%s ", name);
	req = req_new(0);
	ops.releasedir(req_native(req), ino, &fi);
	assert_error(req, 0);
	return names;
}

static const char *readlink_of(uint64_t ino)
{
	struct req *req = req_new(0);

	ops.readlink(req_native(req), ino);
	assert_int_equal(req->kind, ANSWER_READLINK);
	return req->data;
}

static struct req *setattr(uint64_t ino)
{
	struct stat st = {.st_mode = 0600};
	struct req *req = req_new(0);

	ops.setattr(req_native(req), ino, &st, FUSE_SET_ATTR_MODE, NULL);
	return req;
}

/* lseek(2). Return: where it is then, or -errno. */
static int64_t seek(const struct file *f, int64_t offset, int whence)
{
	struct fuse_file_info fi = {.fh = f->fh};
	struct req *req = req_new(0);

	ops.lseek(req_native(req), f->ino, offset, whence, &fi);
	if (req->kind == ANSWER_ERR)
		return req->err;
	assert_int_equal(req->kind, ANSWER_LSEEK);
	return (int64_t)req->number;
}

/* What is a hole in the sandbox is told as one here. */
static void check_holes(struct fixture *fx, const char *top)
{
	const int64_t data = FAKE_HOLE, hole = data + 5, size = hole + FAKE_HOLE;
	char path[128];
	struct file f;

	snprintf(path, sizeof(path), "%s/d/sparse", top);
	f = fx_opened(fx, path, O_RDONLY);
	assert_int_equal(seek(&f, 0, SEEK_DATA), data);
	assert_int_equal(seek(&f, data + 1, SEEK_DATA), data + 1);
	assert_int_equal(seek(&f, hole, SEEK_DATA), -ENXIO);
	assert_int_equal(seek(&f, size, SEEK_DATA), -ENXIO);
	assert_int_equal(seek(&f, -1, SEEK_DATA), -ENXIO);
	assert_int_equal(seek(&f, 7, SEEK_HOLE), 7);
	assert_int_equal(seek(&f, data, SEEK_HOLE), hole);
	assert_int_equal(seek(&f, size - 1, SEEK_HOLE), size - 1);
	assert_int_equal(seek(&f, size, SEEK_HOLE), -ENXIO);
	assert_int_equal(seek(&f, 0, SEEK_END), -EINVAL);
	fx_close(fx, &f);
	snprintf(path, sizeof(path), "%s/a.txt", top);
	f = fx_opened(fx, path, O_RDONLY);
	assert_int_equal(seek(&f, 0, SEEK_DATA), 0);
	assert_int_equal(seek(&f, 0, SEEK_HOLE), 5); /* its end */
	fx_close(fx, &f);
}

/* All of the tree at @top, of which fake_saved_new() says what is in it. */
static void check_tree(struct fixture *fx, const char *top)
{
	char path[128];
	struct stat st, hard;

	assert_string_equal(ls(fx_ino(fx, top)), ". .. a.txt d out sock ");
	snprintf(path, sizeof(path), "%s/d", top);
	assert_string_equal(ls(fx_ino(fx, path)), ". .. b sparse up ");
	snprintf(path, sizeof(path), "%s/a.txt", top);
	fx_expect(fx, path, "hello");
	assert_int_equal(fx_stat(fx, path, &st), 0);
	assert_int_equal(st.st_mode, S_IFREG | 0640);
	assert_int_equal(st.st_size, 5);
	assert_int_equal(st.st_nlink, 2);
	assert_int_equal(st.st_mtim.tv_sec, 1700000001);
	assert_int_equal(st.st_uid, 1000);
	snprintf(path, sizeof(path), "%s/d/b", top);
	assert_int_equal(fx_stat(fx, path, &hard), 0);
	assert_int_equal(hard.st_ino, st.st_ino); /* one file, for tar(1) and cp(1) */
	snprintf(path, sizeof(path), "%s/d/up", top);
	assert_string_equal(readlink_of(fx_ino(fx, path)), "../a.txt");
	assert_int_equal(fx_stat(fx, path, &st), 0);
	assert_int_equal(st.st_size, strlen("../a.txt"));
	snprintf(path, sizeof(path), "%s/out", top);
	assert_string_equal(readlink_of(fx_ino(fx, path)), ".outside-files/etc/passwd");
	assert_int_equal(fx_stat(fx, path, &st), 0);
	assert_int_equal(st.st_size, strlen(".outside-files/etc/passwd"));
	snprintf(path, sizeof(path), "%s/none", top);
	assert_false(fx_exists(fx, path));
	check_holes(fx, top);
}

/* ---- of a checkpoint ---- */

static void test_tree_of_a_checkpoint(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = with_checkpoint(fx);

	check_tree(fx, SAVED);
	assert_int_equal(s->nfiles, 0); /* the sandbox is asked nothing */
	fx_put(fx, TOP "ctl", "close\n");
	check_tree(fx, SAVED);
}

static void test_nothing_can_be_written(void **state)
{
	struct fixture *fx = *state;
	uint64_t dir, file;

	with_checkpoint(fx);
	dir = fx_ino(fx, SAVED);
	file = fx_ino(fx, SAVED "/a.txt");
	assert_error(fx_create(fx, dir, "new"), -EROFS);
	assert_error(fx_open_ino(fx, file, O_WRONLY), -EROFS);
	assert_error(fx_open_ino(fx, file, O_RDONLY | O_TRUNC), -EROFS);
	assert_error(setattr(file), -EROFS);
	assert_error(setattr(dir), -EROFS);
	assert_int_equal(fx_mkdir(fx, SAVED "/new"), -EROFS);
	assert_int_equal(fx_unlink(fx, SAVED "/a.txt"), -EROFS);
	assert_int_equal(fx_rmdir(fx, SAVED "/d"), -EROFS);
	assert_int_equal(fx_rmdir(fx, SAVED), -EROFS);
	assert_int_equal(fx_rename(fx, SAVED "/a.txt", SAVED "/b", 0), -EROFS);
	assert_int_equal(fx_rename(fx, FILES "/a.txt", SAVED "/b", 0), -EROFS);
	assert_error(fx_open_ino(fx, fx_ino(fx, SAVED "/sock"), O_RDONLY), -EPERM);
	assert_true(fx_exists(fx, SAVED "/a.txt"));
}

/* rm -r, of it or of all above it, begins with its status.json; then what can't be removed is in nobody's way. */
static void test_rm_r(void **state)
{
	struct fixture *fx = *state;

	with_checkpoint(fx);
	assert_int_equal(fx_unlink(fx, TOP "checkpoints/a/status.json"), 0);
	assert_int_equal(fx_unlink(fx, SAVED "/d/b"), 0);
	assert_int_equal(fx_rmdir(fx, SAVED "/d"), 0);
	assert_int_equal(fx_rmdir(fx, SAVED), 0);
	fx_expect(fx, SAVED "/a.txt", "hello"); /* until it goes */
	assert_int_equal(fx_rmdir(fx, TOP "checkpoints/a"), 0);
	assert_int_equal(fx_rmdir(fx, TOP "checkpoints"), 0);
	assert_true(fx_exists(fx, TOP "checkpoints"));
	assert_false(fx_exists(fx, TOP "checkpoints/a"));
}

/* Two of them are not the same files, and what is open of one that is removed is stale. */
static void test_two_checkpoints(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = with_checkpoint(fx);
	struct stat a, b;
	struct file f;
	uint64_t ino;

	assert_int_equal(fx_mkdir(fx, TOP "checkpoints/b"), 0);
	fx_saved(s);
	fx_stat(fx, SAVED "/a.txt", &a);
	fx_stat(fx, TOP "checkpoints/b/files/a.txt", &b);
	assert_int_not_equal(a.st_ino, b.st_ino);
	f = fx_opened(fx, SAVED "/a.txt", O_RDONLY);
	ino = fx_ino(fx, SAVED "/a.txt");
	assert_int_equal(fx_rmdir(fx, TOP "checkpoints/a"), 0);
	assert_error(fx_read(fx, &f, 10, 0), -ESTALE);
	fx_close(fx, &f);
	assert_int_equal(fx_mkdir(fx, TOP "checkpoints/a"), 0);
	fx_saved(s);
	assert_int_equal(fx_stat_ino(fx, ino, &a), -ESTALE);
	fx_forget_ino(ino, 3);
}

/* ---- of a session that is asleep ---- */

static void test_tree_of_a_sleeper(void **state)
{
	struct fixture *fx = *state;
	struct stat st;

	fx_asleep(fx);
	check_tree(fx, FILES);
	assert_int_equal(fx_stat(fx, FILES, &st), 0);
	assert_int_equal(st.st_mode, S_IFDIR | 0700);
	assert_int_equal(fake_alive(), 0);
	fx_expect(fx, TOP "state", "asleep\n");
}

static void test_creating_wakes(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s;
	struct req *req;

	fx_asleep(fx);
	req = fx_create(fx, fx_ino(fx, FILES), "new");
	assert_waits(req);
	s = fake_sandbox();
	assert_non_null(s->from);
	assert_waits(fx_lookup(fx, fx_ino(fx, FILES), "a.txt")); /* behind it */
	fake_state(s, SANDBOX_READY);
	assert_int_equal(s->nfiles, 2);
	assert_int_equal(s->file[0].rq.op, VM_CREATE);
	fake_answer(s, 0, &fx_a_file);
	assert_int_equal(req->kind, ANSWER_CREATE);
	fake_answer(s, -ENOENT, NULL);
	{
		struct fuse_file_info fi = {.fh = req->fh};
		const uint64_t ino = req->ino;

		req = req_new(0);
		ops.release(req_native(req), ino, &fi);
	}
}

/* What is about one of the files that were read is looked for in the sandbox (reopen.c); one that is not there is stale. A directory
 * is looked up there, and is that one from then on. */
static void test_writing_a_file_wakes(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s;
	struct stat st;
	struct req *req, *dir;
	uint64_t file, dir_ino;

	fx_asleep(fx);
	file = fx_ino(fx, FILES "/a.txt");
	dir_ino = fx_ino(fx, FILES "/d");
	dir = fx_create(fx, dir_ino, "new");
	req = fx_open_ino(fx, file, O_WRONLY);
	assert_waits(req);
	assert_waits(dir);
	s = fake_sandbox();
	fake_state(s, SANDBOX_READY);
	assert_waits(req);
	assert_int_equal(s->nfiles, 1);
	assert_int_equal(s->file[0].rq.op, VM_LOOKUP);
	assert_string_equal(s->file[0].rq.name, "a.txt");
	fake_answer(s, -ENOENT, NULL);
	assert_error(req, -ESTALE);
	assert_int_equal(s->nfiles, 1);
	assert_int_equal(s->file[0].rq.op, VM_LOOKUP);
	assert_int_equal(s->file[0].rq.node, VM_FILES_ROOT);
	assert_string_equal(s->file[0].rq.name, "d");
	fake_answer(s, 0, &fx_a_dir);
	assert_waits(dir);
	assert_int_equal(s->file[0].rq.op, VM_CREATE);
	assert_int_equal(s->file[0].rq.node, fx_a_dir.node);
	fake_answer(s, -ENOSPC, NULL);
	assert_error(dir, -ENOSPC);
	dir = fx_create(fx, dir_ino, "new"); /* it is known */
	assert_int_equal(s->file[0].rq.op, VM_CREATE);
	fake_answer(s, -ENOSPC, NULL);
	assert_error(dir, -ENOSPC);
	assert_int_equal(s->forgotten, 0);
	fx_forget_ino(dir_ino, 1);
	assert_int_equal(s->forgotten, 1); /* the one that was asked for here */
	s->forgotten = 0;
	assert_int_equal(fx_stat_ino(fx, file, &st), -ESTALE);
	fx_forget_ino(file, 1);
	assert_int_equal(s->forgotten, 0); /* the sandbox knows nothing of it */
	req = fx_lookup(fx, fx_ino(fx, FILES), "a.txt");
	fake_answer(s, 0, &fx_a_file);
	assert_int_equal(req->kind, ANSWER_ENTRY);
}

/* One that sleeps with something else has other files. */
static void test_other_files_after_a_restore(void **state)
{
	struct fixture *fx = *state;
	struct stat st;
	uint64_t file;

	fx_asleep(fx);
	file = fx_ino(fx, FILES "/a.txt");
	assert_int_equal(fx_mkdir(fx, TOP "checkpoints/a"), 0);
	assert_int_equal(fx_put(fx, TOP "ctl", "restore a\n"), 0);
	assert_int_equal(fx_stat_ino(fx, file, &st), -ESTALE);
	fx_expect(fx, FILES "/a.txt", "hello");
}

static void test_a_wake_that_fails(void **state)
{
	struct fixture *fx = *state;
	struct req *req;

	fx_asleep(fx);
	req = fx_create(fx, fx_ino(fx, FILES), "new");
	fake_die(fake_sandbox(), PROBLEM_NO_PLACE);
	assert_error(req, -EIO);
	fx_expect(fx, FILES "/a.txt", "hello");
	req = fx_create(fx, fx_ino(fx, FILES),
			"new"); /* its memory does not fit: another one is made */
	fake_die(fake_sandbox(), PROBLEM_NOT_RESTORED);
	assert_waits(req);
	req_interrupt(req);
	assert_error(req, -EINTR);
}

/* A copy of what is being saved has files that are not known yet. */
static void test_of_a_copy_that_waits(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = fx_run(fx, "x");
	struct req *req, *write;

	fake_exit(s, VM_DONE, 0);
	fx_mkdir(fx, "python/copy");
	assert_int_equal(fx_put(fx, "python/copy/config", "from = demo\n"), 0);
	req = fx_lookup(fx, fx_ino(fx, "python/copy/files"), "a.txt");
	assert_waits(req);
	fx_saved(s);
	assert_int_equal(req->kind, ANSWER_ENTRY);
	check_tree(fx, "python/copy/files");
	assert_int_equal(fake_count(), 1);
	fx_mkdir(fx, "python/third");
	assert_int_equal(fx_put(fx, "python/third/config", "from = demo\n"), 0);
	write = fx_create(fx, fx_ino(fx, "python/third/files"), "new");
	assert_waits(write);
	fx_saved(s);
	assert_int_equal(fake_count(), 2);
	assert_waits(write);
	fake_die(fake_sandbox(), PROBLEM_NO_PLACE);
	assert_error(write, -EIO);
}

/* ... and which goes before they are. */
static void test_of_a_copy_that_goes(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = fx_run(fx, "x");
	struct req *req;

	fake_exit(s, VM_DONE, 0);
	fx_mkdir(fx, "python/copy");
	assert_int_equal(fx_put(fx, "python/copy/config", "from = demo\n"), 0);
	req = fx_lookup(fx, fx_ino(fx, "python/copy/files"), "a.txt");
	assert_int_equal(fx_put(fx, "python/copy/ctl", "close\n"), 0);
	assert_error(req, -ESTALE);
	assert_int_equal(fx_put(fx, "python/copy/config", "from = demo\n"), 0);
	req = fx_lookup(fx, fx_ino(fx, "python/copy/files"), "a.txt");
	assert_int_equal(fx_rmdir(fx, "python/copy"), 0);
	assert_error(req, -ESTALE);
	fx_mkdir(fx, "python/copy");
	assert_int_equal(fx_put(fx, "python/copy/config", "from = demo\n"), 0);
	req = fx_lookup(fx, fx_ino(fx, "python/copy/files"), "a.txt");
	fx_stop(fx);
	assert_error(req, -ESTALE);
}

/* ---- what has to be read from a disk first ---- */

static const struct problem damaged = {.code = PROBLEM_NOT_RESTORED,
				       .cause = "what was saved is damaged on the disk"};

static struct saved *sleeps_on_disk(struct fixture *fx)
{
	struct saved *saved;

	fx_asleep(fx);
	saved = fx_demo(fx)->asleep.saved;
	fake_saved_store(saved);
	return saved;
}

static void test_waits_for_the_disk(void **state)
{
	struct fixture *fx = *state;
	struct saved *saved = sleeps_on_disk(fx);
	const uint64_t files = fx_ino(fx, FILES);
	struct req *req[3];

	for (size_t i = 0; i < ARRAY_SIZE(req); i++) {
		req[i] = fx_lookup(fx, files, i == 2 ? "none" : "a.txt");
		assert_waits(req[i]);
	}
	req_interrupt(req[1]);
	assert_error(req[1], -EINTR);
	fake_saved_loaded(saved, NULL);
	assert_int_equal(req[0]->kind, ANSWER_ENTRY);
	assert_error(req[2], -ENOENT);
	assert_int_equal(fake_alive(), 0);
	check_tree(fx, FILES);
	fx_forget_ino(req[0]->ino, 1);
}

static void test_the_disk_is_damaged(void **state)
{
	struct fixture *fx = *state;
	struct saved *saved = sleeps_on_disk(fx);
	struct req *req = fx_lookup(fx, fx_ino(fx, FILES), "a.txt");

	assert_waits(req);
	fake_saved_loaded(saved, &damaged);
	assert_error(req, -EIO);
	fx_expect(fx, TOP "state", "asleep\n");
	assert_non_null(strstr(fx_cat(fx, TOP "error"), "damaged on the disk"));
	/* It is tried again. */
	req = fx_lookup(fx, fx_ino(fx, FILES), "a.txt");
	fake_saved_loaded(saved, NULL);
	assert_int_equal(req->kind, ANSWER_ENTRY);
	fx_forget_ino(req->ino, 1);
}

/* Of a checkpoint, it is said of which, and what helps. */
static void test_a_checkpoint_is_damaged(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = fx_idle(fx);
	struct saved *saved;
	struct req *req;

	fx_checkpoint(fx, s, "c");
	saved = TAILQ_FIRST(&fx_demo(fx)->checkpoints.list)->saved;
	fake_saved_store(saved);
	req = fx_lookup(fx, fx_ino(fx, TOP "checkpoints/c/files"), "a.txt");
	assert_waits(req);
	saved->damaged = true;
	fake_saved_loaded(saved, &damaged);
	assert_error(req, -EIO);
	assert_non_null(strstr(fx_cat(fx, TOP "error"), "checkpoints/c: "));
	assert_non_null(strstr(fx_cat(fx, TOP "error"), "rmdir removes it"));
}

/* What becomes of its session meanwhile. */
static void test_goes_while_the_disk_is_read(void **state)
{
	struct fixture *fx = *state;
	struct saved *saved = saved_ref(sleeps_on_disk(fx));
	struct req *req, *below;
	uint64_t dir;
	struct sandbox *s;

	req = fx_lookup(fx, fx_ino(fx, FILES), "d");
	fake_saved_loaded(saved, NULL);
	assert_int_equal(req->kind, ANSWER_ENTRY);
	dir = req->ino;
	saved_unload(saved);
	/* It wakes: all is asked of the sandbox, of a directory that was read first where that is. */
	req = fx_lookup(fx, fx_ino(fx, FILES), "a.txt");
	below = fx_lookup(fx, dir, "b");
	assert_waits(req);
	assert_waits(below);
	assert_int_equal(fx_put(fx, TOP "ctl", "wake\n"), 0);
	s = fake_sandbox();
	fake_state(s, SANDBOX_READY);
	fake_saved_loaded(saved, NULL);
	assert_waits(below);
	assert_waits(req);
	assert_int_equal(s->nfiles, 2);
	fake_answer(s, 0, &fx_a_file);
	assert_int_equal(req->kind, ANSWER_ENTRY);
	fx_forget_ino(req->ino, 1);
	fake_answer(s, -ENOENT, NULL);
	assert_error(below, -ESTALE);
	fx_forget_ino(dir, 1);
	saved_unref(saved);
}

static void test_checkpoint_on_disk(void **state)
{
	struct fixture *fx = *state;
	struct saved *saved;
	struct req *req, *other;

	with_checkpoint(fx);
	saved = saved_ref(checkpoint_find(fx_demo(fx), "a")->saved);
	fake_saved_store(saved);
	req = fx_lookup(fx, fx_ino(fx, SAVED), "a.txt");
	assert_waits(req);
	fake_saved_loaded(saved, NULL);
	assert_int_equal(req->kind, ANSWER_ENTRY);
	fx_forget_ino(req->ino, 1);
	check_tree(fx, SAVED);

	/* It is removed while it is read; and its session is. */
	saved_unload(saved);
	req = fx_lookup(fx, fx_ino(fx, SAVED), "a.txt");
	assert_int_equal(fx_rmdir(fx, TOP "checkpoints/a"), 0);
	assert_waits(req);
	fake_saved_loaded(saved, NULL);
	assert_error(req, -ESTALE);
	saved_unref(saved);
	fx_asleep(fx);
	saved = saved_ref(fx_demo(fx)->asleep.saved);
	fake_saved_store(saved);
	other = fx_lookup(fx, fx_ino(fx, FILES), "a.txt");
	assert_waits(other);
	assert_int_equal(fx_rmdir(fx, "python/demo"), 0);
	fake_saved_loaded(saved, &damaged);
	assert_true(other->kind == ANSWER_ERR);
	saved_unref(saved);
}

/* Where an open file was is noted for when the session wakes, and that is its user's memory. */
static void test_notes_are_in_the_quota(void **state)
{
	struct fixture *fx = *state;
	const size_t a_note = sizeof(struct file_was) + sizeof("a.txt");
	struct req *first, *second;
	struct handle *full;
	uint64_t ino, root;

	fx_asleep(fx);
	root = fx_ino(fx, FILES);
	ino = fx_ino(fx, FILES "/a.txt");
	full = handle_get(&fx->fs->handles, fx_opendir_ino(fx, root)->fh);
	assert_int_equal(buf_reserve(&full->text, 1), 0);
	full->text.len = QUOTA_BYTES; /* so much is said */
	assert_error(fx_open_ino(fx, ino, O_RDONLY), -EDQUOT);
	full->text.len = 0;
	fx_expect_error(fx, "python/demo", "too-much-text");
	first = fx_open_ino(fx, ino, O_RDONLY);
	second = fx_open_ino(fx, ino, O_RDONLY);
	assert_int_equal(handle_bytes(handle_get(&fx->fs->handles, first->fh)), a_note);
	assert_int_equal(handle_bytes(handle_get(&fx->fs->handles, second->fh)), a_note);
	fx_release_ino(ino, first->fh, false);
	fx_release_ino(ino, second->fh, false);
	fx_release_ino(root, handle_id(full), true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		fx_test(test_tree_of_a_checkpoint),
		fx_test(test_nothing_can_be_written),
		fx_test(test_rm_r),
		fx_test(test_two_checkpoints),
		fx_test(test_tree_of_a_sleeper),
		fx_test(test_creating_wakes),
		fx_test(test_writing_a_file_wakes),
		fx_test(test_other_files_after_a_restore),
		fx_test(test_a_wake_that_fails),
		fx_test(test_of_a_copy_that_waits),
		fx_test(test_of_a_copy_that_goes),
		fx_test(test_waits_for_the_disk),
		fx_test(test_a_checkpoint_is_damaged),
		fx_test(test_the_disk_is_damaged),
		fx_test(test_goes_while_the_disk_is_read),
		fx_test(test_checkpoint_on_disk),
		fx_test(test_notes_are_in_the_quota),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
