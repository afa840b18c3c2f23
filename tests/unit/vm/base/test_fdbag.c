/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors by number: each arrives once, and none is left open. */
/* modules: vm/base/fdbag.c vm/base/lent.c vm/base/fdpass.c */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>
#include <cmocka.h>

#include "vm/base/fdbag.h"

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

/* By their numbers, in any order; none twice. */
static void set(void **state)
{
	const int fd = open("/dev/null", O_RDONLY | O_CLOEXEC), one = dup(fd), other = dup(fd),
		  again = dup(fd), nobodys = dup(fd), beyond = dup(fd);
	struct fdbag b = {0};

	(void)state;
	assert_int_equal(fdbag_set(&b, 70, one), 0);
	assert_int_equal(fdbag_set(&b, 3, other), 0);
	assert_int_equal(fdbag_set(&b, 3, again), -EBADMSG);
	assert_int_equal(fdbag_set(&b, 0, nobodys), -EBADMSG);
	assert_int_equal(fdbag_set(&b, FDBAG_MAX + 1, beyond), -EBADMSG);
	assert_false(is_open(again) || is_open(nobodys) || is_open(beyond));
	assert_int_equal(fdbag_take(&b, 1), -1);
	assert_int_equal(fdbag_take(&b, 3), other);
	assert_int_equal(fdbag_take(&b, 3), -1);
	assert_true(is_open(one));
	fdbag_clear(&b);
	assert_false(is_open(one));
	assert_true(is_open(other));
	close(other);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(numbers), cmocka_unit_test(set)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
