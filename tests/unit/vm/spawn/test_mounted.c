/* SPDX-License-Identifier: Apache-2.0 */
/* A daemon that is gone before its spawner has heard that it has mounted leaves no dead mount. */
/* modules: tests/unit/fixture/spawner_fixture.c tests/unit/fixture/free_rules.c tests/unit/fixture/own_mount.c */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/unit/fixture/own_mount.h"
#include "tests/unit/fixture/spawner_fixture.h"
#include "vm/base/mount_table.h"
#include "vm/base/util.h"
#include "vm/spawn/spawner_internal.h"

static char top[] = "/tmp/xsbxfs-unit.XXXXXX", at[64];

/* Has somebody mounted there? */
static bool is_mounted(void)
{
	_cleanup_close_ int fd = open(MOUNT_TABLE, O_RDONLY | O_CLOEXEC);
	_cleanup_free_ char *table = mount_table_read(fd);
	char device[MOUNT_DEVICE_MAX];

	assert_non_null(table);
	return mount_table_at(table, at, device);
}

/* @says: what it says while its spawner does not listen; it has ended when that listens again. */
static void dies(const struct spawner_rules *rules, int connection,
		 void (*says)(struct spawner *sp, int connection))
{
	struct spawner *mounter;
	pid_t guard = spawner_fixture_fork(rules, &mounter);
	const pid_t spawner = spawner_pid(mounter);
	int status;

	assert_true(is_mounted());
	assert_int_equal(kill(spawner, SIGSTOP), 0);
	says(mounter, connection);
	close(steal_fd(&mounter->sock));
	kill(spawner_fixture_daemon, SIGKILL);
	spawner_fixture_killed();
	spawner_stop(mounter); /* which has nobody to tell it */
	assert_int_equal(kill(spawner, SIGCONT), 0);
	assert_int_equal(waitpid(guard, &status, 0), guard);
}

static void nothing(struct spawner *s, int connection)
{
	(void)s;
	(void)connection;
}

static void mounted(struct spawner *s, int connection)
{
	assert_int_equal(spawner_mounted(s, connection), 0);
}

static void refused(struct spawner *s, int connection)
{
	mounted(s, connection);
	spawner_unmount(s);
}

static void leaves_no_dead_mount(void **state)
{
	const struct spawner_rules rules = {.job = free_rules.job, .mountpoint = at};
	int connection;

	(void)state;
	connection = own_mount(at);
	if (connection < 0) {
		print_message("not run: nothing can be mounted here: %s\n", strerror(-connection));
		skip();
	}
	/* What it has not said that it has mounted is not its. */
	dies(&rules, connection, nothing);
	assert_true(is_mounted());
	dies(&rules, connection, mounted);
	assert_false(is_mounted());
	own_unmount(at, connection);
}

static void leaves_none_when_it_is_refused(void **state)
{
	const struct spawner_rules rules = {.job = free_rules.job, .mountpoint = at};
	int connection;

	(void)state;
	connection = own_mount(at);
	if (connection < 0)
		skip();
	dies(&rules, connection, refused);
	assert_false(is_mounted());
	own_unmount(at, connection);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(leaves_no_dead_mount),
		cmocka_unit_test(leaves_none_when_it_is_refused),
	};
	int failed;

	if (!mkdtemp(top))
		return 1;
	snprintf(at, sizeof(at), "%s/mnt", top);
	if (mkdir(at, 0700) < 0)
		return 1;
	failed = cmocka_run_group_tests_name("mounted", tests, NULL, NULL);
	rmdir(at);
	rmdir(top);
	return failed;
}
