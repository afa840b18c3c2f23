/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors that are lent are given to a process that takes over. */
/* modules: tests/unit/fixture/pipes.c vm/base/lent.c vm/base/fdbag.c vm/base/fdpass.c vm/jail/seccomp.c vm/spawn/holder.c */
/* libs: seccomp */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/unit/fixture/pipes.h"
#include "vm/base/fdbag.h"
#include "vm/base/fdpass.h"
#include "vm/base/lent.h"
#include "vm/spawn/holder.h"

#define MANY   50 /* more than one packet has room for */
#define CLOSED 3  /* one of them is not lent any more */

/* Return: 0; or what is wrong. */
static int adopt(int sock, const int *fds)
{
	struct fdbag bag = {0};

	if (lent_adopt(sock, fdbag_set, &bag) < 0)
		return 1;
	for (unsigned i = 0; i < MANY; i++) {
		const int fd = fdbag_take(&bag, i + 1);

		if (i == CLOSED ? fd >= 0 : fd < 0 || lent_put(fd) != i + 1)
			return 2;
		if (i != CLOSED && pipe_number(fd) != pipe_number(fds[i]))
			return 3;
	}
	/* It has no holder, and takes the next free number. */
	return !lent_is_away() || lent_put(sock) != CLOSED + 1 ? 4 : 0;
}

/* By a process that is there still, to its heir, with numbers that stay. @sock: to a holder, or -1. */
static void given(int sock)
{
	int fds[MANY], others[MANY], pair[2], status;
	const bool held = sock >= 0;
	pid_t heir;

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	assert_int_equal(lent_begin(sock), 0);
	for (unsigned i = 0; i < MANY; i++) {
		fds[i] = pipe_new(&others[i]);
		assert_int_equal(lent_put(fds[i]), i + 1);
	}
	lent_close(&fds[CLOSED]);
	lent_committed();
	assert_int_equal(lent_is_away(), !held);
	heir = fork();
	if (heir == 0) {
		close(pair[0]);
		_exit(adopt(pair[1], fds));
	}
	close(pair[1]);
	assert_int_equal(lent_give(pair[0]), 0);
	assert_int_equal(waitpid(heir, &status, 0), heir);
	assert_int_equal(status, 0);
	/* Nobody hears that, and it does not wait. */
	assert_int_equal(lent_give(pair[0]), -EPIPE);
	close(pair[0]);
	for (unsigned i = 0; i < MANY; i++) {
		lent_close(&fds[i]);
		close(others[i]);
	}
}

static void by_one_with_a_holder(void **state)
{
	int control, status;
	const pid_t holder = holder_start(&control);

	(void)state;
	assert_true(holder > 0);
	given(holder_admit(control));
	lent_end();
	close(control);
	assert_int_equal(waitpid(holder, &status, 0), holder);
}

static void by_one_without(void **state)
{
	(void)state;
	given(-1);
	lent_end();
}

/* What is no such thing is not taken, and nothing is lent behind it. */
static void nonsense(void **state)
{
	struct lent_pack packs[2] = {{.n = 1, .number = {5}}, {.n = 1, .number = {5}}};
	struct fdbag bag = {0};
	int pair[2], other, fd = pipe_new(&other);

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	for (unsigned i = 0; i < 2; i++)
		assert_true(fdpass_send(pair[0], &packs[i], sizeof(packs[i]), &fd, 1, 0) > 0);
	close(fd);
	assert_int_equal(lent_adopt(pair[1], fdbag_set, &bag), -EBADMSG);
	fdbag_clear(&bag);
	assert_true(pipe_is_closed(other));
	fd = dup(other);
	assert_int_equal(lent_put(fd), 0);
	close(fd);
	close(pair[0]);
	assert_int_equal(lent_adopt(pair[1], fdbag_set, &bag), -EPIPE);
	close(pair[1]);
	close(other);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(by_one_with_a_holder),
		cmocka_unit_test(by_one_without),
		cmocka_unit_test(nonsense),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
