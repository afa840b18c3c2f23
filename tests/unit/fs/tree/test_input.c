/* SPDX-License-Identifier: Apache-2.0 */
/* When a run starts, and what the nodes that are written take. */
/* modules: tests/unit/fixture/fixture.c */
#include <errno.h>
#include <signal.h>
#include <sys/wait.h>

#include "tests/unit/fixture/fixture.h"
#include "fs/request/caller.h"
#include "fs/tree/nodes.h"

#define IN "python/demo/in"

static void test_nothing_written(void **state)
{
	struct fixture *fx = *state;

	assert_int_equal(fx_put(fx, IN, ""), 0);
	assert_int_equal(fx_add(fx, IN, ""), 0);
	fx_expect(fx, IN, "");
	assert_int_equal(fx_demo(fx)->last_number, 0);
	assert_int_equal(fake_count(), 0);

	/* Written and taken back. */
	struct file f = fx_opened(fx, IN, O_WRONLY | O_TRUNC);

	assert_int_equal(fx_write(fx, &f, "x"), 0);
	assert_int_equal(fx_ftruncate(fx, &f, 0), 0);
	fx_close(fx, &f);
	assert_int_equal(fx_demo(fx)->last_number, 0);
}

static void test_append(void **state)
{
	struct fixture *fx = *state;
	struct file f, g;

	fx_put(fx, IN, "a = 1\n");
	fx_add(fx, IN, "print(a)\n");
	fx_expect(fx, IN, "print(a)\n"); /* and not the code before once more */
	assert_int_equal(fx_demo(fx)->last_number, 2);

	/* Two at once: each by itself, wherever the other is. */
	f = fx_opened(fx, IN, O_WRONLY | O_APPEND);
	assert_int_equal(fx_write(fx, &f, "f\n"), 0);
	g = fx_opened(fx, IN, O_WRONLY | O_APPEND);
	assert_int_equal(fx_write(fx, &g, "g\n"), 0);
	assert_int_equal(fx_write(fx, &g, "g\n"), 0);
	fx_close(fx, &g);
	fx_expect(fx, "python/demo/runs/3/in", "g\ng\n");
	fx_close(fx, &f);
	fx_expect(fx, "python/demo/runs/4/in", "f\n");
}

static void test_rewrite_in_place(void **state)
{
	struct fixture *fx = *state;
	struct file f;

	fx_put(fx, IN, "print(1)\n");
	f = fx_opened(fx, IN, O_RDWR);
	assert_bytes(fx_read(fx, &f, 100, 0), "print(1)\n");
	f.offset = 6;
	assert_int_equal(fx_write(fx, &f, "2"), 0);
	fx_close(fx, &f);
	fx_expect(fx, IN, "print(2)\n");
	assert_int_equal(fx_demo(fx)->last_number, 2);
	/* Opened for writing, and only read. */
	f = fx_opened(fx, IN, O_RDWR);
	fx_close(fx, &f);
	assert_int_equal(fx_demo(fx)->last_number, 2);
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
	struct fixture *fx = *state;
	struct file f = fx_opened(fx, IN, O_WRONLY | O_TRUNC);
	pid_t killed = killed_child(SIGKILL), fine = killed_child(0);

	assert_true(caller_killed(killed));
	assert_false(caller_killed(fine));
	assert_false(caller_killed(getpid()));
	assert_false(caller_killed(0));
	assert_false(caller_killed(-1));

	assert_int_equal(fx_write(fx, &f, "half"), 0);
	fx->pid = killed;
	assert_int_equal(fx_flush(fx, &f), 0);
	assert_false(front_input_pending(&fx_demo(fx)->front));
	fx_release(fx, &f);
	assert_int_equal(fx_demo(fx)->last_number, 0);

	/* A child that is killed takes nothing from the shell that goes on. */
	fx->pid = fine;
	f = fx_opened(fx, IN, O_WRONLY | O_TRUNC);
	assert_int_equal(fx_write(fx, &f, "one "), 0);
	fx->pid = killed;
	assert_int_equal(fx_flush(fx, &f), 0);
	fx->pid = fine;
	assert_int_equal(fx_write(fx, &f, "two"), 0);
	fx_close(fx, &f);
	fx_expect(fx, IN, "one two");
	waitpid(killed, NULL, 0);
	waitpid(fine, NULL, 0);
	assert_false(caller_killed(killed));
}

/* The kernel keeps size and time of `in` for a moment: it is told when they change and it has not asked for that. */
static void test_what_the_kernel_is_told(void **state)
{
	struct fixture *fx = *state;
	struct reply_fake_dropped dropped = {0};
	const pid_t killed = killed_child(SIGKILL);
	const uint64_t in = fx_ino(fx, IN);
	struct file f, g;

	fx->fs->kernel = (struct kernel *)&dropped;
	fx_put(fx, IN, "before");
	fx_put(fx, IN, "");
	assert_int_equal(dropped.n, 0); /* it has written that itself */
	f = fx_opened(fx, IN, O_WRONLY | O_TRUNC);
	assert_int_equal(fx_write(fx, &f, "half"), 0);
	fx->pid = killed;
	assert_int_equal(fx_flush(fx, &f), 0);
	fx->pid = 0;
	assert_int_equal(fx_size(fx, IN), strlen("before"));
	assert_int_equal(dropped.n, 1);
	assert_int_equal(dropped.ino[0], in);
	fx_release(fx, &f);

	/* Of two writers the one that goes on is shown. */
	f = fx_opened(fx, IN, O_WRONLY | O_TRUNC);
	g = fx_opened(fx, IN, O_WRONLY | O_TRUNC);
	assert_int_equal(fx_write(fx, &f, "first"), 0);
	assert_int_equal(fx_write(fx, &g, "2nd"), 0);
	dropped.n = 0;
	fx_close(fx, &g);
	assert_int_equal(fx_size(fx, IN), strlen("first"));
	assert_int_equal(dropped.n, 1);
	fx_close(fx, &f);
	assert_int_equal(dropped.n, 1);

	/* Written and taken back, which runs nothing. */
	f = fx_opened(fx, IN, O_WRONLY | O_TRUNC);
	assert_int_equal(fx_write(fx, &f, "x"), 0);
	assert_int_equal(fx_ftruncate(fx, &f, 0), 0);
	fx_close(fx, &f);
	assert_int_equal(dropped.n, 2);
	fx->fs->kernel = NULL;
	waitpid(killed, NULL, 0);
}

static void test_refused_code(void **state)
{
	struct fixture *fx = *state;
	struct file f = fx_opened(fx, IN, O_WRONLY | O_TRUNC);
	char *big = malloc(SESSION_CODE_MAX);

	memset(big, '#', SESSION_CODE_MAX);
	assert_int_equal(fx_write_bytes(fx, &f, "a\0b", 3), -EINVAL);
	fx_expect_error(fx, "python/demo", "nul-byte");
	assert_int_equal(fx_write(fx, &f, "fine"), -EINVAL); /* it would be half of a program */
	assert_int_equal(fx_ftruncate(fx, &f, 0), 0);
	assert_int_equal(fx_write_bytes(fx, &f, big, SESSION_CODE_MAX), 0);
	assert_int_equal(fx_write(fx, &f, "x"), -EFBIG);
	fx_expect_error(fx, "python/demo", "code-too-long");
	f.offset = UINT64_MAX / 4;
	assert_int_equal(fx_write(fx, &f, "x"), -EFBIG);
	fx_close(fx, &f);
	assert_int_equal(fx_demo(fx)->last_number, 0); /* what was taken is no whole program */
	f = fx_opened(fx, IN, O_WRONLY | O_TRUNC);
	assert_int_equal(fx_write_bytes(fx, &f, big, SESSION_CODE_MAX), 0);
	fx_close(fx, &f);
	assert_int_equal(fx_size(fx, IN), SESSION_CODE_MAX);

	f = fx_opened(fx, IN, O_WRONLY | O_TRUNC);
	f.offset = 10;
	assert_int_equal(fx_write(fx, &f, "x"), -EINVAL); /* a gap is NUL bytes */
	assert_int_equal(fx_ftruncate(fx, &f, 5), -EINVAL);
	assert_int_equal(fx_ftruncate(fx, &f, 0), 0); /* it starts over */
	f.offset = 0;
	assert_int_equal(fx_write(fx, &f, "fine"), 0);
	fx_close(fx, &f);
	fx_expect(fx, IN, "fine");
	assert_int_equal(fx_demo(fx)->last_number, 2);
	free(big);
}

static void test_sizes_while_writing(void **state)
{
	struct fixture *fx = *state;
	struct file f;
	struct stat st;

	fx_put(fx, IN, "old code\n");
	f = fx_opened(fx, IN, O_WRONLY | O_TRUNC);
	assert_int_equal(fx_write(fx, &f, "new"), 0);
	assert_int_equal(fx_size(fx, IN), 3); /* what a tool compares with what it wrote */
	fx_close(fx, &f);
	assert_int_equal(fx_stat(fx, IN, &st), 0);
	assert_int_equal(st.st_size, 3);
	assert_int_equal(fx_truncate(fx, IN, 0), 0);
	assert_int_equal(fx_size(fx, IN), 0);
	assert_int_equal(fx_truncate(fx, IN, 10), -EINVAL);
	assert_int_equal(fx_demo(fx)->last_number, 2);
}

/* ---- stdin ---- */

static void expect_input(const struct fake_input *in, const char *text, bool eof)
{
	assert_true(in->open);
	assert_int_equal(in->got.len, strlen(text));
	assert_memory_equal(in->got.data, text, in->got.len);
	assert_int_equal(in->eof, eof);
}

static void test_stdin_is_for_one_run(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s;

	fx_put(fx, "python/demo/stdin", "first\n");
	fx_add(fx, "python/demo/stdin", "second\n");
	assert_int_equal(fx_size(fx, "python/demo/stdin"), 13);
	s = fx_run(fx, "input()");
	expect_input(&s->in, "first\nsecond\n", true);
	assert_int_equal(fx_size(fx, "python/demo/stdin"), 0);
	fx_put(fx, IN, "again"); /* queued: without */
	fx_put(fx, "python/demo/stdin", "third\n");
	fake_exit(s, VM_DONE, 0);
	assert_string_equal(s->code, "again");
	assert_false(s->in.open);
	fake_exit(s, VM_DONE, 0);
	fx_run(fx, "more");
	expect_input(&s->in, "third\n", true);
	fake_exit(s, VM_DONE, 0);
	fx_put(fx, "python/demo/stdin", "x");
	fx_put(fx, "python/demo/stdin", ""); /* `> stdin` takes it back */
	fx_run(fx, "end");
	assert_false(s->in.open);
}

static void test_stdin_held_open(void **state)
{
	struct fixture *fx = *state;
	struct file f = fx_opened(fx, "python/demo/stdin", O_WRONLY | O_APPEND);
	struct sandbox *s;

	assert_int_equal(fx_write(fx, &f, "one\n"), 0);
	s = fx_run(fx, "a");
	expect_input(&s->in, "one\n", false);
	assert_int_equal(fx_write(fx, &f, "more\n"), 0);
	expect_input(&s->in, "one\nmore\n", false);
	fake_exit(s, VM_DONE, 0);
	assert_int_equal(fx_write(fx, &f, "lost\n"), -EPIPE); /* nobody reads it */
	fx_run(fx, "b");
	assert_int_equal(fx_write(fx, &f, "two\n"), 0);
	expect_input(&s->in, "two\n", false);
	fx_close(fx, &f);
	expect_input(&s->in, "two\n", true);
	f = fx_opened(fx, "python/demo/stdin", O_WRONLY);
	f.offset = SESSION_STDIN_MAX;
	assert_int_equal(fx_write(fx, &f, "x"), -EFBIG);
	fx_expect_error(fx, "python/demo", "stdin-too-long");
	fx_close(fx, &f);
	assert_int_equal(fx_open(fx, "python/demo/stdin", O_RDWR, &f), -EACCES);
}

/* A run that was refused has taken nothing of it. */
static void test_stdin_and_a_refused_run(void **state)
{
	struct fixture *fx = *state;
	struct file code = fx_opened(fx, IN, O_WRONLY | O_TRUNC),
		    f = fx_opened(fx, "python/demo/stdin", O_WRONLY);

	assert_int_equal(fx_write(fx, &code, "x"), 0);
	assert_int_equal(fx_write(fx, &f, "one"), 0);
	fx_put(fx, "python/demo/ctl", "close\n");
	fx_close(fx, &code);
	assert_int_equal(fx_demo(fx)->last_number, 1);
	assert_int_equal(fx_write(fx, &f, "two"), 0);
	assert_int_equal(fx_size(fx, "python/demo/stdin"), 6);
	fx_close(fx, &f);
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
	struct fixture *fx = *state;
	struct file f = fx_opened(fx, "python/demo/config", O_WRONLY | O_TRUNC);
	char block[4097];

	/* Like cat(1) with a block that ends within a line. */
	memset(block, ' ', sizeof(block));
	put_text(block, "cpus = 2\n#");
	put_text(block + 4092, "\ntim");
	assert_int_equal(fx_write_bytes(fx, &f, block, 4096), 0);
	assert_int_equal(fx_write(fx, &f, "eout_s = 9\n"), 0);
	assert_int_equal(fx_close(fx, &f), 0);
	assert_int_equal(fx_demo(fx)->settings.spec.cpus, 2);
	assert_int_equal(fx_demo(fx)->settings.timeout_s, 9);

	/* A block without the end of any line says nothing yet. */
	f = fx_opened(fx, "python/demo/config", O_WRONLY | O_TRUNC);
	memset(block, '#', sizeof(block));
	assert_int_equal(fx_write_bytes(fx, &f, block, 4096), 0);
	assert_int_equal(fx_demo(fx)->settings.spec.cpus, 2);
	assert_int_equal(fx_write(fx, &f, "\ncpus = 3\n"), 0);
	assert_int_equal(fx_demo(fx)->settings.spec.cpus, 3);
	assert_int_equal(fx_close(fx, &f), 0);

	/* No end of line at all: at the flush. */
	f = fx_opened(fx, "python/demo/config", O_WRONLY | O_TRUNC);
	memset(block, ' ', sizeof(block));
	put_text(block, "cpus = 4");
	assert_int_equal(fx_write_bytes(fx, &f, block, 4096), 0);
	assert_int_equal(fx_close(fx, &f), 0);
	assert_int_equal(fx_demo(fx)->settings.spec.cpus, 4);
}

static void test_config_after_a_refused_write(void **state)
{
	struct fixture *fx = *state;
	struct file f = fx_opened(fx, "python/demo/config", O_WRONLY | O_TRUNC);

	assert_int_equal(fx_write(fx, &f, "cpus = 2\n"), 0);
	assert_int_equal(fx_write(fx, &f, "bad\n"), -EINVAL);
	assert_int_equal(fx_write(fx, &f, "timeout_s = 3\n"),
			 -EINVAL); /* some of it is worse than nothing */
	assert_int_equal(fx_demo(fx)->settings.spec.cpus, 2);
	assert_int_equal(fx_demo(fx)->settings.timeout_s, 30);
	f.offset = 0; /* it starts over */
	assert_int_equal(fx_write(fx, &f, "timeout_s = 3\n"), 0);
	assert_int_equal(fx_demo(fx)->settings.spec.cpus, 1);
	assert_int_equal(fx_demo(fx)->settings.timeout_s, 3);
	assert_int_equal(fx_write(fx, &f, "worse\n"), -EINVAL);
	assert_int_equal(fx_ftruncate(fx, &f, 0), 0);
	f.offset = 0;
	assert_int_equal(fx_write(fx, &f, "cpus = 3\n"), 0);
	assert_int_equal(fx_demo(fx)->settings.spec.cpus, 3);
	assert_int_equal(fx_demo(fx)->settings.timeout_s, 30);
	assert_int_equal(fx_close(fx, &f), 0);
}

/* The first blocks of a text whose rest has no room are no text. */
static void test_config_too_long(void **state)
{
	struct fixture *fx = *state;
	struct file f = fx_opened(fx, "python/demo/config", O_WRONLY | O_TRUNC);
	char block[4096];
	int e = 0;

	memset(block, '\n', sizeof(block));
	put_text(block, "cpus = 2\n");
	for (size_t n = 0; e == 0; n += sizeof(block)) {
		assert_true(n <= SETTINGS_TEXT_MAX);
		e = fx_write_bytes(fx, &f, block, sizeof(block));
	}
	assert_int_equal(e, -EFBIG);
	fx_expect_error(fx, "python/demo", "too-long");
	assert_int_equal(fx_close(fx, &f), 0);
	assert_int_equal(fx_demo(fx)->settings.spec.cpus, 1);
	assert_int_equal(fx_put(fx, "python/demo/config", "cpus = 2\n"), 0);
	fx_expect(fx, "python/demo/error", "");
}

static void test_dead_session(void **state)
{
	struct fixture *fx = *state;
	struct file in = fx_opened(fx, IN, O_WRONLY | O_TRUNC),
		    input = fx_opened(fx, "python/demo/stdin", O_WRONLY),
		    config = fx_opened(fx, "python/demo/config", O_WRONLY),
		    ctl = fx_opened(fx, "python/demo/ctl", O_WRONLY);

	assert_int_equal(fx_write(fx, &in, "x"), 0);
	assert_int_equal(fx_rmdir(fx, "python/demo"), 0);
	assert_int_equal(fx_write(fx, &in, "y"), -ESTALE);
	assert_int_equal(fx_write(fx, &input, "y"), -ESTALE);
	assert_int_equal(fx_write(fx, &config, "cpus = 2\n"), -ESTALE);
	assert_int_equal(fx_write(fx, &ctl, "close\n"), -ESTALE);
	fx_close(fx, &in);
	fx_close(fx, &input);
	fx_close(fx, &config);
	fx_close(fx, &ctl);
	assert_int_equal(fake_count(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		fx_test(test_nothing_written),	       fx_test(test_append),
		fx_test(test_rewrite_in_place),	       fx_test(test_killed_writer),
		fx_test(test_what_the_kernel_is_told), fx_test(test_refused_code),
		fx_test(test_sizes_while_writing),     fx_test(test_stdin_is_for_one_run),
		fx_test(test_stdin_held_open),	       fx_test(test_stdin_and_a_refused_run),
		fx_test(test_config_in_pieces),	       fx_test(test_config_after_a_refused_write),
		fx_test(test_config_too_long),	       fx_test(test_dead_session),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
