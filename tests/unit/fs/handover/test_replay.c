/* SPDX-License-Identifier: Apache-2.0 */
/* Requests below files/ that one daemon has sent, and the next one answers: nothing is asked for twice. */
/* modules: tests/unit/fixture/fixture.c tests/unit/fixture/left.c fs/handover/mount.c fs/handover/load.c fs/handover/losses.c fs/handover/sessions.c fs/handover/savings.c fs/handover/texts.c fs/handover/outputs.c fs/handover/commit.c fs/handover/shadow.c fs/handover/whole.c fs/handover/handles.c fs/handover/generations.c fs/handover/files.c fs/handover/calls.c fs/handover/sink.c fs/session/inherit.c */
/* modules: vm/base/estate.c vm/base/estate_file.c vm/base/estate_items.c vm/base/estate_load.c vm/base/estate_tidy.c vm/base/memory.c */
/* modules: fs/keep/aside.c fs/keep/policy.c fs/keep/code.c fs/keep/front.c fs/keep/job.c fs/keep/join.c fs/keep/lasting.c fs/keep/live.c fs/keep/output.c fs/keep/run.c fs/keep/salvage.c fs/keep/replay.c fs/keep/revive.c fs/keep/session.c fs/keep/sound.c fs/keep/value.c vm/base/problem_record.c */
#include <errno.h>
#include <fcntl.h>
#include <fuse_lowlevel.h>
#include <unistd.h>

#include "fs/files/files.h"
#include "fs/fuse/ops.h"
#include "fs/handover/handover.h"
#include "fs/mount.h"
#include "tests/unit/fixture/fixture.h"
#include "tests/unit/fixture/left.h"

#define FILES "python/demo/files"

/* Nothing is saved here. */
int saved_put(const struct saved *s, struct buf *out, struct fdbag *fds)
{
	(void)s;
	(void)out;
	(void)fds;
	return -ENOSYS;
}

int vm_saved_take(struct vm *vm, struct record_reader fields, struct fdbag *fds, bool died,
		  struct saved **ret_saved)
{
	(void)vm;
	(void)fields;
	(void)fds;
	(void)died;
	(void)ret_saved;
	return -ENOSYS;
}

/* ---- the daemon after this one ---- */

struct heir {
	struct second two;
	struct fs *before;
	struct sandbox *s;
};

/* It serves requests from now on. */
static void begin(struct heir *h, struct fixture *fx)
{
	struct fdbag fds = {0}, copies = {.owned = true};
	struct problem why = {0};
	struct record_reader reader;
	struct buf all = {0};
	struct record rec;
	int r;

	left_write(fx->fs, &all, &fds);
	for (size_t i = 0; i < fds.n; i++)
		assert_int_equal(fdbag_put(&copies, dup(fds.fd[i])), i + 1);
	second_begin(&h->two, fx);
	h->two.fs->vm = fx->fs->vm;
	reader = record_reader(all.data, all.len);
	while ((r = record_next(&reader, &rec)) > 0)
		assert_int_equal(handover_get(h->two.fs, &rec, &copies, &why), 0);
	assert_int_equal(r, 0);
	assert_int_equal(handover_join(h->two.fs, &why), 0);
	fdbag_clear(&fds);
	fdbag_clear(&copies);
	buf_clear(&all);
	h->before = fx_serve(fx, h->two.fs);
	handover_go(h->two.fs);
	h->s = fake_sandbox();
	fake_given_up = 0;
}

static void end(struct heir *h, struct fixture *fx)
{
	fx_serve(fx, h->before);
	mount_stop(h->two.fs);
	fake_settle();
	clock_work();
	second_free(&h->two);
}

/* The next request has the kernel's number @n. */
static struct req *numbered(struct fixture *fx, uint64_t n)
{
	fx->fs->request = n;
	return req_new(fx->pid);
}

static struct req *make(struct fixture *fx, uint64_t n, uint64_t dir)
{
	struct req *req = numbered(fx, n);

	ops.mkdir(req_native(req), dir, "new", 0755);
	return req;
}

static struct req *link_to(struct fixture *fx, uint64_t n, uint64_t dir)
{
	struct req *req = numbered(fx, n);

	ops.symlink(req_native(req), "target", dir, "link");
	return req;
}

static const struct vm_file_reply directory = {
	.node = 9, .attr = {.ino = 90, .mode = S_IFDIR | 0755, .nlink = 2}};
static const struct vm_file_reply a_link = {
	.node = 8, .attr = {.ino = 80, .mode = S_IFLNK | 0777, .nlink = 1, .size = 1}};

/* ---- tests ---- */

/* The same request is asked of the agent once; another one, though it looks the same, is another. */
static void test_claimed(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = fx_ready(fx);
	const uint64_t root = fx_ino(fx, FILES);
	struct req *req, *other;
	struct heir h;

	(void)make(fx, 20, root);
	assert_int_equal(s->file[0].rq.claim, 20);
	begin(&h, fx);
	other = make(fx, 22, root);
	assert_int_equal(h.s->nclaimed, 0);
	req = make(fx, 20, root);
	assert_int_equal(h.s->nclaimed, 1);
	files_replayed(fx->fs);
	assert_int_equal(fake_given_up, 0);
	assert_waits(req);
	fake_answer_at(h.s, 1, 0, &directory);
	assert_int_equal(req->kind, ANSWER_ENTRY);
	fake_answer(h.s, -EEXIST, NULL);
	assert_error(other, -EEXIST);
	end(&h, fx);
}

/* What was let through goes its way, whatever may be asked now. */
static void test_let_through(void **state)
{
	struct fixture *fx = *state;
	const uint64_t root = (fx_ready(fx), fx_ino(fx, FILES));
	struct session *s;
	struct req *req;
	struct heir h;

	(void)make(fx, 20, root);
	begin(&h, fx);
	s = fx_demo(fx);
	s->changes.committing = true;
	req = make(fx, 22, root);
	assert_error(req, -EBUSY);
	req = make(fx, 20, root);
	assert_waits(req);
	s->changes.committing = false;
	fake_answer(h.s, 0, &directory);
	assert_int_equal(req->kind, ANSWER_ENTRY);
	end(&h, fx);
}

/* Nobody asks again: vm/ is told. */
static void test_nobody(void **state)
{
	struct fixture *fx = *state;
	const uint64_t root = (fx_ready(fx), fx_ino(fx, FILES));
	struct heir h;

	(void)make(fx, 20, root);
	begin(&h, fx);
	files_replayed(fx->fs);
	assert_int_equal(fake_given_up, 1);
	assert_int_equal(h.s->nfiles, 0);
	end(&h, fx);
}

/* A link that was made, of which the target was being asked for: it is not made again, its target is asked for again. */
static void test_link(void **state)
{
	static const struct vm_file_reply target = {.data = "target", .size = 6};
	struct fixture *fx = *state;
	struct sandbox *s = fx_ready(fx);
	const uint64_t root = fx_ino(fx, FILES);
	struct heir h, next;
	struct req *req;

	(void)link_to(fx, 20, root);
	fake_answer(s, 0, &a_link);
	assert_int_equal(s->file[0].rq.op, VM_READLINK);
	begin(&h, fx);
	(void)link_to(fx, 20, root);
	assert_int_equal(h.s->nfiles, 1);
	assert_int_equal(h.s->file[0].rq.op, VM_READLINK);
	assert_int_equal(h.s->file[0].rq.node, 8);
	/* And by the one after that. */
	begin(&next, fx);
	req = link_to(fx, 20, root);
	files_replayed(fx->fs);
	assert_int_equal(next.s->nfiles, 1);
	fake_answer(next.s, 0, &target);
	assert_int_equal(req->kind, ANSWER_ENTRY);
	assert_int_equal(req->st.st_size, 6);
	assert_int_equal(next.s->forgotten, 0);
	end(&next, fx);
	end(&h, fx);
}

/* Nobody wants it: the lookup is given back. */
static void test_link_for_nobody(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = fx_ready(fx);
	const uint64_t root = fx_ino(fx, FILES);
	struct heir h;

	(void)link_to(fx, 20, root);
	fake_answer(s, 0, &a_link);
	begin(&h, fx);
	files_replayed(fx->fs);
	assert_int_equal(h.s->nfiles, 0);
	assert_int_equal(h.s->forgotten, 1);
	end(&h, fx);
}

static struct req *setlk(struct fixture *fx, uint64_t n, const struct file *f)
{
	struct fuse_file_info fi = {.fh = f->fh, .lock_owner = 1};
	struct flock fl = {.l_type = F_WRLCK, .l_pid = 7};
	struct req *req = numbered(fx, n);

	ops.setlk(req_native(req), f->ino, &fi, &fl, true);
	return req;
}

/* A lock keeps the token by which its agent knows it; and one that the agent was told to end before goes on. */
static void test_lock(void **state)
{
	static const struct vm_file_reply file = {
		.node = 7, .handle = 70, .attr = {.ino = 4711, .mode = S_IFREG | 0640, .nlink = 1}};
	struct fixture *fx = *state;
	struct sandbox *s = fx_ready(fx);
	const uint64_t root = fx_ino(fx, FILES);
	struct fuse_file_info fi = {.flags = O_RDWR};
	struct req *req = numbered(fx, 2), *interrupted;
	struct heir h;
	struct file f;

	ops.create(req_native(req), root, "x", 0644, &fi);
	fake_answer(s, 0, &file);
	f = (struct file){.ino = req->ino, .fh = req->fh, .flags = O_RDWR};
	(void)setlk(fx, 20, &f);
	(void)setlk(fx, 22, &f);
	begin(&h, fx);
	(void)setlk(fx, 24, &f);
	interrupted = setlk(fx, 22, &f);
	req = setlk(fx, 20, &f);
	files_replayed(fx->fs);
	assert_int_equal(h.s->nclaimed, 2);
	assert_int_equal(h.s->file[1].rq.lock.token, s->file[1].rq.lock.token);
	assert_int_equal(h.s->file[2].rq.lock.token, s->file[0].rq.lock.token);
	assert_true(h.s->file[0].rq.lock.token > s->file[1].rq.lock.token);
	/* Another signal: the kernel tells it once more. */
	req_interrupt(interrupted);
	assert_int_equal(h.s->ncancels, 1);
	assert_int_equal(h.s->cancelled.token, s->file[1].rq.lock.token);
	fake_answer_at(h.s, 1, -EINTR, NULL);
	assert_error(interrupted, -EINTR);
	/* The one before it had told the agent to end this, too: it is asked for again until somebody says so here. */
	fake_answer_at(h.s, 1, -EINTR, NULL);
	assert_waits(req);
	assert_int_equal(h.s->nfiles, 2);
	assert_true(h.s->file[1].rq.lock.token > h.s->file[0].rq.lock.token);
	fake_answer_at(h.s, 1, 0, &file);
	assert_error(req, 0);
	fx_release(fx, &f);
	end(&h, fx);
	fx_release(fx, &f);
}

/* A kernel that limits how long a request may take counts the time before as well. */
static void test_renewed(void **state)
{
	struct fixture *fx = *state;
	const uint64_t root = (fx_ready(fx), fx_ino(fx, FILES));
	struct req *old, *young;
	struct heir h;

	(void)make(fx, 20, root);
	begin(&h, fx);
	fx->fs->renew_ms = 40000;
	old = make(fx, 20, root);
	files_replayed(fx->fs);
	mount_go_on(fx->fs);
	clock_advance(9000);
	assert_waits(old);
	young = make(fx, 22, root);
	clock_advance(2000);
	assert_error(old, -EAGAIN);
	assert_waits(young);
	end(&h, fx);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		fx_test(test_claimed), fx_test(test_let_through),     fx_test(test_nobody),
		fx_test(test_link),    fx_test(test_link_for_nobody), fx_test(test_lock),
		fx_test(test_renewed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
