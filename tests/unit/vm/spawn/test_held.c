/* SPDX-License-Identifier: Apache-2.0 */
/* What the spawner keeps of the daemon's lasts as long as that needs it, and not longer. */
/* modules: tests/unit/fixture/spawner_fixture.c tests/unit/fixture/free_rules.c */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/unit/fixture/spawner_fixture.h"
#include "vm/spawn/held.h"
#include "vm/base/util.h"

#define SOON_MS 50 /* for what must not happen */

/* Is the other end gone, at once or after a while? */
static bool ended_within(int fd, int ms)
{
	struct pollfd p = {.fd = fd};

	return poll(&p, 1, ms) > 0 && (p.revents & POLLHUP);
}

/* Gives the writing end of a pipe away as the connection. Return: the reading end. */
static int mounted(void)
{
	int p[2];

	assert_int_equal(pipe2(p, O_CLOEXEC), 0);
	assert_int_equal(spawner_mounted(sp, p[1]), 0);
	close(p[1]);
	return p[0];
}

/* It is there until the daemon is not, and is not behind children that take their time, or hang between fork and exec. */
static void connection_of_dead(void **state)
{
	const int fd = mounted();

	(void)state;
	assert_false(ended_within(fd, SOON_MS));
	kill(spawner_fixture_daemon, SIGKILL);
	assert_true(ended_within(fd, patience_ms()));
	close(fd);
}

static void connection_of_unmounted(void **state)
{
	const int fd = mounted();

	(void)state;
	assert_false(ended_within(fd, SOON_MS));
	spawner_unmount(sp);
	assert_true(ended_within(fd, patience_ms()));
	close(fd);
}

/* Sees of its own what it has, and nothing else. */
static unsigned ndone;

static void on_done(struct program *p)
{
	(void)p;
	ndone++;
}

static void not_for_children(void **state)
{
	const int fd = mounted();
	const char *const argv[] = {"/bin/sh", "-c", "exec ls /proc/self/fd", NULL};
	struct program c = {0};

	(void)state;
	ndone = 0;
	assert_int_equal(spawner_fixture_kept(&c, argv, 0, 60000, on_done), 0);
	while (!ndone)
		uv_run(&loop, UV_RUN_ONCE);
	assert_string_equal(c.output, "0\n1\n2\n3\n");
	close(fd);
}

/* ---- the table ---- */

static bool is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

static void table(void **state)
{
	struct held h = {0};
	int fds[4];

	(void)state;
	assert_int_equal(held_add(&h, HELD_CONNECTION, 1, -1), -EBADF);
	for (unsigned i = 0; i < ARRAY_SIZE(fds); i++) {
		fds[i] = dup(STDERR_FILENO);
		assert_int_equal(held_add(&h, HELD_CONNECTION, i % 2, fds[i]), 0);
	}
	held_drop(&h, HELD_CONNECTION, 7);
	assert_int_equal(h.n, 4);
	held_drop(&h, HELD_CONNECTION, 1);
	assert_int_equal(h.n, 2);
	assert_true(is_open(fds[0]) && is_open(fds[2]));
	assert_false(is_open(fds[1]) || is_open(fds[3]));
	held_drop(&h, HELD_CONNECTION, 0);
	assert_int_equal(h.n, 0);
	assert_false(is_open(fds[0]) || is_open(fds[2]));
	free(h.item);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, spawner_fixture_setup, spawner_fixture_teardown)
		T(connection_of_dead),
		T(connection_of_unmounted),
		T(not_for_children),
		cmocka_unit_test(table),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
