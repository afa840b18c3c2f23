/* SPDX-License-Identifier: Apache-2.0 */
/* Datagrams for systemd: addresses, messages, entries of the journal with any values. */
/* modules: vm/base/systemd.c */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <cmocka.h>

#include "vm/base/systemd.h"
#include "vm/base/util.h"

static char got[8192];

/* One that takes datagrams, at @address. */
static int taker(const char *address)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	memcpy(a.sun_path, address, strlen(address));
	if (*address == '@')
		a.sun_path[0] = '\0';
	assert_true(fd >= 0);
	assert_int_equal(
		bind(fd, (struct sockaddr *)&a,
		     (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(address))),
		0);
	return fd;
}

static size_t take(int fd)
{
	const ssize_t n = recv(fd, got, sizeof(got) - 1, 0);

	assert_true(n >= 0);
	got[n] = '\0';
	return (size_t)n;
}

static void addresses(void **state)
{
	char path[64], name[64], longest[sizeof(((struct sockaddr_un *)0)->sun_path) + 1];
	const char *const all[] = {path, name};

	(void)state;
	snprintf(path, sizeof(path), "/tmp/xsbx-test-systemd.%d", (int)getpid());
	snprintf(name, sizeof(name), "@xsbx-test-systemd.%d", (int)getpid());
	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		_cleanup_close_ int there = taker(all[i]), here = systemd_connect(all[i]);

		assert_true(here >= 0);
		assert_int_equal(systemd_notify(here, "READY=1"), 0);
		take(there);
		assert_string_equal(got, "READY=1");
	}
	unlink(path);
	assert_int_equal(systemd_connect(path), -ENOENT);
	assert_int_equal(systemd_connect("vsock:2:1234"), -EAFNOSUPPORT);
	assert_int_equal(systemd_connect("relative"), -EAFNOSUPPORT);
	assert_int_equal(systemd_connect(""), -EAFNOSUPPORT);
	assert_int_equal(systemd_connect("/"), -EAFNOSUPPORT);
	memset(longest, 'x', sizeof(longest));
	longest[0] = '/';
	longest[sizeof(longest) - 1] = '\0';
	assert_int_equal(systemd_connect(longest), -ENAMETOOLONG);
}

static int ends[2];

static int set_up(void **state)
{
	(void)state;
	return socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, ends);
}

static int tear_down(void **state)
{
	(void)state;
	close(ends[0]);
	close(ends[1]);
	return 0;
}

static void fields(void **state)
{
	const struct systemd_field f[] = {
		{"MESSAGE", "it=works"}, {"NONE", NULL}, {"EMPTY", ""}, {"RUN", "3"}};

	(void)state;
	assert_int_equal(systemd_entry(ends[1], f, ARRAY_SIZE(f)), 0);
	take(ends[0]);
	assert_string_equal(got, "MESSAGE=it=works\nRUN=3\n");
	assert_int_equal(systemd_entry(ends[1], f, SYSTEMD_FIELDS_MAX + 1), -EINVAL);
}

/* A value with a line feed can't begin another field: it has a length. */
static void lines(void **state)
{
	const struct systemd_field f[] = {{"SESSION", "a\nPRIORITY=0\nb"}, {"RUN", "1"}};
	static const char want[] = "SESSION\n\x0e\0\0\0\0\0\0\0a\nPRIORITY=0\nb\nRUN=1\n";

	(void)state;
	assert_int_equal(systemd_entry(ends[1], f, ARRAY_SIZE(f)), 0);
	assert_int_equal(take(ends[0]), sizeof(want) - 1);
	assert_memory_equal(got, want, sizeof(want) - 1);
}

/* Who does not read is not waited for for ever. */
static void full(void **state)
{
	const struct systemd_field f[] = {{"MESSAGE", "x"}};
	int r = 0;

	(void)state;
	for (int i = 0; i < 100000 && r == 0; i++)
		r = systemd_entry(ends[1], f, 1);
	assert_int_equal(r, -EAGAIN);
	assert_int_equal(systemd_notify(ends[1], "WATCHDOG=1"), -EAGAIN);
	take(ends[0]);
	assert_int_equal(systemd_entry(ends[1], f, 1), 0);
	close(ends[0]);
	ends[0] = -1;
	assert_true(systemd_entry(ends[1], f, 1) < 0);
}

static void patience(void **state)
{
	char pid[16];

	(void)state;
	unsetenv("WATCHDOG_PID");
	unsetenv("WATCHDOG_USEC");
	assert_int_equal(systemd_patience_us(), 0);
	setenv("WATCHDOG_USEC", "120000000", 1);
	assert_int_equal(systemd_patience_us(), 120000000);
	setenv("WATCHDOG_PID", "1", 1);
	assert_int_equal(systemd_patience_us(), 0);
	snprintf(pid, sizeof(pid), "%d", (int)getpid());
	setenv("WATCHDOG_PID", pid, 1);
	assert_int_equal(systemd_patience_us(), 120000000);
	setenv("WATCHDOG_USEC", "12x", 1);
	assert_int_equal(systemd_patience_us(), 0);
	setenv("WATCHDOG_USEC", "-1", 1);
	assert_int_equal(systemd_patience_us(), 0);
	setenv("WATCHDOG_USEC", "99999999999999999999999", 1);
	assert_int_equal(systemd_patience_us(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(addresses),
		cmocka_unit_test_setup_teardown(fields, set_up, tear_down),
		cmocka_unit_test_setup_teardown(lines, set_up, tear_down),
		cmocka_unit_test_setup_teardown(full, set_up, tear_down),
		cmocka_unit_test(patience),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
