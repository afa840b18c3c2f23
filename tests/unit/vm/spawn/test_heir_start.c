/* SPDX-License-Identifier: Apache-2.0 */
/* The start of an heir that could not be followed by another one. */
/* modules: tests/unit/fixture/spawner_fixture.c tests/unit/fixture/free_rules.c */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/unit/fixture/spawner_fixture.h"
#include "vm/base/fdpass.h"
#include "vm/spawn/heir.h"
#include "vm/spawn/heir_wire.h"

static void leave_nothing(const void *data)
{
	(void)data;
}

/* As open(2), while the kernel has no file left for a path. */
static bool no_paths;

/* NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name): the C library's are reserved. */
int open(const char *path, int flags, ...)
{
	va_list ap;
	mode_t mode;

	va_start(ap, flags);
	mode = flags & O_CREAT ? va_arg(ap, mode_t) : 0;
	va_end(ap);
	if (no_paths && (flags & O_PATH)) {
		errno = ENFILE;
		return -1;
	}
	return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

/* What could not be started again when it has died does not take the mount over. */
static void no_program(void **state)
{
	struct spawner_rules rules = free_rules;
	struct held held = {0};
	char self[] = "/proc/self/exe", *argv[] = {self, NULL};
	const struct heir_gift gift = {.rules = &rules,
				       .held = &held,
				       .cwd = AT_FDCWD,
				       .program = -1,
				       .estate = -1,
				       .holder = -1,
				       .conf = -1,
				       .leave = leave_nothing};
	const struct heir_ask request = {.magic = HEIR_MAGIC};
	struct sockaddr_un name = {.sun_family = AF_UNIX};
	socklen_t len = sizeof(name);
	int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0),
	    comes = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), fd;
	struct heir_answer a = {0};
	struct heir h;

	(void)state;
	rules.argv = argv;
	assert_int_equal(bind(listener, (struct sockaddr *)&name, sizeof(sa_family_t)), 0);
	assert_int_equal(listen(listener, 1), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)&name, &len), 0);
	heir_init(&h, &rules, listener);
	assert_int_equal(connect(comes, (struct sockaddr *)&name, len), 0);
	fd = open(self, O_RDONLY | O_CLOEXEC);
	assert_int_equal(fdpass_send(comes, &request, sizeof(request), &fd, 1, 0), sizeof(request));
	close(fd);
	no_paths = true;
	fd = heir_start(&h, &gift, 0);
	no_paths = false;
	assert_int_equal(fd, -1);
	assert_int_equal(h.state, HEIR_NONE);
	assert_int_equal(h.program, -1);
	assert_int_equal(recv(comes, &a, sizeof(a), 0), sizeof(a));
	assert_int_equal(a.pid, 0);
	assert_string_equal(a.words, "it could not be started");
	close(comes);
	heir_leave(&h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(no_program)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
