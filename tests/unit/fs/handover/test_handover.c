/* SPDX-License-Identifier: Apache-2.0 */
/* A mount that is taken over: what was written, read, and written again is the same; and it goes on as it was. */
/* modules: tests/unit/fixture/fixture.c tests/unit/fixture/fixture_files.c tests/unit/fixture/left.c tests/unit/fixture/shelf.c fs/handover/mount.c fs/handover/load.c fs/handover/losses.c fs/handover/sessions.c fs/handover/savings.c fs/handover/texts.c fs/handover/outputs.c fs/handover/commit.c fs/handover/shadow.c fs/handover/whole.c fs/handover/handles.c fs/handover/generations.c fs/handover/files.c fs/handover/calls.c fs/handover/sink.c fs/session/inherit.c vm/base/problem_record.c */
/* modules: vm/base/estate.c vm/base/estate_file.c vm/base/estate_items.c vm/base/estate_load.c vm/base/estate_tidy.c vm/base/memory.c */
/* modules: fs/keep/aside.c fs/keep/policy.c fs/keep/code.c fs/keep/front.c fs/keep/job.c fs/keep/join.c fs/keep/lasting.c fs/keep/live.c fs/keep/output.c fs/keep/run.c fs/keep/salvage.c fs/keep/replay.c fs/keep/revive.c fs/keep/session.c fs/keep/sound.c fs/keep/value.c vm/base/problem_record.c */
#include <errno.h>
#include <fuse_lowlevel.h>
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

#include "fs/files/files.h"
#include "fs/fuse/ops.h"
#include "fs/handover/handover.h"
#include "fs/request/nodelock.h"
#include "fs/session/job.h"
#include "tests/unit/fixture/fixture_files.h"
#include "tests/unit/fixture/left.h"
#include "tests/unit/fixture/shelf.h"

#define TOP "python/demo/"

/* ---- the mount after this one ---- */

static void write_down(struct fs *fs, struct buf *out, struct fdbag *fds)
{
	left_write(fs, out, fds);
	assert_true(fds->n <= 1); /* the file of long outputs */
}

/* Return: 0, or what the first record was refused with. */
static int load(struct second *two, const struct buf *from, struct fdbag *fds)
{
	struct record_reader reader = record_reader(from->data, from->len);
	struct problem why = {0};
	struct record rec;
	int r;

	while ((r = record_next(&reader, &rec)) > 0) {
		r = handover_get(two->fs, &rec, fds, &why);
		if (r < 0)
			break;
	}
	if (r == 0)
		r = handover_join(two->fs, &why);
	if (r < 0)
		print_message("kind %u: %d %s\n", rec.kind, r, why.cause);
	return r;
}

static void begin(struct second *two, struct fixture *fx)
{
	second_begin(two, fx);
	two->fs->vm = fx->fs->vm;
}

static void end(struct second *two)
{
	mount_stop(two->fs);
	fake_settle();
	clock_work();
	second_free(two);
}

/* For who wants seeds for fuzz_handover: XSBX_SEEDS=DIRECTORY test_handover. */
static void keep_seed(const struct buf *records)
{
	const char *dir = getenv("XSBX_SEEDS");
	static unsigned n;
	char path[256];
	FILE *f;

	if (!dir)
		return;
	snprintf(path, sizeof(path), "%s/mount%u", dir, n++);
	f = fopen(path, "w");
	assert_non_null(f);
	assert_int_equal(fwrite(records->data, 1, records->len, f), records->len);
	assert_int_equal(fclose(f), 0);
}

/* Goes on in @two, which is to be ended. @still: nothing moves on by itself, so that it would be written down as it was. */
static void go_on(struct fixture *fx, struct second *two, bool still)
{
	struct buf first = {0}, again = {0};
	struct fdbag fds = {0}, copies = {.owned = true}, unused = {0};

	write_down(fx->fs, &first, &fds);
	keep_seed(&first);
	for (size_t i = 0; i < fds.n; i++)
		assert_int_equal(fdbag_put(&copies, dup(fds.fd[i])), i + 1);
	begin(two, fx);
	assert_int_equal(load(two, &first, &copies), 0);
	write_down(two->fs, &again, &unused);
	if (still)
		fx_expect_bytes(&first, &again);
	fdbag_clear(&fds);
	fdbag_clear(&copies);
	fdbag_clear(&unused);
	buf_clear(&first);
	buf_clear(&again);
}

static void take_over(struct fixture *fx, struct second *two)
{
	go_on(fx, two, true);
}

static void check(struct fixture *fx)
{
	struct second two;

	take_over(fx, &two);
	end(&two);
}

static int teardown(void **state)
{
	shelf_clear();
	return fx_teardown(state);
}

#define handover_test(name) cmocka_unit_test_setup_teardown(name, fx_setup, teardown)

/* ---- tests ---- */

static void test_nothing(void **state)
{
	check(*state);
}

static void test_places(void **state)
{
	struct fixture *fx = *state;
	struct second two;
	struct file gone;
	uint64_t demo = fx_ino(fx, "python/demo"), other, fresh;
	struct fs *fs;

	assert_int_equal(fx_mkdir(fx, "python/a"), 0);
	assert_int_equal(fx_mkdir(fx, "raw/b"), 0);
	assert_int_equal(fx_mkdir(fx, "python/c"), 0);
	gone = fx_opened(fx, "python/a/state", O_RDONLY);
	assert_int_equal(fx_rmdir(fx, "python/a"), 0);
	assert_int_equal(fx_mkdir(fx, "nothing/of/it"), -ENOENT);
	assert_int_equal(fx_mkdir(fx, "python/.bad"), -EINVAL);
	other = fx_ino(fx, "raw/b/state");
	take_over(fx, &two);
	fs = fx_serve(fx, two.fs);
	assert_int_equal(fx_ino(fx, "python/demo"), demo);
	assert_int_equal(fx_ino(fx, "raw/b/state"), other);
	assert_int_equal(fx_mkdir(fx, "python/a"), 0);
	fresh = fx_ino(fx, "python/a");
	assert_int_equal(fx_mkdir(fx, "python/c"), -EEXIST);
	fx_serve(fx, fs);
	/* The next one gets the number that it would have got here. */
	assert_int_equal(fx_mkdir(fx, "python/a"), 0);
	assert_int_equal(fx_ino(fx, "python/a"), fresh);
	end(&two);
	fx_close(fx, &gone);
}

/* The configuration has other limits by now. What a session has was allowed. */
static void test_other_limits(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s;
	struct buf first = {0};
	struct fdbag fds = {0}, unused = {.owned = true};
	const struct settings *with;
	struct settings_limits *limits;
	struct second two;
	struct session *demo;

	fx_put(fx, TOP "config",
	       "memory_mb = 300\nenv.A = b\ntimeout_s = 77\nnetwork = on\nallow = a.example\n");
	s = fx_run(fx, "one");
	fake_exit(s, VM_DONE, 0);
	fx_checkpoint(fx, s, "a");
	assert_int_equal(fx_put(fx, TOP "ctl", "close\nreset\n"), 0);
	fx_put(fx, TOP "config", "memory_mb = 350\nenv.A = b\ntimeout_s = 77\n");
	assert_int_equal(fx_mkdir(fx, TOP "jobs/j"), 0);
	fx_put(fx, TOP "jobs/j/config", "timeout_s = 66\n");
	write_down(fx->fs, &first, &fds);
	begin(&two, fx);
	limits = &two.conf.limits;
	limits->max_memory_mb = 256;
	limits->max_timeout_s = 50;
	limits->deny_network = true;
	limits->allow_process = false;
	assert_int_equal(load(&two, &first, &unused), 0);
	demo = session_find(two.fs, 0, "demo");
	with = &demo->settings;
	assert_int_equal(with->spec.memory_mb, 350);
	assert_int_equal(with->spec.nenv, fx_demo(fx)->settings.spec.nenv);
	assert_int_equal(with->timeout_s, 77);
	with = &checkpoint_find(demo, "a")->settings;
	assert_int_equal(with->spec.memory_mb, 300);
	assert_true(with->spec.network);
	assert_int_equal(TAILQ_FIRST(&demo->jobs)->settings.timeout_s, 66);
	end(&two);
	fdbag_clear(&fds);
	fdbag_clear(&unused);
	buf_clear(&first);
}

static void test_handles(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = fx_run(fx, "first");
	struct second two;
	struct file f[9], scratch;
	struct fs *fs;

	fake_output(s, VM_STDOUT, "half of it");
	f[0] = fx_opened(fx, TOP "stdout", O_RDONLY);
	f[1] = fx_opened(fx, TOP "status.json", O_RDONLY);
	f[2] = fx_opened(fx, "events", O_RDONLY);
	f[3] = fx_opened(fx, TOP "events", O_RDONLY);
	f[4] = fx_opened(fx, TOP "files.events", O_RDONLY);
	f[5] = fx_opened(fx, TOP "stdin", O_WRONLY);
	f[6] = fx_opened(fx, TOP "in", O_WRONLY | O_TRUNC);
	f[7] = fx_opened(fx, TOP "runs/1/in", O_RDONLY);
	f[8] = fx_opened(fx, "metrics", O_RDONLY);
	assert_int_equal(fx_write(fx, &f[6], "second"), 0);
	assert_int_equal(fx_put(fx, TOP "in.tmp", "x"), 0);
	scratch = fx_opened(fx, TOP "in.tmp", O_RDWR);
	assert_int_equal(fx_unlink(fx, TOP "in.tmp"), 0);
	check(fx);
	take_over(fx, &two);
	s = fake_sandbox();
	fs = fx_serve(fx, two.fs);
	assert_bytes(fx_read(fx, &f[0], 100, 0), "half of it");
	assert_bytes(fx_read(fx, &scratch, 100, 0), "x");
	fx_close(fx, &f[6]);
	assert_int_equal(fx_demo(fx)->nqueued, 1);
	fake_output(s, VM_STDOUT, ", and the rest");
	fake_exit(s, VM_DONE, 0);
	f[0].offset = 10;
	assert_bytes(fx_read(fx, &f[0], 100, 0), ", and the rest");
	assert_string_equal(s->code, "second");
	for (unsigned i = 0; i < 9; i++)
		if (i != 6)
			fx_close(fx, &f[i]);
	fx_close(fx, &scratch);
	fx_serve(fx, fs);
	end(&two);
	for (unsigned i = 0; i < 9; i++)
		fx_close(fx, &f[i]);
	fx_close(fx, &scratch);
}

/* What is written to a node of settings has the limit that it had. */
static void test_limits(void **state)
{
	struct fixture *fx = *state;
	struct file f = fx_opened(fx, TOP "config", O_WRONLY);
	struct second two;

	assert_int_equal(handle_get(&fx->fs->handles, f.fh)->text.limit, SETTINGS_TEXT_MAX);
	take_over(fx, &two);
	assert_int_equal(handle_get(&two.fs->handles, f.fh)->text.limit, SETTINGS_TEXT_MAX);
	end(&two);
	fx_close(fx, &f);
}

/* A handle's number is not given to another, also if it was free. */
static void test_generations(void **state)
{
	struct fixture *fx = *state;
	struct file old = fx_opened(fx, TOP "state", O_RDONLY), now;
	struct second two;
	struct fs *fs;

	fx_close(fx, &old);
	take_over(fx, &two);
	fs = fx_serve(fx, two.fs);
	now = fx_opened(fx, TOP "state", O_RDONLY);
	assert_int_equal((uint32_t)now.fh, (uint32_t)old.fh);
	assert_true(now.fh != old.fh);
	fx_close(fx, &now);
	fx_serve(fx, fs);
	end(&two);
}

/* The root's `error`: what is so until it is over is that for the heir as well. */
static void test_standing(void **state)
{
	static const struct problem p = {.code = PROBLEM_NOT_KEPT, .cause = "a full disk"};
	struct fixture *fx = *state;
	const uid_t uid = fx->fs->uid;
	struct second two;

	complaint_stand(fx->fs, &p);
	complaint_tell(fx->fs, uid + 1, &(struct problem){.code = PROBLEM_FAILED});
	take_over(fx, &two);
	assert_true(complaint_stands(two.fs));
	assert_int_equal(complaint_of(two.fs, uid)->problem.code, PROBLEM_NOT_KEPT);
	assert_string_equal(complaint_of(two.fs, uid)->problem.cause, p.cause);
	assert_int_equal(complaint_of(two.fs, uid + 1)->problem.code, PROBLEM_FAILED);
	complaint_stand(two.fs, NULL);
	assert_int_equal(complaint_of(two.fs, uid)->problem.code, PROBLEM_NONE);
	end(&two);
}

static void test_jobs(void **state)
{
	struct fixture *fx = *state;
	struct file out, in;
	struct sandbox *s;

	assert_int_equal(fx_mkdir(fx, TOP "jobs/j"), 0);
	in = fx_opened(fx, TOP "jobs/j/stdin", O_WRONLY);
	fx_put(fx, TOP "jobs/j/in", "code");
	s = fake_sandbox();
	fake_state(s, SANDBOX_READY);
	fake_job_output(s, fake_job(s, 0), VM_STDOUT, "words");
	out = fx_opened(fx, TOP "jobs/j/stdout", O_RDONLY);
	check(fx);
	fake_job_exit(s, fake_job(s, 0), VM_DONE, 0);
	check(fx);
	assert_int_equal(fx_rmdir(fx, TOP "jobs/j"), 0);
	check(fx);
	fx_close(fx, &out);
	fx_close(fx, &in);
}

static void lock(struct fs *fs, const struct file *f, uint64_t owner, uint64_t start, uint64_t last,
		 enum proto_lock_type type, int want)
{
	struct lock_ask ask = {.owner = owner, .start = start, .end = last, .type = type};
	struct req *req = req_new(0);

	nodelock_serve(&fs->locks, handle_get(&fs->handles, f->fh), req, &ask, false, false);
	assert_int_equal(req->err, want);
}

static void test_locks(void **state)
{
	struct fixture *fx = *state;
	struct file f = fx_opened(fx, TOP "in", O_WRONLY), g = fx_opened(fx, TOP "state", O_RDONLY);
	struct second two;

	lock(fx->fs, &f, 1, 10, 19, PROTO_LOCK_EXCLUSIVE, 0);
	lock(fx->fs, &f, 1, 30, 39, PROTO_LOCK_SHARED, 0);
	lock(fx->fs, &f, 2, 35, 44, PROTO_LOCK_SHARED, 0);
	lock(fx->fs, &g, 1, 0, INT64_MAX, PROTO_LOCK_EXCLUSIVE, 0);
	begin(&two, fx);
	end(&two);
	take_over(fx, &two);
	lock(two.fs, &f, 3, 15, 15, PROTO_LOCK_SHARED, -EAGAIN);
	lock(two.fs, &f, 3, 38, 38, PROTO_LOCK_EXCLUSIVE, -EAGAIN);
	lock(two.fs, &f, 3, 38, 38, PROTO_LOCK_SHARED, 0);
	lock(two.fs, &g, 3, 7, 7, PROTO_LOCK_SHARED, -EAGAIN);
	lock(two.fs, &g, 1, 0, INT64_MAX, PROTO_UNLOCK, 0);
	lock(two.fs, &g, 3, 7, 7, PROTO_LOCK_SHARED, 0);
	end(&two);
	fx_close(fx, &f);
	fx_close(fx, &g);
}

static void answer_lookup(struct fixture *fx, uint64_t dir, const char *name, uint64_t node,
			  uint32_t mode)
{
	const struct vm_file_reply reply = {.node = node,
					    .attr = {.ino = 1000 + node, .mode = mode, .nlink = 1}};
	struct req *req = fx_lookup(fx, dir, name);

	fake_answer(fake_sandbox(), 0, &reply);
	assert_int_equal(req->kind, ANSWER_ENTRY);
	(void)fx;
}

static void test_files(void **state)
{
	struct fixture *fx = *state;
	struct second two;
	uint64_t root;

	fx_put(fx, TOP "ctl", "reset\n");
	fx_run(fx, "x");
	root = fx_ino(fx, TOP "files");
	answer_lookup(fx, root, "file", 7, S_IFREG | 0644);
	answer_lookup(fx, root, "file", 7, S_IFREG | 0644);
	answer_lookup(fx, root, "dir", 8, S_IFDIR | 0755);
	take_over(fx, &two);
	assert_int_equal(fake_held, 2);
	assert_int_equal(fake_held_lookups, 3);
	assert_int_equal(fx_demo(fx)->files->nodes.n, 2);
	end(&two);
}

static void test_asleep(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = fx_run(fx, "x");
	const struct file_was *was;
	struct second two;
	struct file f, g;

	fake_exit(s, VM_DONE, 0);
	assert_int_equal(fx_put(fx, TOP "ctl", "sleep\n"), 0);
	check(fx); /* it is being saved */
	fake_saved(s, fake_saved_new(100, true), NULL);
	fake_settle();
	fx_expect(fx, TOP "state", "asleep\n");
	check(fx);
	fake_numbers = 30;
	f = fx_opened(fx, TOP "files/d/b", O_RDONLY);
	fake_numbers = 0;
	g = fx_opened(fx, TOP "files/a.txt", O_RDONLY);
	lock(fx->fs, &f, 1, 0, 9, PROTO_LOCK_SHARED, 0);
	take_over(fx, &two);
	was = handle_get(&two.fs->handles, f.fh)->was; /* where that is */
	assert_string_equal(was->path, "d/b");
	assert_int_equal(was->number, 31);
	assert_int_equal(was->size, 5);
	assert_int_equal(was->mtime.tv_sec, 1700000003);
	lock(two.fs, &g, 2, 0, 9, PROTO_LOCK_EXCLUSIVE, -EAGAIN); /* it is the same file */
	lock(two.fs, &f, 1, 0, 9, PROTO_UNLOCK, 0);
	lock(two.fs, &g, 2, 0, 9, PROTO_LOCK_EXCLUSIVE, 0);
	end(&two);
	fx_release(fx, &f);
	fx_release(fx, &g);
}

/* Of which each piece is another one. */
static void write_much(struct sandbox *s, size_t n)
{
	static unsigned piece;
	char block[8192];

	for (; n; n -= sizeof(block)) {
		memset(block, (char)piece++, sizeof(block));
		fake_output_bytes(s, VM_STDOUT, block, sizeof(block));
	}
}

static void expect_much(struct fs *fs, size_t n)
{
	const struct spool *sp = run_spool(session_find(fs, 0, "demo")->active, RUN_STDOUT);
	char byte;

	assert_int_equal(sp->len, n);
	for (size_t i = 0; i < n; i += 4096) {
		assert_int_equal(spool_read(sp, &fs->depot, i, &byte, 1), 1);
		assert_int_equal((unsigned char)byte, (unsigned char)(i / 8192));
	}
}

/* Also while it is being written: the one that did so before may still do it. */
static void test_long_output(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = fx_run(fx, "x");
	struct second two;
	struct fs *fs;

	write_much(s, 256 << 10);
	assert_true(fx->fs->depot.busy);
	go_on(fx, &two, false);
	depot_close(&fx->fs->depot); /* it begins nothing new */
	expect_much(two.fs, 256 << 10);
	clock_work();
	expect_much(two.fs, 256 << 10);
	fs = fx_serve(fx, two.fs);
	assert_int_equal(fx_size(fx, TOP "runs/1/stdout"), 256 << 10);
	write_much(fake_sandbox(), 128 << 10);
	clock_work();
	expect_much(two.fs, 384 << 10);
	fx_serve(fx, fs);
	end(&two);
}

/* Whoever is in the middle of a directory goes on there. */
static void test_a_listing(void **state)
{
	struct fixture *fx = *state;
	struct second two;
	uint64_t root, next = 0;
	struct req *dir, *r;
	size_t pos = 0;
	struct fs *fs;

	fx_asleep(fx);
	root = fx_ino(fx, TOP "files");
	dir = fx_opendir_ino(fx, root);
	check(fx);
	r = fx_readdir_ino(fx, root, dir->fh, 64, 0);
	assert_string_equal(req_dirent(r, &pos, &next), ".");
	check(fx);
	r = fx_readdir_ino(fx, root, dir->fh, 64, next);
	assert_int_equal(r->kind, ANSWER_BUF);
	take_over(fx, &two);
	fs = fx_serve(fx, two.fs);
	r = fx_readdir_ino(fx, root, dir->fh, 4096, next);
	pos = 0;
	assert_string_equal(req_dirent(r, &pos, &next), "..");
	assert_string_equal(req_dirent(r, &pos, &next), "a.txt");
	assert_string_equal(req_dirent(r, &pos, &next), "d");
	fx_serve(fx, fs);
	end(&two);
	fx_release_ino(root, dir->fh, true);
}

/* What both streams have written shares blocks with the one that was first. */
static void test_blocks(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = fx_run(fx, "x");
	char words[600];

	write_much(s, 64 << 10);
	clock_work();
	memset(words, 'e', sizeof(words));
	fake_output_bytes(s, VM_STDERR, words, sizeof(words));
	assert_int_equal(run_spool(fx_demo(fx)->active, RUN_BOTH)->nshared, 1);
	check(fx);
	fake_exit(s, VM_DONE, 0);
	clock_work();
	check(fx);
}

/* A sandbox that is gone when the other daemon comes to it. */
static void test_lost(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = fx_run(fx, "x");
	struct buf all = {0}, some = {0};
	struct fdbag fds = {0}, copies = {.owned = true};
	struct record_reader reader;
	struct second two;
	struct record rec;
	struct fs *fs;

	fx_put(fx, TOP "in", "second");
	write_down(fx->fs, &all, &fds);
	reader = record_reader(all.data, all.len);
	for (const unsigned char *at = reader.at; record_next(&reader, &rec) > 0; at = reader.at)
		if (rec.kind != HANDOVER_SANDBOX)
			assert_int_equal(buf_append(&some, at, (size_t)(reader.at - at)), 0);
	begin(&two, fx);
	(void)fdbag_put(&copies, fds.n ? dup(fds.fd[0]) : -1);
	assert_int_equal(load(&two, &some, &copies), 0);
	fs = fx_serve(fx, two.fs);
	handover_go(two.fs);
	fx_expect(fx, TOP "state", "closed\n");
	fx_expect(fx, TOP "runs/1/state", "lost\n");
	fx_expect(fx, TOP "runs/2/state", "refused\n");
	fx_expect_error(fx, "python/demo", "agent-lost");
	fx_serve(fx, fs);
	end(&two);
	fdbag_clear(&fds);
	fdbag_clear(&copies);
	buf_clear(&all);
	buf_clear(&some);
	fake_exit(s, VM_DONE, 0);
}

/* Templates keep the numbers that they had, whatever the configuration's order is now; none may be missing. */
static void test_templates(void **state)
{
	struct fixture *fx = *state;
	struct conf_template tmp = fx->conf.template[0];
	struct buf out = {0};
	struct fdbag fds = {0}, copies = {.owned = true};
	struct second two;
	uint64_t demo = fx_ino(fx, "python/demo");
	struct fs *fs;

	write_down(fx->fs, &out, &fds);
	begin(&two, fx);
	two.conf.template[0] = two.conf.template[1];
	two.conf.template[1] = tmp;
	(void)fdbag_put(&copies, fds.n ? dup(fds.fd[0]) : -1);
	assert_int_equal(load(&two, &out, &copies), 0);
	fs = fx_serve(fx, two.fs);
	assert_int_equal(fx_ino(fx, "python/demo"), demo);
	fx_serve(fx, fs);
	end(&two);
	begin(&two, fx);
	two.conf.ntemplates = 1;
	assert_int_equal(load(&two, &out, &copies), -ENOENT);
	end(&two);
	fdbag_clear(&fds);
	fdbag_clear(&copies);
	buf_clear(&out);
}

/* An image was removed that had brought a template along: that is there still for its sessions, also for the next daemon. */
static void test_template_gone(void **state)
{
	struct fixture *fx = *state;
	const char *name = fx->conf.template[1].name;
	struct buf out = {0};
	struct fdbag fds = {0};
	char path[100];

	fx->conf.template[1].of_image = true;
	snprintf(path, sizeof(path), "%s/old", name);
	assert_int_equal(fx_mkdir(fx, path), 0);
	write_down(fx->fs, &out, &fds);
	for (unsigned i = 0; i < 2; i++) {
		struct fdbag copies = {.owned = true};
		struct buf again = {0};
		struct fdbag kept = {0};
		struct second two;
		struct fs *fs;

		begin(&two, fx);
		two.conf.ntemplates = 1;
		(void)fdbag_put(&copies, fds.n ? dup(fds.fd[0]) : -1);
		assert_int_equal(load(&two, &out, &copies), 0);
		assert_int_equal(two.conf.ntemplates, 2);
		assert_true(two.conf.template[1].gone && !two.conf.template[0].gone);
		fs = fx_serve(fx, two.fs);
		snprintf(path, sizeof(path), "%s/old/state", name);
		fx_expect(fx, path, "new\n");
		snprintf(path, sizeof(path), "%s/new", name);
		assert_int_equal(fx_mkdir(fx, path), -ENOENT);
		fx_expect_in(fx, "error", "no-such-template");
		fx_expect_in(fx, "error", "was removed");
		assert_int_equal(fx_mkdir(fx, i ? "python/b" : "python/a"), 0);
		write_down(two.fs, &again, &kept);
		fx_serve(fx, fs);
		end(&two);
		free(two.conf.template[1].name);
		settings_clear(&two.conf.template[1].settings);
		buf_clear(&out);
		fdbag_clear(&kept);
		fdbag_clear(&copies);
		out = again;
	}
	fdbag_clear(&fds);
	buf_clear(&out);
	fx->conf.template[1].of_image = false;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		handover_test(test_nothing),	   handover_test(test_places),
		handover_test(test_other_limits),  handover_test(test_handles),
		handover_test(test_limits),	   handover_test(test_generations),
		handover_test(test_standing),	   handover_test(test_jobs),
		handover_test(test_locks),	   handover_test(test_files),
		handover_test(test_asleep),	   handover_test(test_long_output),
		handover_test(test_blocks),	   handover_test(test_lost),
		handover_test(test_template_gone), handover_test(test_templates),
		handover_test(test_a_listing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
