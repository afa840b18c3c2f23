/* SPDX-License-Identifier: Apache-2.0 */
/* Packets that a socket had no room for go later, in order, with what came along. */
/* modules: vm/base/unsent.c vm/base/fdpass.c */
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

#include "vm/base/fdpass.h"
#include "vm/base/unsent.h"

#define ALL 1000 /* more than a socket has room for */

static int sock[2];
static struct unsent u;

static int setup(void **state)
{
	(void)state;
	unsent_init(&u);
	return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sock);
}

static int teardown(void **state)
{
	(void)state;
	unsent_clear(&u);
	close(sock[0]);
	close(sock[1]);
	return 0;
}

static void keep(unsigned n, const int *fds, size_t nfds)
{
	assert_int_equal(unsent_keep(&u, &n, sizeof(n), fds, nfds), 0);
}

/* Return: how many came, in order from @from. */
static unsigned hear(unsigned from)
{
	unsigned n, heard = 0;

	while (recv(sock[1], &n, sizeof(n), MSG_DONTWAIT) == sizeof(n))
		assert_int_equal(n, from + heard++);
	return heard;
}

static void in_order(void **state)
{
	unsigned heard = 0, rounds = 0;

	(void)state;
	for (unsigned i = 0; i < ALL; i++)
		keep(i, NULL, 0);
	for (int r = -EAGAIN; r < 0; rounds++) {
		r = unsent_send(&u, sock[0]);
		assert_true(r == 0 || r == -EAGAIN);
		heard += hear(heard);
		assert_int_equal(heard + u.n, ALL);
	}
	assert_int_equal(heard, ALL);
	assert_true(rounds > 1);
	assert_null(unsent_first(&u));
}

/* Return: whether nobody has the writing end of this pipe any more. */
static bool is_over(int end)
{
	struct pollfd p = {.fd = end};

	return poll(&p, 1, 0) == 1 && (p.revents & POLLHUP);
}

/* The caller's he may close; what is dropped, or has gone, is nobody's. */
static void with_descriptors(void **state)
{
	int ends[2][2], fd;
	size_t nfds;
	unsigned n;

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(pipe(ends[i]), 0);
		keep(i, &ends[i][1], 1);
		close(ends[i][1]);
		assert_false(is_over(ends[i][0]));
	}
	assert_int_equal(unsent_first(&u)->nfds, 1);
	unsent_drop(&u);
	assert_true(is_over(ends[0][0]));
	assert_int_equal(unsent_send(&u, sock[0]), 0);
	assert_int_equal(fdpass_receive(sock[1], &n, sizeof(n), &fd, 1, &nfds, 0), sizeof(n));
	assert_int_equal(n, 1);
	assert_int_equal(nfds, 1);
	assert_false(is_over(ends[1][0]));
	close(fd);
	assert_true(is_over(ends[1][0]));
	for (unsigned i = 0; i < 2; i++)
		close(ends[i][0]);
}

/* What can't be sent stays the first; what can't be kept leaves nothing. */
static void in_vain(void **state)
{
	struct rlimit before, few;
	const int fds[] = {STDERR_FILENO, STDERR_FILENO};

	(void)state;
	keep(7, NULL, 0);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	few = (struct rlimit){(rlim_t)dup(STDERR_FILENO) + 1, before.rlim_max};
	close((int)few.rlim_cur - 1);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	assert_int_equal(unsent_keep(&u, "x", 1, fds, 2), -EMFILE);
	assert_int_equal(unsent_keep(&u, "x", 1, fds, 1), 0); /* the one that there is */
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_int_equal(u.n, 2);
	shutdown(sock[1], SHUT_RD);
	assert_int_equal(unsent_send(&u, sock[0]), -EPIPE);
	assert_int_equal(u.n, 2);
	assert_int_equal(unsent_first(&u)->len, sizeof(unsigned));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(in_order, setup, teardown),
		cmocka_unit_test_setup_teardown(with_descriptors, setup, teardown),
		cmocka_unit_test_setup_teardown(in_vain, setup, teardown)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
