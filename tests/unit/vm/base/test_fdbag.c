/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors by number: each arrives once, and none is left open. */
/* modules: vm/base/fdbag.c vm/base/lent.c vm/base/fdpass.c */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "vm/base/fdbag.h"
#include "vm/base/fdpass.h"

static bool is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

static void numbers(void **state)
{
	struct fdbag b = {.owned = true};
	const int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	unsigned n = fdbag_put(&b, fd);

	(void)state;
	assert_int_equal(fdbag_put(&b, -1), 0);
	assert_int_equal(n, 1);
	assert_int_equal(fdbag_take(&b, 0), -1);
	assert_int_equal(fdbag_take(&b, 2), -1);
	assert_int_equal(fdbag_take(&b, n), fd);
	assert_int_equal(fdbag_take(&b, n), -1);
	fdbag_clear(&b);
	assert_true(is_open(fd));
	(void)fdbag_put(&b, fd); /* lent */
	fdbag_clear(&b);
	assert_true(is_open(fd));
	b.owned = true;
	(void)fdbag_put(&b, fd);
	fdbag_clear(&b);
	assert_false(is_open(fd));
}

/* More than fit into one packet. */
static void through_a_socket(void **state)
{
	struct fdbag from = {.owned = true}, to = {0}, more = {0};
	struct stat a, b;
	int sock[2], fd;

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sock), 0);
	for (unsigned i = 0; i < 2 * FDPASS_MAX + 3; i++) {
		int p[2];

		assert_int_equal(pipe(p), 0);
		close(p[1]);
		assert_int_equal(fdbag_put(&from, p[0]), i + 1);
	}
	assert_int_equal(fdbag_send(&from, sock[0]), 0);
	assert_int_equal(fdbag_receive(&to, sock[1], from.n), 0);
	for (unsigned i = 1; i <= from.n; i++) {
		fd = fdbag_take(&to, i);
		assert_true(fd >= 0);
		assert_int_equal(fstat(fd, &a) | fstat(from.fd[i - 1], &b), 0);
		assert_int_equal(a.st_ino, b.st_ino);
		close(fd);
	}
	/* Fewer than were promised. */
	assert_int_equal(fdbag_send(&from, sock[0]), 0);
	close(sock[0]);
	assert_true(fdbag_receive(&more, sock[1], from.n + 1) < 0);
	fdbag_clear(&more);
	fdbag_clear(&from);
	fdbag_clear(&to);
	close(sock[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(numbers),
					   cmocka_unit_test(through_a_socket)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
