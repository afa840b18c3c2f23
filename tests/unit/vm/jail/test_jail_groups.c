/* SPDX-License-Identifier: Apache-2.0 */
/* The jail: where a host has control groups, nothing starts without its limits. */
/* modules: tests/unit/fixture/jail_fixture.c tests/unit/fixture/spawner_fixture.c tests/unit/fixture/free_rules.c */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <cmocka.h>

#include "tests/unit/fixture/jail_fixture.h"
#include "tests/unit/fixture/spawner_fixture.h"
#include "vm/jail/cell.h"
#include "vm/jail/cgroup.h"
#include "vm/base/util.h"

#define LIMIT (32u << 20)

static struct jail_spec limited(void)
{
	struct jail_spec spec = jail_fixture_usual();

	spec.memory = LIMIT;
	spec.pids = 20;
	spec.cpu_percent = 200;
	return spec;
}

static bool holds(const struct jail_fixture_result *r, enum jail_layer layer)
{
	return r->child.report.layer[layer].state == JAIL_HOLDS;
}

/* One that runs with all limits that there are. */
static void run_limited(struct jail_fixture_result *r)
{
	const struct jail_spec spec = limited();

	jail_fixture_run(r, &spec, "true");
}

/* What is looked for, and what was found. */
static struct {
	char name[32];
	const char *file;
	char path[PATH_MAX];
} sought;

static int on_place(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	char file[PATH_MAX + 64];

	(void)st;
	if (type != FTW_D || strcmp(path + ftw->base, sought.name) != 0)
		return 0;
	snprintf(file, sizeof(file), "%s/%s", path, sought.file);
	if (access(file, F_OK) < 0)
		return 0;
	snprintf(sought.path, sizeof(sought.path), "%s", path);
	return 1;
}

/* The spawner's group which has @file. Return: false if there is none. */
static bool find_group(const char *file, char ret_path[PATH_MAX])
{
	/* Of all spawners of this process the number is the same. */
	snprintf(sought.name, sizeof(sought.name), JAIL_GROUP_PREFIX "%08x", jail_instance_id());
	sought.file = file;
	if (nftw("/sys/fs/cgroup", on_place, 16, FTW_PHYS) != 1)
		return false;
	memcpy(ret_path, sought.path, PATH_MAX);
	return true;
}

/* The kernel forgets the groups that were in it a moment after they were removed, and until then some values are
 * refused for their sake. */
static void write_to(const char *dir, const char *file, const char *text)
{
	char path[PATH_MAX + 64];
	ssize_t n = -1;
	int fd;

	snprintf(path, sizeof(path), "%s/%s", dir, file);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	for (int i = 0; n < 0 && i < patience_ms() / 10; i++) {
		if (i > 0)
			usleep(10000);
		n = write(fd, text, strlen(text));
	}
	assert_int_equal(n, strlen(text));
	close(fd);
}

/* Makes the group @dir, with a process that has more memory there than LIMIT. Return: its number. */
static pid_t occupy(const char *dir)
{
	int p[2];
	char byte;
	pid_t pid;

	assert_true(mkdir(dir, 0755) == 0 || errno == EEXIST);
	assert_int_equal(pipe2(p, O_CLOEXEC), 0);
	pid = fork();
	if (pid == 0) {
		void *m;

		write_to(dir, "cgroup.procs", "0");
		/* The sanitizers make mlock() do nothing. */
		m = mmap(NULL, 2 * LIMIT, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_LOCKED, -1, 0);
		if (m == MAP_FAILED)
			_exit(1);
		memset(m, 1, 2 * LIMIT);
		if (write(p[1], "", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	close(p[1]);
	assert_int_equal(read(p[0], &byte, 1), 1);
	close(p[0]);
	return pid;
}

/* A limit that can't be set, although there are such limits, is no reason to do without. */
static void all_or_nothing(void **state)
{
	char group[PATH_MAX], cell[PATH_MAX + 8];
	struct jail_fixture_result r;
	pid_t pid = 0;

	(void)state;
	run_limited(&r);
	assert_int_equal(r.failed, 0);
	if (!holds(&r, JAIL_L_MEMORY))
		skip();
	if (find_group("memory.max", group)) {
		write_to(group, "cgroup.max.descendants", "0");
	} else {
		assert_true(find_group("memory.limit_in_bytes", group));
		snprintf(cell, sizeof(cell), "%s/0", group);
		pid = occupy(cell);
	}
	run_limited(&r);
	if (pid) {
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	} else {
		write_to(group, "cgroup.max.descendants", "max");
	}
	assert_int_equal(r.failed, pid ? -EBUSY : -EAGAIN);
	assert_non_null(strstr(r.step, "its control group memory"));
	run_limited(&r);
	assert_int_equal(r.failed, 0);
	assert_true(holds(&r, JAIL_L_MEMORY) && holds(&r, JAIL_L_PIDS));
}

/* Whoever clears up empty groups takes ours away too. */
static void taken_away(void **state)
{
	static const char *const files[] = {"pids.max", "memory.limit_in_bytes", "cpu.shares",
					    "cgroup.procs"};
	struct jail_fixture_result before, r;
	char group[PATH_MAX];
	bool gone = false;

	(void)state;
	run_limited(&before);
	assert_int_equal(before.failed, 0);
	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		while (find_group(files[i], group) && rmdir(group) == 0)
			gone = true;
	}
	if (!gone)
		skip(); /* there is none, or the daemon is in it */
	for (int i = 0; i < 2; i++) {
		run_limited(&r);
		assert_int_equal(r.failed, 0);
		for (unsigned l = JAIL_L_MEMORY; l <= JAIL_L_CPU; l++)
			assert_int_equal(r.child.report.layer[l].state,
					 before.child.report.layer[l].state);
	}
}

/* What the daemon itself may use is less than what it gives to one: that is no error. */
static void less_above(void **state)
{
	struct jail_fixture_result r;
	char group[PATH_MAX];

	(void)state;
	run_limited(&r);
	assert_int_equal(r.failed, 0);
	if (!holds(&r, JAIL_L_CPU))
		skip();
	if (find_group("cpu.max", group)) {
		write_to(group, "cpu.max", "50000 100000");
	} else {
		assert_true(find_group("cpu.cfs_quota_us", group));
		write_to(group, "cpu.cfs_quota_us", "50000");
	}
	run_limited(&r);
	assert_int_equal(r.failed, 0);
	assert_true(holds(&r, JAIL_L_CPU));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(all_or_nothing, spawner_fixture_setup,
						spawner_fixture_teardown),
		cmocka_unit_test_setup_teardown(taken_away, spawner_fixture_setup,
						spawner_fixture_teardown),
		cmocka_unit_test_setup_teardown(less_above, spawner_fixture_setup,
						spawner_fixture_teardown),
	};

	if (!jail_fixture_possible())
		return 77;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
