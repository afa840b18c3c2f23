/* SPDX-License-Identifier: Apache-2.0 */
/* One run: the order of its two streams, what is kept, and what a full disk leaves. */
/* modules: tests/unit/bed.c */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>

#include "bed.h"

#define TOP "python/demo/"

static void test_names(void **state)
{
	(void)state;
	assert_string_equal(run_state_str(RUN_QUEUED), "queued");
	assert_string_equal(run_state_str(RUN_TIMEOUT), "timeout");
	assert_string_equal(run_state_str(RUN_REFUSED), "refused");
}

/* Whatever is written when, `output` has all of it in its order, in memory and on disk. */
static void test_merged(void **state)
{
	struct bed *b = *state;
	static const size_t sizes[] = {1, 100, 5000, 20000, 70000};
	struct buf both = {0}, one[VM_NSTREAMS] = {{0}, {0}};
	struct sandbox *s = bed_run(b, "x");
	char *piece = malloc(70000);

	srandom(7);
	for (int i = 0; i < 60; i++) {
		enum vm_stream st = i < 5 || random() % 2 ? VM_STDOUT : VM_STDERR;
		size_t n = sizes[(size_t)random() % ARRAY_SIZE(sizes)];

		memset(piece, 'A' + i % 50, n);
		fake_output_bytes(s, st, piece, n);
		buf_append(&both, piece, n);
		buf_append(&one[st], piece, n);
		assert_int_equal(bed_size(b, TOP "runs/1/output"), both.len);
	}
	assert_string_equal(bed_cat(b, TOP "runs/1/output"), buf_str(&both));
	fake_exit(s, VM_DONE, 0);
	assert_string_equal(bed_cat(b, TOP "output"), buf_str(&both));
	assert_string_equal(bed_cat(b, TOP "stdout"), buf_str(&one[VM_STDOUT]));
	assert_string_equal(bed_cat(b, TOP "stderr"), buf_str(&one[VM_STDERR]));
	assert_int_equal(bed_size(b, TOP "output"), both.len);
	buf_clear(&both);
	buf_clear(&one[0]);
	buf_clear(&one[1]);
	free(piece);
}

static void test_only_stderr(void **state)
{
	struct bed *b = *state;
	struct sandbox *s = bed_run(b, "x");

	fake_output(s, VM_STDERR, "e");
	fake_exit(s, VM_DONE, 0);
	bed_expect(b, TOP "output", "e");
	bed_expect(b, TOP "stdout", "");
	assert_int_equal(bed_size(b, TOP "output"), 1);
}

static void test_bytes_of_any_value(void **state)
{
	struct bed *b = *state;
	struct sandbox *s = bed_run(b, "x");
	char all[256];
	struct file f;
	struct req *r;

	for (unsigned i = 0; i < 256; i++)
		all[i] = (char)i;
	fake_output_bytes(s, VM_STDOUT, all, sizeof(all));
	fake_exit(s, VM_DONE, 0);
	f = bed_opened(b, TOP "stdout", O_RDONLY);
	r = bed_read(b, &f, 1000, 0);
	assert_int_equal(r->size, 256);
	assert_memory_equal(r->data, all, 256);
	bed_close(b, &f);
}

/* The disk is full: the run goes on, what was kept stays, and it is said that there was more. */
static void test_disk_full(void **state)
{
	const struct rlimit small = {64 << 10, RLIM_INFINITY};
	struct bed *b = *state;
	struct sandbox *s = bed_run(b, "x");
	char *block = malloc(40 << 10);
	struct rlimit before;

	memset(block, 'x', 40 << 10);
	getrlimit(RLIMIT_FSIZE, &before);
	signal(SIGXFSZ, SIG_IGN);
	setrlimit(RLIMIT_FSIZE, &small);
	fake_output_bytes(s, VM_STDOUT, block, 40 << 10);
	fake_output_bytes(s, VM_STDOUT, block, 40 << 10);
	fake_output(s, VM_STDOUT, "later");
	setrlimit(RLIMIT_FSIZE, &before);
	fake_exit(s, VM_DONE, 6);
	assert_int_equal(bed_size(b, TOP "stdout"), 40 << 10);
	bed_expect(b, TOP "exit_code", "6\n");
	assert_non_null(strstr(bed_cat(b, TOP "summary"), "on stdout (truncated)"));
	assert_non_null(strstr(bed_cat(b, TOP "status.json"), "\"dropped_bytes\": 40965"));
	free(block);
}

static void test_summaries(void **state)
{
	struct bed *b = *state;

	bed_put(b, TOP "in", "x");
	assert_non_null(strstr(bed_cat(b, TOP "summary"), "run 1: queued for "));
	bed_ready(b);
	bed_put(b, TOP "in", "y");
	assert_non_null(strstr(bed_cat(b, TOP "runs/1/summary"), "run 1: running for "));
	fake_die(fake_sandbox(), "agent-lost");
	bed_expect(b, TOP "runs/1/summary",
		   "run 1: lost, no exit status: the sandbox is gone, nothing on stdout, "
		   "nothing on stderr\n");
	assert_non_null(strstr(bed_cat(b, TOP "summary"), "run 2: refused, it never ran: "));
}

int main(void)
{
#define test(name) cmocka_unit_test_setup_teardown(name, bed_up, bed_down)
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),  test(test_merged),    test(test_only_stderr),
		test(test_bytes_of_any_value), test(test_disk_full), test(test_summaries),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
