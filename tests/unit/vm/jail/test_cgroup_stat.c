/* SPDX-License-Identifier: Apache-2.0 */
/* What control groups have counted, in the words of both versions. */
/* modules: vm/jail/cgroup_stat.c vm/base/lent.c vm/base/fdpass.c */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "vm/jail/cgroup_stat.h"

static int file(const char *text)
{
	int fd = memfd_create("cgroup_stat", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	return fd;
}

static void nothing(void **state)
{
	struct cgroup_stat g = CGROUP_STAT_NONE;
	uint64_t ms = 5;

	(void)state;
	assert_int_equal(cgroup_stat_oom_kills(&g), 0);
	assert_false(cgroup_stat_demand_ms(&g, &ms));
	assert_int_equal(ms, 5);
	cgroup_stat_close(&g);
	/* Files of a group that was removed can't be read any more. */
	g.fd[CGROUP_STAT_OOM] = file("");
	g.fd[CGROUP_STAT_CPU] = file("");
	assert_int_equal(cgroup_stat_oom_kills(&g), 0);
	assert_false(cgroup_stat_demand_ms(&g, &ms));
	cgroup_stat_close(&g);
	assert_int_equal(g.fd[CGROUP_STAT_CPU], -1);
}

static void version_1(void **state)
{
	struct cgroup_stat g = CGROUP_STAT_NONE;
	uint64_t ms;

	(void)state;
	g.fd[CGROUP_STAT_OOM] = file("oom_kill_disable 0\nunder_oom 1\noom_kill 3\n");
	g.fd[CGROUP_STAT_CPU] = file("1234567890\n");
	assert_int_equal(cgroup_stat_oom_kills(&g), 3);
	assert_true(cgroup_stat_demand_ms(&g, &ms));
	assert_int_equal(ms, 1234);
	assert_true(cgroup_stat_used_us(&g, &ms));
	assert_int_equal(ms, 1234567);
	/* What was read once is read again. */
	assert_int_equal(cgroup_stat_oom_kills(&g), 3);
	cgroup_stat_close(&g);
}

static void version_2(void **state)
{
	struct cgroup_stat g = CGROUP_STAT_NONE;
	uint64_t ms;

	(void)state;
	g.fd[CGROUP_STAT_OOM] = file("low 0\nhigh 7\nmax 9\noom 8\noom_kill 2\noom_group_kill 1\n");
	g.fd[CGROUP_STAT_CPU] = file("usage_usec 2000000\nuser_usec 1\nsystem_usec 2\n");
	assert_int_equal(cgroup_stat_oom_kills(&g), 2);
	assert_true(cgroup_stat_demand_ms(&g, &ms));
	assert_int_equal(ms, 2000);
	g.fd[CGROUP_STAT_WAIT] = file("some avg10=0.10 avg60=1.00 avg300=2.00 total=500000\n"
				      "full avg10=0.00 avg60=0.00 avg300=0.00 total=9000000\n");
	assert_true(cgroup_stat_demand_ms(&g, &ms));
	assert_int_equal(ms, 2500);
	assert_true(cgroup_stat_used_us(&g, &ms)); /* what it waited for it has not used */
	assert_int_equal(ms, 2000000);
	cgroup_stat_close(&g);
}

static void nonsense(void **state)
{
	struct cgroup_stat g = CGROUP_STAT_NONE;
	uint64_t ms;

	(void)state;
	g.fd[CGROUP_STAT_OOM] = file("xoom_kill 3\noom_kill many\n");
	g.fd[CGROUP_STAT_CPU] = file("what\n");
	g.fd[CGROUP_STAT_WAIT] = file("some\n");
	assert_int_equal(cgroup_stat_oom_kills(&g), 0);
	assert_true(cgroup_stat_demand_ms(&g, &ms));
	assert_int_equal(ms, 0);
	cgroup_stat_close(&g);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing),
		cmocka_unit_test(version_1),
		cmocka_unit_test(version_2),
		cmocka_unit_test(nonsense),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
