/* SPDX-License-Identifier: Apache-2.0 */
/* When a run starts, and what the nodes that are written take. */
/* modules: tests/unit/fixture/fixture.c */
#include <errno.h>
#include <signal.h>
#include <sys/wait.h>

#include "tests/unit/fixture/fixture.h"
#include "fs/tree/input.h"

#define IN "python/demo/in"

static struct session *demo(struct bed *b)
{
	return session_find(b->fs, 0, "demo");
}

static void test_nothing_written(void **state)
{
	struct bed *b = *state;

	assert_int_equal(bed_put(b, IN, ""), 0);
	assert_int_equal(bed_add(b, IN, ""), 0);
	bed_expect(b, IN, "");
	assert_int_equal(demo(b)->last_number, 0);
	assert_int_equal(fake_count(), 0);

	/* Written and taken back. */
	struct file f = bed_opened(b, IN, O_WRONLY | O_TRUNC);

	assert_int_equal(bed_write(b, &f, "x"), 0);
	assert_int_equal(bed_ftruncate(b, &f, 0), 0);
	bed_close(b, &f);
	assert_int_equal(demo(b)->last_number, 0);
}

static void test_append(void **state)
{
	struct bed *b = *state;
	struct file f, g;

	bed_put(b, IN, "a = 1\n");
	bed_add(b, IN, "print(a)\n");
	bed_expect(b, IN, "print(a)\n"); /* and not the code before once more */
	assert_int_equal(demo(b)->last_number, 2);

	/* Two at once: each by itself, wherever the other is. */
	f = bed_opened(b, IN, O_WRONLY | O_APPEND);
	assert_int_equal(bed_write(b, &f, "f\n"), 0);
	g = bed_opened(b, IN, O_WRONLY | O_APPEND);
	assert_int_equal(bed_write(b, &g, "g\n"), 0);
	assert_int_equal(bed_write(b, &g, "g\n"), 0);
	bed_close(b, &g);
	bed_expect(b, "python/demo/runs/3/in", "g\ng\n");
	bed_close(b, &f);
	bed_expect(b, "python/demo/runs/4/in", "f\n");
}

static void test_rewrite_in_place(void **state)
{
	struct bed *b = *state;
	struct file f;

	bed_put(b, IN, "print(1)\n");
	f = bed_opened(b, IN, O_RDWR);
	assert_bytes(bed_read(b, &f, 100, 0), "print(1)\n");
	f.offset = 6;
	assert_int_equal(bed_write(b, &f, "2"), 0);
	bed_close(b, &f);
	bed_expect(b, IN, "print(2)\n");
	assert_int_equal(demo(b)->last_number, 2);
	/* Opened for writing, and only read. */
	f = bed_opened(b, IN, O_RDWR);
	bed_close(b, &f);
	assert_int_equal(demo(b)->last_number, 2);
}

/* Ends up as a zombie with the flags of a process that a signal has killed. */
static pid_t killed_child(int sig)
{
	pid_t pid = fork();
	siginfo_t info;

	if (pid == 0) {
		if (sig)
			raise(sig);
		_exit(0);
	}
	assert_true(pid > 0);
	assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
	return pid;
}

static void test_killed_writer(void **state)
{
	struct bed *b = *state;
	struct file f = bed_opened(b, IN, O_WRONLY | O_TRUNC);
	pid_t killed = killed_child(SIGKILL), fine = killed_child(0);

	assert_true(input_killed(killed));
	assert_false(input_killed(fine));
	assert_false(input_killed(getpid()));
	assert_false(input_killed(0));
	assert_false(input_killed(-1));

	assert_int_equal(bed_write(b, &f, "half"), 0);
	b->pid = killed;
	assert_int_equal(bed_flush(b, &f), 0);
	assert_false(session_input_pending(demo(b)));
	bed_release(b, &f);
	assert_int_equal(demo(b)->last_number, 0);

	/* A child that is killed takes nothing from the shell that goes on. */
	b->pid = fine;
	f = bed_opened(b, IN, O_WRONLY | O_TRUNC);
	assert_int_equal(bed_write(b, &f, "one "), 0);
	b->pid = killed;
	assert_int_equal(bed_flush(b, &f), 0);
	b->pid = fine;
	assert_int_equal(bed_write(b, &f, "two"), 0);
	bed_close(b, &f);
	bed_expect(b, IN, "one two");
	waitpid(killed, NULL, 0);
	waitpid(fine, NULL, 0);
	assert_false(input_killed(killed));
}

static void test_refused_code(void **state)
{
	struct bed *b = *state;
	struct file f = bed_opened(b, IN, O_WRONLY | O_TRUNC);
	char *big = malloc(SESSION_CODE_MAX);

	memset(big, '#', SESSION_CODE_MAX);
	assert_int_equal(bed_write_bytes(b, &f, "a\0b", 3), -EINVAL);
	bed_expect_error(b, "python/demo", "nul-byte");
	assert_int_equal(bed_write(b, &f, "fine"), -EINVAL); /* it would be half of a program */
	assert_int_equal(bed_ftruncate(b, &f, 0), 0);
	assert_int_equal(bed_write_bytes(b, &f, big, SESSION_CODE_MAX), 0);
	assert_int_equal(bed_write(b, &f, "x"), -EFBIG);
	bed_expect_error(b, "python/demo", "code-too-long");
	f.offset = UINT64_MAX / 4;
	assert_int_equal(bed_write(b, &f, "x"), -EFBIG);
	bed_close(b, &f);
	assert_int_equal(demo(b)->last_number, 0); /* what was taken is no whole program */
	f = bed_opened(b, IN, O_WRONLY | O_TRUNC);
	assert_int_equal(bed_write_bytes(b, &f, big, SESSION_CODE_MAX), 0);
	bed_close(b, &f);
	assert_int_equal(bed_size(b, IN), SESSION_CODE_MAX);

	f = bed_opened(b, IN, O_WRONLY | O_TRUNC);
	f.offset = 10;
	assert_int_equal(bed_write(b, &f, "x"), -EINVAL); /* a gap is NUL bytes */
	assert_int_equal(bed_ftruncate(b, &f, 5), -EINVAL);
	assert_int_equal(bed_ftruncate(b, &f, 0), 0); /* it starts over */
	f.offset = 0;
	assert_int_equal(bed_write(b, &f, "fine"), 0);
	bed_close(b, &f);
	bed_expect(b, IN, "fine");
	assert_int_equal(demo(b)->last_number, 2);
	free(big);
}

static void test_sizes_while_writing(void **state)
{
	struct bed *b = *state;
	struct file f;
	struct stat st;

	bed_put(b, IN, "old code\n");
	f = bed_opened(b, IN, O_WRONLY | O_TRUNC);
	assert_int_equal(bed_write(b, &f, "new"), 0);
	assert_int_equal(bed_size(b, IN), 3); /* what a tool compares with what it wrote */
	bed_close(b, &f);
	assert_int_equal(bed_stat(b, IN, &st), 0);
	assert_int_equal(st.st_size, 3);
	assert_int_equal(bed_truncate(b, IN, 0), 0);
	assert_int_equal(bed_size(b, IN), 0);
	assert_int_equal(bed_truncate(b, IN, 10), -EINVAL);
	assert_int_equal(demo(b)->last_number, 2);
}

/* ---- stdin ---- */

static void test_stdin_is_for_one_run(void **state)
{
	struct bed *b = *state;
	struct sandbox *s;

	bed_put(b, "python/demo/stdin", "first\n");
	bed_add(b, "python/demo/stdin", "second\n");
	assert_int_equal(bed_size(b, "python/demo/stdin"), 13);
	s = bed_run(b, "input()");
	assert_int_equal(s->stdin_len, 13);
	assert_memory_equal(s->stdin_data, "first\nsecond\n", 13);
	assert_int_equal(bed_size(b, "python/demo/stdin"), 0);
	bed_put(b, IN, "again"); /* queued: without */
	bed_put(b, "python/demo/stdin", "third\n");
	fake_exit(s, VM_DONE, 0);
	assert_string_equal(s->code, "again");
	assert_null(s->stdin_data);
	fake_exit(s, VM_DONE, 0);
	bed_run(b, "more");
	assert_memory_equal(s->stdin_data, "third\n", 6);
	fake_exit(s, VM_DONE, 0);
	bed_put(b, "python/demo/stdin", "x");
	bed_put(b, "python/demo/stdin", ""); /* `> stdin` takes it back */
	bed_run(b, "end");
	assert_null(s->stdin_data);
}

static void test_stdin_held_open(void **state)
{
	struct bed *b = *state;
	struct file f = bed_opened(b, "python/demo/stdin", O_WRONLY | O_APPEND);
	struct sandbox *s;

	assert_int_equal(bed_write(b, &f, "one\n"), 0);
	s = bed_run(b, "a");
	assert_memory_equal(s->stdin_data, "one\n", 4);
	fake_exit(s, VM_DONE, 0);
	assert_int_equal(bed_write(b, &f, "two\n"), 0);
	bed_run(b, "b");
	assert_int_equal(s->stdin_len, 4);
	assert_memory_equal(s->stdin_data, "two\n", 4);
	bed_close(b, &f);
	f = bed_opened(b, "python/demo/stdin", O_WRONLY);
	f.offset = SESSION_STDIN_MAX;
	assert_int_equal(bed_write(b, &f, "x"), -EFBIG);
	bed_expect_error(b, "python/demo", "stdin-too-long");
	bed_close(b, &f);
	assert_int_equal(bed_open(b, "python/demo/stdin", O_RDWR, &f), -EACCES);
}

/* A run that was refused has taken nothing of it. */
static void test_stdin_and_a_refused_run(void **state)
{
	struct bed *b = *state;
	struct file code = bed_opened(b, IN, O_WRONLY | O_TRUNC),
		    f = bed_opened(b, "python/demo/stdin", O_WRONLY);

	assert_int_equal(bed_write(b, &code, "x"), 0);
	assert_int_equal(bed_write(b, &f, "one"), 0);
	bed_put(b, "python/demo/ctl", "close\n");
	bed_close(b, &code);
	assert_int_equal(demo(b)->last_number, 1);
	assert_int_equal(bed_write(b, &f, "two"), 0);
	assert_int_equal(bed_size(b, "python/demo/stdin"), 6);
	bed_close(b, &f);
}

/* ---- config ---- */

/* Into the middle of a block: without a terminator. */
static void put_text(char *at, const char *text)
{
	while (*text)
		*at++ = *text++;
}

static void test_config_in_pieces(void **state)
{
	struct bed *b = *state;
	struct file f = bed_opened(b, "python/demo/config", O_WRONLY | O_TRUNC);
	char block[4097];

	/* Like cat(1) with a block that ends within a line. */
	memset(block, ' ', sizeof(block));
	put_text(block, "cpus = 2\n#");
	put_text(block + 4092, "\ntim");
	assert_int_equal(bed_write_bytes(b, &f, block, 4096), 0);
	assert_int_equal(bed_write(b, &f, "eout_s = 9\n"), 0);
	assert_int_equal(bed_close(b, &f), 0);
	assert_int_equal(demo(b)->settings.spec.cpus, 2);
	assert_int_equal(demo(b)->settings.timeout_s, 9);

	/* A block without the end of any line says nothing yet. */
	f = bed_opened(b, "python/demo/config", O_WRONLY | O_TRUNC);
	memset(block, '#', sizeof(block));
	assert_int_equal(bed_write_bytes(b, &f, block, 4096), 0);
	assert_int_equal(demo(b)->settings.spec.cpus, 2);
	assert_int_equal(bed_write(b, &f, "\ncpus = 3\n"), 0);
	assert_int_equal(demo(b)->settings.spec.cpus, 3);
	assert_int_equal(bed_close(b, &f), 0);

	/* No end of line at all: at the flush. */
	f = bed_opened(b, "python/demo/config", O_WRONLY | O_TRUNC);
	memset(block, ' ', sizeof(block));
	put_text(block, "cpus = 4");
	assert_int_equal(bed_write_bytes(b, &f, block, 4096), 0);
	assert_int_equal(bed_close(b, &f), 0);
	assert_int_equal(demo(b)->settings.spec.cpus, 4);
}

static void test_config_after_a_refused_write(void **state)
{
	struct bed *b = *state;
	struct file f = bed_opened(b, "python/demo/config", O_WRONLY | O_TRUNC);

	assert_int_equal(bed_write(b, &f, "cpus = 2\n"), 0);
	assert_int_equal(bed_write(b, &f, "bad\n"), -EINVAL);
	assert_int_equal(bed_write(b, &f, "timeout_s = 3\n"), 0);
	assert_int_equal(demo(b)->settings.spec.cpus, 2);
	assert_int_equal(demo(b)->settings.timeout_s, 3);
	f.offset = 0;
	assert_int_equal(bed_write(b, &f, "worse\n"), -EINVAL);
	assert_int_equal(bed_write(b, &f, "cpus = 3\n"), 0);
	assert_int_equal(demo(b)->settings.spec.cpus, 3);
	assert_int_equal(demo(b)->settings.timeout_s, 30);
	assert_int_equal(bed_close(b, &f), 0);
}

/* The first blocks of a text whose rest has no room are no text. */
static void test_config_too_long(void **state)
{
	struct bed *b = *state;
	struct file f = bed_opened(b, "python/demo/config", O_WRONLY | O_TRUNC);
	char block[4096];
	int e = 0;

	memset(block, '\n', sizeof(block));
	put_text(block, "cpus = 2\n");
	for (size_t n = 0; e == 0; n += sizeof(block)) {
		assert_true(n <= SETTINGS_TEXT_MAX);
		e = bed_write_bytes(b, &f, block, sizeof(block));
	}
	assert_int_equal(e, -EFBIG);
	assert_int_equal(bed_close(b, &f), 0);
	assert_int_equal(demo(b)->settings.spec.cpus, 1);
}

static void test_dead_session(void **state)
{
	struct bed *b = *state;
	struct file in = bed_opened(b, IN, O_WRONLY | O_TRUNC),
		    input = bed_opened(b, "python/demo/stdin", O_WRONLY),
		    config = bed_opened(b, "python/demo/config", O_WRONLY),
		    ctl = bed_opened(b, "python/demo/ctl", O_WRONLY);

	assert_int_equal(bed_write(b, &in, "x"), 0);
	assert_int_equal(bed_rmdir(b, "python/demo"), 0);
	assert_int_equal(bed_write(b, &in, "y"), -ESTALE);
	assert_int_equal(bed_write(b, &input, "y"), -ESTALE);
	assert_int_equal(bed_write(b, &config, "cpus = 2\n"), -ESTALE);
	assert_int_equal(bed_write(b, &ctl, "close\n"), -ESTALE);
	bed_close(b, &in);
	bed_close(b, &input);
	bed_close(b, &config);
	bed_close(b, &ctl);
	assert_int_equal(fake_count(), 0);
}

int main(void)
{
#define test(name) cmocka_unit_test_setup_teardown(name, bed_up, bed_down)
	const struct CMUnitTest tests[] = {
		test(test_nothing_written),
		test(test_append),
		test(test_rewrite_in_place),
		test(test_killed_writer),
		test(test_refused_code),
		test(test_sizes_while_writing),
		test(test_stdin_is_for_one_run),
		test(test_stdin_held_open),
		test(test_stdin_and_a_refused_run),
		test(test_config_in_pieces),
		test(test_config_after_a_refused_write),
		test(test_config_too_long),
		test(test_dead_session),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
