/* SPDX-License-Identifier: Apache-2.0 */
/* `files/`: what goes to the sandbox, when, and what becomes of it when somebody lets go. */
/* modules: tests/unit/fixture/fixture.c tests/unit/fixture/fixture_files.c */
#include <errno.h>
#include <fuse_lowlevel.h>
#include <stdio.h>

#include "tests/unit/fixture/fixture_files.h"
#include "fs/files/files.h"
#include "fs/fuse/ops.h"
#include "fs/session/quota.h"

#define FILES "python/demo/files"

/* ---- without a sandbox ---- */

static void test_empty_and_starting_nothing(void **state)
{
	struct fixture *fx = *state;
	uint64_t root = fx_ino(fx, FILES);
	struct req *req = req_new(0);
	struct stat st;

	assert_string_equal(fx_ls(fx, FILES), "");
	assert_error(fx_lookup(fx, root, "x"), -ENOENT);
	assert_int_equal(fx_unlink(fx, FILES "/x"), -ENOENT);
	assert_int_equal(fx_rmdir(fx, FILES "/x"), -ENOENT);
	assert_int_equal(fx_rename(fx, FILES "/x", FILES "/y", 0), -ENOENT);
	assert_int_equal(fx_stat(fx, FILES, &st), 0);
	assert_int_equal(st.st_mode, S_IFDIR | 0700);
	assert_int_equal(st.st_uid, 1000);
	ops.statfs(req_native(req), root);
	assert_int_equal(req->kind, ANSWER_STATFS);
	assert_int_equal(fake_count(), 0);
}

static void test_writing_starts_one_and_waits(void **state)
{
	struct fixture *fx = *state;
	uint64_t root = fx_ino(fx, FILES);
	struct req *made = fx_create(fx, root, "new"), *looked = fx_lookup(fx, root, "new");
	struct sandbox *s = fake_sandbox();

	assert_non_null(s);
	assert_waits(made);
	assert_waits(looked); /* behind it */
	fx_expect(fx, "python/demo/state", "starting\n");
	assert_int_equal(s->nfiles, 0);
	fake_state(s, SANDBOX_READY);
	assert_int_equal(s->nfiles, 2);
	assert_int_equal(s->file[0].rq.op, VM_CREATE);
	assert_int_equal(s->file[0].rq.node, VM_FILES_ROOT);
	assert_string_equal(s->file[0].rq.name, "new");
	fake_answer(s, 0, &fx_a_file);
	fake_answer(s, 0, &fx_a_file);
	assert_int_equal(made->kind, ANSWER_CREATE);
	assert_int_equal(looked->ino, made->ino);
	assert_int_equal(made->st.st_size, 5);
	assert_int_equal(made->st.st_uid, 1000);
	assert_int_equal(made->st.st_mode, S_IFREG | 0640);
	fx_release_ino(made->ino, made->fh, false);
	assert_int_equal(s->nreleases, 1);
	fx_forget_ino(made->ino, 1);
	assert_int_equal(s->forgotten, 0);
	fx_forget_ino(made->ino, 1);
	assert_int_equal(s->forgotten, 2);
}

static void test_sandbox_fails_while_one_waits(void **state)
{
	struct fixture *fx = *state;
	struct req *made = fx_create(fx, fx_ino(fx, FILES), "new");

	fake_die(fake_sandbox(), PROBLEM_NO_PLACE);
	assert_error(made, -EIO);
	fake_faults.new_err = -ENOMEM;
	assert_error(fx_create(fx, fx_ino(fx, FILES), "new"), -EIO);
}

static void test_session_closed_while_one_waits(void **state)
{
	struct fixture *fx = *state;
	struct req *made = fx_create(fx, fx_ino(fx, FILES), "new");

	assert_waits(made);
	assert_int_equal(fx_put(fx, "python/demo/ctl", "close\n"), 0);
	assert_error(made, -ESTALE);
}

static void test_listing_from_before_the_sandbox(void **state)
{
	struct fixture *fx = *state;
	uint64_t root = fx_ino(fx, FILES);
	struct req *dir = fx_opendir_ino(fx, root), *r;

	fx_ready(fx);
	r = fx_readdir_ino(fx, root, dir->fh, 4096, 2);
	assert_int_equal(r->kind, ANSWER_BUF);
	assert_int_equal(r->size, 0);
	fx_release_ino(root, dir->fh, true);
	assert_int_equal(fake_sandbox()->nreleases, 0);
}

/* ---- with one ---- */

static void test_requests_reach_the_agent(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = fx_ready(fx);
	uint64_t root = fx_ino(fx, FILES), ino = fx_found(fx, s, root, "x", &fx_a_file);
	struct req *opened = fx_open_ino(fx, ino, O_RDWR | O_APPEND), *r;
	struct file f = {.ino = ino};
	struct vm_file_reply data = {.data = "hello", .size = 5};

	assert_int_equal(s->file[0].rq.op, VM_OPEN);
	assert_int_equal(s->file[0].rq.node, 7);
	assert_int_equal(s->file[0].rq.flags, O_RDWR | O_APPEND);
	fake_answer(s, 0, &fx_a_file);
	f.fh = opened->fh;
	f.offset = 1000;
	r = fx_read(fx, &f, 4096, 0);
	assert_int_equal(s->file[0].rq.op, VM_READ);
	assert_int_equal(s->file[0].rq.handle, 70);
	assert_int_equal(s->file[0].rq.offset, 1000);
	assert_int_equal(s->file[0].rq.size, 4096);
	fake_answer(s, 0, &data);
	assert_bytes(r, "hello");
	r = fx_read(fx, &f, 4096, 0);
	fake_answer(s, -EIO, NULL);
	assert_error(r, -EIO);
	assert_int_equal(fx_flush(fx, &f), 0);
	fx_release_ino(ino, f.fh, false);
	assert_int_equal(s->nreleases, 1);
	assert_error(fx_read(fx, &f, 1, 0), -EIO);
}

static void test_answers_in_any_order(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = fx_ready(fx);
	uint64_t root = fx_ino(fx, FILES);
	struct req *a = fx_lookup(fx, root, "a"), *c = fx_lookup(fx, root, "c"),
		   *g = fx_getattr_ino(fx, root);

	assert_int_equal(s->nfiles, 3);
	fake_answer_at(s, 2, 0, &fx_a_dir);
	assert_int_equal(g->kind, ANSWER_ATTR);
	assert_int_equal(g->st.st_mode,
			 S_IFDIR | 0700); /* the session's, whatever the guest made of it */
	assert_int_equal(g->st.st_ino, root);
	fake_answer_at(s, 1, 0, &fx_a_dir);
	assert_waits(a);
	fake_answer(s, -ENOENT, NULL);
	assert_error(a, -ENOENT);
	assert_int_equal(c->kind, ANSWER_ENTRY);
}

/* An overlay counts its entries, "." and ".." among them, wherever they are. Whoever begins in the middle (seekdir(3)) does so
 * by the agent's offsets. */
static void test_listing_counted(void **state)
{
	static const struct vm_dirent rows[] = {
		{.ino = 1, .next = 1, .type = S_IFREG, .name = "one"},
		{.ino = 2, .next = 2, .type = S_IFREG, .name = "two"},
		{.ino = 3, .next = INT64_MAX, .type = S_IFREG, .name = "last"},
	};
	const struct vm_file_reply none = {.entries = NULL};
	struct fixture *fx = *state;
	struct sandbox *s = fx_ready(fx);
	uint64_t root = fx_ino(fx, FILES), at = 1, next;
	struct req *dir = fx_opendir_ino(fx, root), *r;

	fake_answer(s, 0, &fx_a_dir);
	for (size_t i = 0; i < 3; i++) {
		const struct vm_file_reply one = {.entries = &rows[i], .nentries = 1};
		size_t pos = 0;

		r = fx_readdir_ino(fx, root, dir->fh, 4096, at);
		assert_int_equal(s->file[0].rq.offset, i ? rows[i - 1].next : 0);
		fake_answer(s, 0, &one);
		if (i == 0)
			assert_string_equal(req_dirent(r, &pos, &next), "..");
		assert_string_equal(req_dirent(r, &pos, &next), rows[i].name);
		assert_null(req_dirent(r, &pos, &next));
		at = next;
	}
	r = fx_readdir_ino(fx, root, dir->fh, 4096, at);
	assert_int_equal(s->file[0].rq.offset, INT64_MAX);
	fake_answer(s, 0, &none);
	assert_int_equal(r->size, 0);
	fx_release_ino(root, dir->fh, true);
}

static void test_links_of_the_sandbox(void **state)
{
	static const struct {
		const char *target, *shown;
	} rows[] = {{"../x", "../x"},
		    {"../../x", ".outside-files/%2E/%2E%2E/%2E%2E/x"},
		    {"/etc/passwd", ".outside-files/etc/passwd"},
		    {"/home/user/y", "../y"},
		    {"a/../..", ".outside-files/%2E/a/%2E%2E/%2E%2E"}};
	struct fixture *fx = *state;
	struct sandbox *s = fx_ready(fx);
	uint64_t dir = fx_found(fx, s, fx_ino(fx, FILES), "d", &fx_a_dir), link;
	struct vm_file_reply l = fx_a_file;

	l.attr.mode = S_IFLNK | 0777;
	link = fx_found_link(fx, s, dir, "l", &l, "/a");
	for (unsigned i = 0; i < ARRAY_SIZE(rows); i++) {
		const struct vm_file_reply t = {.data = rows[i].target,
						.size = strlen(rows[i].target)};
		struct req *r = req_new(0);

		ops.readlink(req_native(r), link);
		fake_answer(s, 0, &t);
		assert_int_equal(r->kind, ANSWER_READLINK);
		assert_string_equal(r->data, rows[i].shown);
	}
}

/* The size of a link is that of the target that is shown, and costs a second question. */
static void test_size_of_links(void **state)
{
	const struct vm_file_reply t = {.data = "/etc/passwd", .size = 11};
	struct fixture *fx = *state;
	struct sandbox *s = fx_ready(fx);
	uint64_t root = fx_ino(fx, FILES), link;
	struct vm_file_reply l = fx_a_file;
	struct req *req;

	l.attr.mode = S_IFLNK | 0777;
	link = fx_found_link(fx, s, root, "l", &l, "/etc/passwd");
	req = fx_getattr_ino(fx, link);
	fake_answer(s, 0, &l);
	assert_waits(req);
	fake_answer(s, 0, &t);
	assert_int_equal(req->kind, ANSWER_ATTR);
	assert_int_equal(req->st.st_size, strlen(".outside-files/etc/passwd"));
	req = fx_getattr_ino(fx, link);
	fake_answer(s, 0, &l);
	fake_answer(s, -EIO, NULL);
	assert_int_equal(req->kind, ANSWER_ATTR);
	assert_int_equal(req->st.st_size, fx_a_file.attr.size);
	req = req_new(0);
	ops.symlink(req_native(req), ".outside-files/%2E/%2E%2E/x", root, "m");
	assert_string_equal(s->file[0].newname, "../x");
	l.node = 9;
	fake_answer(s, 0, &l);
	assert_int_equal(s->file[0].rq.op, VM_READLINK);
	assert_int_equal(s->file[0].rq.node, 9);
	fake_answer(s, 0, &t);
	assert_int_equal(req->kind, ANSWER_ENTRY);
}

static void test_two_directories(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = fx_ready(fx);
	uint64_t root = fx_ino(fx, FILES), dir = fx_found(fx, s, root, "d", &fx_a_dir),
		 file = fx_found(fx, s, root, "f", &fx_a_file);
	struct req *r = req_new(0);

	ops.rename(req_native(r), root, "f", dir, "g", RENAME_NOREPLACE);
	assert_int_equal(s->file[0].rq.node, VM_FILES_ROOT);
	assert_int_equal(s->file[0].rq.newparent, 8);
	assert_string_equal(s->file[0].rq.newname, "g");
	assert_int_equal(s->file[0].rq.flags, RENAME_NOREPLACE);
	fake_answer(s, 0, &fx_a_file);
	assert_error(r, 0);
	r = req_new(0);
	ops.link(req_native(r), file, dir, "h");
	assert_int_equal(s->file[0].rq.node, 7);
	assert_int_equal(s->file[0].rq.newparent, 8);
	fake_answer(s, 0, &fx_a_file);
	assert_int_equal(r->ino, file);
	fx_mkdir(fx, "python/two");
	r = req_new(0);
	ops.rename(req_native(r), root, "f", fx_ino(fx, "python/two/files"), "f", 0);
	assert_error(r, -EXDEV);
	r = req_new(0);
	ops.rename(req_native(r), root, "f", fx_ino(fx, "python/demo"), "in", 0);
	assert_error(r, -EXDEV);
	r = req_new(0);
	ops.link(req_native(r), file, fx_ino(fx, "python/two/files"), "f");
	assert_error(r, -EXDEV);
}

/* ---- letting go ---- */

static void test_interrupted_before_it_was_sent(void **state)
{
	struct fixture *fx = *state;
	struct req *made = fx_create(fx, fx_ino(fx, FILES), "x");

	req_interrupt(made);
	assert_error(made, -EINTR); /* at once */
	fake_state(fake_sandbox(), SANDBOX_READY);
	assert_int_equal(fake_sandbox()->nfiles, 0); /* and it never happens */
}

static void test_interrupted_in_flight(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = fx_ready(fx);
	uint64_t root = fx_ino(fx, FILES);
	struct req *made = fx_create(fx, root, "x"), *looked = fx_lookup(fx, root, "y"),
		   *dir = fx_opendir_ino(fx, root), *quick = fx_getattr_ino(fx, root);

	req_interrupt(made);
	req_interrupt(looked);
	req_interrupt(dir);
	req_interrupt(quick);
	assert_int_equal(req_waiting(), 4); /* the answer may be near */
	fake_answer_at(s, 3, 0, &fx_a_dir);
	assert_int_equal(quick->kind, ANSWER_ATTR);
	clock_advance(999);
	assert_int_equal(req_waiting(), 3);
	clock_advance(1);
	assert_error(made, -EINTR);
	assert_error(looked, -EINTR);
	assert_error(dir, -EINTR);
	/* What the agent gave is given back. */
	fake_answer(s, 0, &fx_a_file);
	assert_int_equal(s->nreleases, 1);
	assert_int_equal(s->forgotten, 1);
	fake_answer(s, 0, &fx_a_file);
	assert_int_equal(s->forgotten, 2);
	fake_answer(s, 0, &fx_a_dir);
	assert_int_equal(s->nreleases, 2);
	assert_int_equal(fx_demo(fx)->files->nodes.n, 0);
}

/* A kernel that ends the mount when a request has waited too long. */
static void test_waits_that_are_too_long(void **state)
{
	struct fixture *fx = *state;
	struct req *pending = fx_create(fx, fx_ino(fx, FILES), "x"), *sent, *later;
	struct files *files = fx_demo(fx)->files;
	struct sandbox *s;

	clock_advance(10);
	files_renew(files, uv_now(fx->fs->loop) - 11);
	assert_int_equal(req_waiting(), 1);
	files_renew(files, uv_now(fx->fs->loop) - 10);
	assert_error(pending, -EAGAIN);
	s = fx_ready(fx);
	sent = fx_create(fx, fx_ino(fx, FILES), "y");
	clock_advance(10);
	later = fx_create(fx, fx_ino(fx, FILES), "z");
	files_renew(files, uv_now(fx->fs->loop) - 10);
	assert_error(sent, -EAGAIN);
	fake_answer(s, 0, &fx_a_file); /* it was made all the same */
	assert_int_equal(s->nreleases, 1);
	fake_answer(s, 0, &fx_a_file);
	assert_int_equal(later->kind, ANSWER_CREATE);
}

static void test_sandbox_goes(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = fx_ready(fx), *next;
	uint64_t root = fx_ino(fx, FILES), ino = fx_found(fx, s, root, "x", &fx_a_file);
	struct req *opened = fx_open_ino(fx, ino, O_RDWR), *r;
	struct file f = {.ino = ino};

	fake_answer(s, 0, &fx_a_file);
	f.fh = opened->fh;
	r = fx_read(fx, &f, 10, 0);
	fx_put(fx, "python/demo/ctl", "close\n");
	assert_waits(r);
	fake_settle();
	assert_error(r, -ESTALE);
	assert_error(fx_lookup(fx, root, "x"), -ESTALE);
	assert_error(fx_create(fx, root, "x"), -ESTALE);
	assert_error(fx_opendir_ino(fx, root), -ESTALE);
	assert_error(fx_getattr_ino(fx, ino), -ESTALE);
	assert_error(fx_read(fx, &f, 10, 0), -ESTALE);
	fx_put(fx, "python/demo/ctl", "reset\n");
	next = fx_ready(fx);
	assert_ptr_not_equal(next, s);
	assert_error(fx_getattr_ino(fx, ino),
		     -ESTALE); /* another sandbox's node 7 is another file */
	assert_error(fx_read(fx, &f, 10, 0), -ESTALE);
	assert_error(fx_open_ino(fx, ino, O_RDONLY), -ESTALE);
	assert_int_not_equal(fx_found(fx, next, root, "x", &fx_a_file), ino);
	fx_release_ino(ino, f.fh, false);
	fx_forget_ino(ino, 1);
	assert_int_equal(next->nreleases, 0); /* the new one knows nothing of it */
	assert_int_equal(next->forgotten, 0);
}

static void test_session_removed_in_flight(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = fx_ready(fx);
	uint64_t root = fx_ino(fx, FILES), ino = fx_found(fx, s, root, "x", &fx_a_file);
	struct req *r = fx_getattr_ino(fx, ino), *opened = fx_open_ino(fx, ino, O_RDONLY);

	fx_rmdir(fx, "python/demo");
	assert_error(fx_getattr_ino(fx, ino), -ESTALE);
	fake_answer(s, 0, &fx_a_file); /* an answer that was on its way */
	assert_error(r, -ESTALE);
	fake_settle();
	assert_error(opened, -ESTALE);
	fx_forget_ino(ino, 1);
}

static void test_closed_by_an_idle_timeout_but_not_in_use(void **state)
{
	struct fixture *fx = *state;
	uint64_t root = fx_ino(fx, FILES);
	struct sandbox *s;

	fx_put(fx, "python/demo/config", "idle = close\nidle_timeout_s = 10\n");
	s = fx_ready(fx);
	for (int i = 0; i < 5; i++) {
		clock_advance(9000);
		fx_found(fx, s, root, "x", &fx_a_file); /* use */
	}
	fx_expect(fx, "python/demo/state", "idle\n");
	clock_advance(10000);
	fx_expect(fx, "python/demo/state", "closed\n");
}

/* What is being committed can be looked at, and is not changed. */
static void test_during_commit(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = fx_run(fx, "x");
	const uint64_t dir = fx_ino(fx, "python/demo/files");
	struct req *req;

	fake_exit(s, VM_DONE, 0);
	fx_demo(fx)->changes.committing = true;
	assert_error(fx_create(fx, dir, "new"), -EBUSY);
	assert_int_equal(s->nfiles, 0);
	assert_int_equal(session_reset(fx_demo(fx)), -EBUSY);
	req = fx_opendir_ino(fx, dir);
	assert_int_equal(s->nfiles, 1);
	fake_answer(s, -EIO, NULL);
	assert_error(req, -EIO);
	fx_demo(fx)->changes.committing = false;
	req = fx_create(fx, dir, "new");
	assert_int_equal(s->nfiles, 1);
	fake_answer(s, -EIO, NULL);
	assert_error(req, -EIO);
}

/* What the kernel's request lies in is used again for the next one. */
static void test_written_while_it_is_saved(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = fx_ready(fx);
	struct req *made = fx_create(fx, fx_ino(fx, FILES), "new"), *req;
	struct handle *full;
	struct file f;
	uint8_t bytes[4] = {'m', 'i', 'n', 'e'};

	fake_answer(s, 0, &fx_a_file);
	f = (struct file){.ino = made->ino, .fh = made->fh, .flags = O_WRONLY};
	assert_int_equal(fx_mkdir(fx, "python/demo/checkpoints/c"), 0);
	req = fx_write_req(fx, &f, bytes, sizeof(bytes), 0);
	memset(bytes, 'x', sizeof(bytes));
	assert_waits(req);
	assert_int_equal(s->nfiles, 0);
	assert_int_equal(fx_demo(fx)->held_bytes, sizeof(bytes)); /* which is its user's memory */
	full = handle_get(&fx->fs->handles, f.fh);
	assert_int_equal(buf_reserve(&full->text, 1), 0);
	full->text.len = QUOTA_BYTES; /* so much is said */
	assert_error(fx_write_req(fx, &f, bytes, sizeof(bytes), 0), -EDQUOT);
	full->text.len = 0;
	fx_saved(s);
	assert_int_equal(s->nfiles, 1);
	assert_int_equal(s->file[0].rq.op, VM_WRITE);
	assert_memory_equal(s->file[0].rq.data, "mine", 4);
	fake_answer(s, 0, &(struct vm_file_reply){.size = 4});
	assert_int_equal(req->size, 4);
	assert_int_equal(fx_demo(fx)->held_bytes, 0);
	fx_close(fx, &f);
	fx_forget_ino(made->ino, 1);
}

static uint64_t shown(struct fixture *fx, struct sandbox *s, uint64_t number)
{
	struct req *req = fx_lookup(fx, fx_ino(fx, FILES), "a");
	struct vm_file_reply reply = fx_a_file;

	reply.attr.ino = number;
	fake_answer(s, 0, &reply);
	assert_int_equal(req->kind, ANSWER_ENTRY);
	fx_forget_ino(req->ino, 1);
	return req->st.st_ino;
}

/* There is room for 40 bits of a number: what has few is told apart, and so are those of many generations (agent/files/number.h)
 * that have neighbours for their own. */
static void test_inode_numbers(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = fx_ready(fx);
	uint64_t first = shown(fx, s, 1);

	assert_int_equal(shown(fx, s, 1), first);
	assert_int_equal(shown(fx, s, 1ull << 39 | 1), first | 1ull << 39);
	for (uint64_t g = 1; g < 3; g++)
		for (uint64_t own = 0; own < 64; own++)
			assert_int_not_equal(shown(fx, s, 5ull << 32 | 32),
					     shown(fx, s, (256 * g + 5) << 32 | own));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		fx_test(test_during_commit),
		fx_test(test_empty_and_starting_nothing),
		fx_test(test_writing_starts_one_and_waits),
		fx_test(test_sandbox_fails_while_one_waits),
		fx_test(test_session_closed_while_one_waits),
		fx_test(test_listing_from_before_the_sandbox),
		fx_test(test_requests_reach_the_agent),
		fx_test(test_answers_in_any_order),

		fx_test(test_listing_counted),
		fx_test(test_links_of_the_sandbox),
		fx_test(test_size_of_links),
		fx_test(test_two_directories),
		fx_test(test_interrupted_before_it_was_sent),
		fx_test(test_interrupted_in_flight),
		fx_test(test_waits_that_are_too_long),
		fx_test(test_written_while_it_is_saved),
		fx_test(test_inode_numbers),
		fx_test(test_sandbox_goes),
		fx_test(test_session_removed_in_flight),
		fx_test(test_closed_by_an_idle_timeout_but_not_in_use),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
