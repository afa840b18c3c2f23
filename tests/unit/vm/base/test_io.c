/* SPDX-License-Identifier: Apache-2.0 */
/* Reads and writes that are done when all of it is done: in pieces, interrupted, cut short. */
/* modules: vm/base/io.c */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "vm/base/io.h"

#define PIECE 1000u
#define MANY  (1u << 20) /* far more than a pipe holds */

static volatile sig_atomic_t interrupted;

static void on_signal(int sig)
{
	(void)sig;
	interrupted = 1;
}

static char byte_at(size_t i)
{
	return (char)(i * 7 + i / 251);
}

/* Until @pid waits for something; the other side of a pipe is all it can wait for here. */
static void await_sleep(pid_t pid)
{
	char path[64], state = 0;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	while (state != 'S') {
		FILE *f = fopen(path, "re");

		if (!f || fscanf(f, "%*d (%*[^)]) %c", &state) != 1)
			_exit(1);
		fclose(f);
		sched_yield();
	}
}

/* Forks somebody who ends with us. */
static pid_t fork_other(void)
{
	const pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	return pid;
}

static void await_other(pid_t pid)
{
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

/* Each piece comes when somebody waits for it and was disturbed. */
static void read_in_pieces(void **state)
{
	char buf[5 * PIECE + 1];
	int p[2];
	pid_t pid;

	(void)state;
	assert_int_equal(pipe2(p, O_CLOEXEC), 0);
	interrupted = 0;
	pid = fork_other();
	if (pid == 0) {
		char piece[PIECE];

		for (unsigned i = 0; i < 5; i++) {
			for (size_t b = 0; b < PIECE; b++)
				piece[b] = byte_at(i * PIECE + b);
			await_sleep(getppid());
			kill(getppid(), SIGUSR1);
			await_sleep(getppid());
			if (write(p[1], piece, PIECE) != PIECE)
				_exit(1);
		}
		_exit(0);
	}
	close(p[1]);
	assert_int_equal(fileio_read(p[0], buf, 5 * PIECE - 1), 0);
	assert_true(interrupted);
	for (size_t i = 0; i < 5 * PIECE - 1; i++)
		assert_true(buf[i] == byte_at(i));
	assert_int_equal(fileio_read(p[0], buf, 0), 0);
	/* One byte is left, and then nothing. */
	assert_int_equal(fileio_read(p[0], buf, 2), -EBADMSG);
	assert_true(buf[0] == byte_at(5 * PIECE - 1));
	assert_int_equal(fileio_read(p[0], buf, 1), -EBADMSG);
	await_other(pid);
	close(p[0]);
}

/* The pipe is full, and a signal ends the write that waits with what it has written. */
static void write_in_pieces(void **state)
{
	char *data = malloc(MANY);
	int p[2];
	pid_t pid;

	(void)state;
	assert_non_null(data);
	for (size_t i = 0; i < MANY; i++)
		data[i] = byte_at(i);
	assert_int_equal(pipe2(p, O_CLOEXEC), 0);
	interrupted = 0;
	pid = fork_other();
	if (pid == 0) {
		char got[4096];
		size_t at = 0;
		ssize_t n;

		close(p[1]);
		for (unsigned i = 0; i < 3; i++) {
			await_sleep(getppid());
			kill(getppid(), SIGUSR1);
		}
		while ((n = read(p[0], got, sizeof(got))) > 0) {
			for (ssize_t i = 0; i < n; i++, at++) {
				if (got[i] != byte_at(at))
					_exit(1);
			}
		}
		_exit(n == 0 && at == MANY ? 0 : 1);
	}
	close(p[0]);
	assert_int_equal(fileio_write(p[1], data, MANY), 0);
	assert_true(interrupted);
	close(p[1]);
	await_other(pid);
	free(data);
}

static void at_a_place(void **state)
{
	const int fd = memfd_create("file", MFD_CLOEXEC);
	char buf[8];

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(fileio_write_at(fd, "world", 5, 6), 0);
	assert_int_equal(fileio_write(fd, "hello", 5), 0);
	assert_int_equal(lseek(fd, 0, SEEK_CUR), 5);
	assert_int_equal(fileio_read_at(fd, buf, 5, 6), 0);
	assert_memory_equal(buf, "world", 5);
	assert_int_equal(fileio_read_at(fd, buf, 5, 3), 0);
	assert_memory_equal(buf, "lo\0wo", 5);
	assert_int_equal(lseek(fd, 0, SEEK_CUR), 5);
	assert_int_equal(fileio_read_at(fd, buf, 6, 6), -EBADMSG);
	assert_int_equal(fileio_read_at(fd, buf, 1, 11), -EBADMSG);
	assert_int_equal(fileio_read_at(fd, buf, 0, 100), 0);
	assert_int_equal(fileio_read(fd, buf, 6), 0);
	assert_memory_equal(buf, "\0world", 6);
	close(fd);
}

static void errors(void **state)
{
	const int full = open("/dev/full", O_RDWR | O_CLOEXEC);
	char buf[4] = "abc";

	(void)state;
	assert_true(full >= 0);
	assert_int_equal(fileio_write(full, buf, 3), -ENOSPC);
	assert_int_equal(fileio_write_at(full, buf, 3, 5), -ENOSPC);
	close(full);
	assert_int_equal(fileio_read(-1, buf, 3), -EBADF);
	assert_int_equal(fileio_read_at(-1, buf, 3, 0), -EBADF);
	assert_int_equal(fileio_write(-1, buf, 3), -EBADF);
	assert_int_equal(fileio_write_at(-1, buf, 3, 0), -EBADF);
	assert_string_equal(buf, "abc");
}

/* Regular files are opened, and nothing is waited for, followed or touched. */
static void only_files(void **state)
{
	char dir[] = "/tmp/fileio.XXXXXX";
	int fd, top;

	(void)state;
	assert_non_null(mkdtemp(dir));
	top = open(dir, O_RDONLY | O_DIRECTORY);
	assert_true(top >= 0);
	close(openat(top, "file", O_WRONLY | O_CREAT, 0600));
	assert_int_equal(mkfifoat(top, "fifo", 0600), 0);
	assert_int_equal(mkdirat(top, "dir", 0700), 0);
	assert_int_equal(symlinkat("file", top, "link"), 0);
	fd = fileio_open(top, "file");
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(fileio_open(top, "fifo"), -EBADMSG);
	assert_int_equal(fileio_open(top, "dir"), -EBADMSG);
	assert_int_equal(fileio_open(top, "link"), -EBADMSG);
	assert_int_equal(fileio_open(top, "nothing"), -ENOENT);
	assert_int_equal(unlinkat(top, "file", 0) | unlinkat(top, "fifo", 0) |
				 unlinkat(top, "link", 0) | unlinkat(top, "dir", AT_REMOVEDIR),
			 0);
	close(top);
	assert_int_equal(rmdir(dir), 0);
}

/* A signal interrupts: what waits is not begun again by the kernel. */
static int setup(void **state)
{
	const struct sigaction act = {.sa_handler = on_signal};

	(void)state;
	return sigaction(SIGUSR1, &act, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(read_in_pieces), cmocka_unit_test(write_in_pieces),
		cmocka_unit_test(at_a_place),	  cmocka_unit_test(errors),
		cmocka_unit_test(only_files),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
