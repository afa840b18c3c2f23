/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel says of a request when it is asked by the answer to an interrupt: fs/fuse/devfuse_replay.c relies on that. */
/* modules: tests/unit/fixture/own_mount.c */
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/unit/fixture/own_mount.h"

#define SKIP 77

static char top[] = "/tmp/xsbxfs-probe-XXXXXX";
static int connection;

/* A request, with room for all that follows its header here. */
static struct {
	struct fuse_in_header h;
	char rest[(1u << 20) + 4096];
} request;

static void answer(uint64_t unique, int err, const void *data, size_t len)
{
	char mem[256];
	const struct fuse_out_header h = {
		.len = (uint32_t)(sizeof(h) + len), .error = err, .unique = unique};

	memcpy(mem, &h, sizeof(h));
	if (len)
		memcpy(mem + sizeof(h), data, len);
	assert_int_equal(write(connection, mem, h.len), h.len);
}

static int probe(uint64_t unique)
{
	const struct fuse_out_header h = {.len = sizeof(h), .error = -EAGAIN, .unique = unique | 1};

	return write(connection, &h, sizeof(h)) < 0 ? -errno : 0;
}

static void receive(uint32_t opcode)
{
	assert_true(read(connection, &request, sizeof(request)) >= (ssize_t)sizeof(request.h));
	assert_int_equal(request.h.opcode, opcode);
}

/* Somebody opens the root's only file, and reads. Return: the number of that request. */
static uint64_t until_the_read(void)
{
	const struct fuse_init_out init = {.major = 7, .minor = 31, .max_write = 4096};
	const struct fuse_entry_out entry = {
		.nodeid = 2, .attr = {.ino = 2, .mode = S_IFREG | 0444, .nlink = 1}};
	const struct fuse_open_out opened = {.fh = 1, .open_flags = FOPEN_DIRECT_IO};

	receive(FUSE_INIT);
	answer(request.h.unique, 0, &init, sizeof(init));
	receive(FUSE_LOOKUP);
	answer(request.h.unique, 0, &entry, sizeof(entry));
	receive(FUSE_OPEN);
	answer(request.h.unique, 0, &opened, sizeof(opened));
	receive(FUSE_READ);
	return request.h.unique;
}

static void on_signal(int signum)
{
	(void)signum;
}

static pid_t start_reader(void)
{
	const struct sigaction act = {.sa_handler = on_signal};
	const pid_t pid = fork();
	char path[64], c;
	int fd;

	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	close(connection);
	sigaction(SIGUSR1, &act, NULL);
	snprintf(path, sizeof(path), "%s/file", top);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	_exit(fd >= 0 && read(fd, &c, 1) == -1 && errno == EINTR ? 0 : 1);
}

static void asks_the_kernel(void **state)
{
	const pid_t pid = start_reader();
	const uint64_t unique = until_the_read();
	int status;

	(void)state;
	/* It waits. ENOENT alone would say that it does not; a request that was not interrupted is told apart by EINVAL. */
	assert_int_equal(probe(unique), -EINVAL);
	assert_int_equal(probe(unique + 2), -ENOENT);
	assert_int_equal(kill(pid, SIGUSR1), 0);
	receive(FUSE_INTERRUPT);
	assert_int_equal(((struct fuse_interrupt_in *)(void *)request.rest)->unique, unique);
	/* It waits, was interrupted, and nobody knows any more: it comes again. */
	assert_int_equal(probe(unique), 0);
	receive(FUSE_INTERRUPT);
	assert_int_equal(((struct fuse_interrupt_in *)(void *)request.rest)->unique, unique);
	answer(unique, -EINTR, NULL, 0);
	assert_int_equal(probe(unique), -ENOENT);
	/* An answer that was given is refused likewise. */
	assert_int_equal(
		write(connection,
		      &(struct fuse_out_header){.len = 16, .error = -EINTR, .unique = unique}, 16),
		-1);
	assert_int_equal(errno, ENOENT);
	receive(FUSE_FLUSH);
	answer(request.h.unique, -ENOSYS, NULL, 0);
	receive(FUSE_RELEASE);
	answer(request.h.unique, 0, NULL, 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(asks_the_kernel)};
	int r;

	connection = mkdtemp(top) ? own_mount(top) : -errno;
	if (connection < 0) {
		printf("no mount here: %s\n", strerror(-connection));
		rmdir(top);
		return SKIP;
	}
	alarm(60);
	r = cmocka_run_group_tests(tests, NULL, NULL);
	own_unmount(top, connection);
	rmdir(top);
	return r;
}
