/* SPDX-License-Identifier: Apache-2.0 */
/* One run: the order of its two streams, what is kept, and what a full disk leaves. */
/* modules: tests/unit/fixture/fixture.c */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>

#include "tests/unit/fixture/fixture.h"
#include "tests/unit/fixture/clock_fake.h"

#define TOP "python/demo/"

/* Whatever is written when, `output` has all of it in its order, in memory and on disk. */
static void test_merged(void **state)
{
	struct fixture *fx = *state;
	static const size_t sizes[] = {1, 100, 5000, 20000, 70000};
	struct buf both = {0}, one[VM_NSTREAMS] = {{0}, {0}};
	struct sandbox *s = fx_run(fx, "x");
	char *piece = malloc(70000);

	srandom(7);
	for (int i = 0; i < 60; i++) {
		enum vm_stream st = i < 5 || random() % 2 ? VM_STDOUT : VM_STDERR;
		size_t n = sizes[(size_t)random() % ARRAY_SIZE(sizes)];

		memset(piece, 'A' + i % 50, n);
		fake_output_bytes(s, st, piece, n);
		buf_append(&both, piece, n);
		buf_append(&one[st], piece, n);
		assert_int_equal(fx_size(fx, TOP "runs/1/output"), both.len);
	}
	assert_string_equal(fx_cat(fx, TOP "runs/1/output"), buf_str(&both));
	fake_exit(s, VM_DONE, 0);
	assert_string_equal(fx_cat(fx, TOP "output"), buf_str(&both));
	assert_string_equal(fx_cat(fx, TOP "stdout"), buf_str(&one[VM_STDOUT]));
	assert_string_equal(fx_cat(fx, TOP "stderr"), buf_str(&one[VM_STDERR]));
	assert_int_equal(fx_size(fx, TOP "output"), both.len);
	buf_clear(&both);
	buf_clear(&one[0]);
	buf_clear(&one[1]);
	free(piece);
}

static void test_only_stderr(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = fx_run(fx, "x");

	fake_output(s, VM_STDERR, "e");
	fake_exit(s, VM_DONE, 0);
	fx_expect(fx, TOP "output", "e");
	fx_expect(fx, TOP "stdout", "");
	assert_int_equal(fx_size(fx, TOP "output"), 1);
}

static void some_output(struct sandbox *s, enum vm_stream stream, size_t pieces)
{
	char *piece = malloc(64 << 10);

	memset(piece, 'x', 64 << 10);
	while (pieces--)
		fake_output_bytes(s, stream, piece, 64 << 10);
	free(piece);
}

/* Reads on from where @f stands. Return: bytes read before what ended it, which is left in @ret_err. */
static size_t read_on(struct fixture *fx, struct file *f, int *ret_err)
{
	const uint64_t begin = f->offset;
	struct req *r;

	do {
		r = fx_read(fx, f, 100000, 0);
		f->offset += r->kind == ANSWER_BUF ? r->size : 0;
	} while (r->kind == ANSWER_BUF && r->size);
	*ret_err = r->kind == ANSWER_ERR ? r->err : 0;
	return f->offset - begin;
}

/* The disk is full: the run goes on, what was kept stays, and nobody takes that for all of it. */
static void test_disk_full(void **state)
{
	static const char *const nodes[] = {"stdout", "runs/1/stdout", "output", "runs/1/output"};
	const struct rlimit small = {64 << 10, RLIM_INFINITY};
	const size_t all = (64 << 10) * 50;
	struct fixture *fx = *state;
	struct sandbox *s = fx_run(fx, "x");
	struct rlimit before;
	size_t kept = 0;
	struct file f;
	int err;

	getrlimit(RLIMIT_FSIZE, &before);
	signal(SIGXFSZ, SIG_IGN);
	setrlimit(RLIMIT_FSIZE, &small);
	fake_output(s, VM_STDERR, "e");
	for (int i = 0; i < 50; i++) {
		some_output(s, VM_STDOUT, 1);
		clock_work();
	}
	setrlimit(RLIMIT_FSIZE, &before);
	fx_expect_error(fx, "python/demo", "output-lost");
	assert_false(s->held); /* it may be for good */
	f = fx_opened(fx, TOP "stdout", O_RDONLY);
	kept = read_on(fx, &f, &err); /* and does not wait for more */
	assert_int_equal(err, -EIO);
	assert_true(kept >= SPOOL_WAITING && kept < all);
	fx_close(fx, &f);
	fake_exit(s, VM_DONE, 6);
	for (size_t i = 0; i < ARRAY_SIZE(nodes); i++) {
		char path[64];

		snprintf(path, sizeof(path), TOP "%s", nodes[i]);
		assert_int_equal(fx_size(fx, path), all + (i >= 2));
		f = fx_opened(fx, path, O_RDONLY);
		assert_true(read_on(fx, &f, &err) >= SPOOL_WAITING);
		assert_int_equal(err, -EIO);
		fx_close(fx, &f);
	}
	fx_expect(fx, TOP "stderr", "e");
	fx_expect(fx, TOP "exit_code", "6\n");
	fx_expect_error(fx, "python/demo", "output-lost");
	assert_non_null(strstr(fx_cat(fx, TOP "summary"), " more were lost)"));
	assert_non_null(strstr(fx_cat(fx, TOP "runs/1/status.json"), "\"code\": \"output-lost\""));
	assert_non_null(strstr(fx_cat(fx, TOP "runs/1/status.json"), "File too large"));
}

/* What both have is missing from `output` as soon as it is missing from one of them. */
static void test_hole_of_one(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = fx_run(fx, "x");
	struct file f;
	int err;

	fx->fs->depot.err = -ENOSPC;
	some_output(s, VM_STDOUT, 60);
	fake_output(s, VM_STDERR, "later");
	fake_exit(s, VM_DONE, 0);
	fx->fs->depot.err = 0;
	fx_expect(fx, TOP "stderr", "later");
	assert_int_equal(fx_size(fx, TOP "output"), (64 << 10) * 60 + 5);
	f = fx_opened(fx, TOP "output", O_RDONLY);
	assert_true(read_on(fx, &f, &err) > 0);
	assert_int_equal(err, -EIO);
	f.offset = 0;
	assert_int_equal(fx_read(fx, &f, 4096, FX_CACHED)->size, 4096);
	assert_error(fx_read(fx, &f, 1 << 23, FX_CACHED), -EIO); /* no short one */
	fx_close(fx, &f);
}

/* A disk that hangs holds up who prints, and nothing else; nothing is missing. */
static void test_disk_hangs(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = fx_run(fx, "x");
	struct file f;
	int err;

	some_output(s, VM_STDOUT, 20);
	assert_false(s->held);
	some_output(s, VM_STDOUT, 20);
	assert_true(s->held);
	assert_true(clock_has_work());
	fx_expect(fx, TOP "state", "running\n");
	f = fx_opened(fx, TOP "runs/1/stdout", O_RDONLY);
	assert_int_equal(read_on(fx, &f, &err), (64 << 10) * 40);
	assert_int_equal(err, 0);
	fx_close(fx, &f);
	clock_work();
	assert_false(s->held);
	fake_exit(s, VM_DONE, 0);
	f = fx_opened(fx, TOP "stdout", O_RDONLY);
	assert_int_equal(read_on(fx, &f, &err), (64 << 10) * 40);
	assert_int_equal(err, 0);
	fx_close(fx, &f);
}

/* What is on disk only is read by another thread; who waits for that can be interrupted. */
static void test_read_from_disk(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = fx_run(fx, "x");
	struct req *first, *second, *third;
	struct file f;
	int null = open("/dev/null", O_RDWR | O_CLOEXEC), file;

	some_output(s, VM_STDOUT, 3);
	fake_exit(s, VM_DONE, 0);
	clock_work();
	/* Something that knows no RWF_NOWAIT, as some file systems don't. */
	file = fx->fs->depot.fd;
	fx->fs->depot.fd = null;
	f = fx_opened(fx, TOP "stdout", O_RDONLY);
	f.offset = 100;
	first = fx_read(fx, &f, 1 << 20, 0);
	second = fx_read(fx, &f, 70000, 0);
	third = fx_read(fx, &f, 70000, O_NONBLOCK);
	assert_waits(first);
	assert_waits(second);
	assert_waits(third);
	fx->fs->fetch.job.fd = fx->fs->depot.fd = file;
	req_interrupt(first);
	assert_error(first, -EINTR);
	clock_work();
	assert_int_equal(second->size, 70000);
	assert_int_equal(((const char *)second->data)[69999], 'x');
	assert_int_equal(third->size, 70000);
	fx_close(fx, &f);
	close(null);
}

/* What was kept and can't be read back is an error with words. */
static void test_unreadable(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = fx_run(fx, "x");
	struct file f;

	some_output(s, VM_STDOUT, 3);
	fake_exit(s, VM_DONE, 0);
	clock_work();
	assert_int_equal(ftruncate(fx->fs->depot.fd, 64 << 10), 0);
	f = fx_opened(fx, TOP "stdout", O_RDONLY);
	f.offset = 65000;
	fx_read(fx, &f, 1000, 0);
	clock_work();
	fx_expect_error(fx, "python/demo", "output-unreadable");
	f.offset = 0;
	assert_int_equal(fx_read(fx, &f, 100, 0)->size, 100);
	fx_close(fx, &f);
}

/* Likewise of a job and of a named run, where who reads it looks. */
static void expect_unreadable(struct fixture *fx, const char *dir, const char *words)
{
	char path[64];
	struct file f;

	snprintf(path, sizeof(path), "%s/stdout", dir);
	f = fx_opened(fx, path, O_RDONLY);
	f.offset = 65000;
	fx_read(fx, &f, 1000, 0);
	clock_work();
	fx_expect_error(fx, dir, "output-unreadable");
	snprintf(path, sizeof(path), "%s/error", dir);
	assert_non_null(strstr(fx_cat(fx, path), words));
	fx_close(fx, &f);
}

static void test_unreadable_of_others(void **state)
{
	struct fixture *fx = *state;
	char text[4096 + 1] = {0};
	struct fake_job *j;
	struct sandbox *s;

	memset(text, 'x', sizeof(text) - 1);
	assert_int_equal(fx_mkdir(fx, TOP "jobs/a"), 0);
	assert_int_equal(fx_mkdir(fx, TOP "runs/b"), 0);
	assert_int_equal(fx_put(fx, TOP "jobs/a/in", "a"), 0);
	assert_int_equal(fx_put(fx, TOP "runs/b/in", "b"), 0);
	s = fake_sandbox();
	fake_state(s, SANDBOX_READY);
	j = fake_job(s, 0);
	for (int i = 0; i < 3 * 16; i++) {
		fake_job_output(s, j, VM_STDOUT, text);
		fake_output(s, VM_STDOUT, text);
	}
	fake_job_exit(s, j, VM_DONE, 0);
	fake_exit(s, VM_DONE, 0);
	clock_work();
	assert_int_equal(ftruncate(fx->fs->depot.fd, 0), 0);
	expect_unreadable(fx, TOP "jobs/a", "output of job a that was kept");
	expect_unreadable(fx, TOP "runs/b", "output of run");
	fx_expect(fx, TOP "error", "");
}

static void test_summaries(void **state)
{
	struct fixture *fx = *state;

	fx_put(fx, TOP "in", "x");
	assert_non_null(strstr(fx_cat(fx, TOP "summary"), "run 1: queued for "));
	fx_ready(fx);
	fx_put(fx, TOP "in", "y");
	assert_non_null(strstr(fx_cat(fx, TOP "runs/1/summary"), "run 1: running for "));
	fake_die(fake_sandbox(), PROBLEM_AGENT_LOST);
	fx_expect(fx, TOP "runs/1/summary",
		  "run 1: lost, no exit status: the sandbox is gone, nothing on stdout, "
		  "nothing on stderr\n");
	assert_non_null(strstr(fx_cat(fx, TOP "summary"), "run 2: refused, it never ran: "));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		fx_test(test_merged),
		fx_test(test_only_stderr),
		fx_test(test_disk_full),
		fx_test(test_summaries),
		fx_test(test_hole_of_one),
		fx_test(test_disk_hangs),
		fx_test(test_read_from_disk),
		fx_test(test_unreadable),
		fx_test(test_unreadable_of_others),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
