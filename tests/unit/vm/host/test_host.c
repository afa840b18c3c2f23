/* SPDX-License-Identifier: Apache-2.0 */
/* What the host has: the kernel's texts, also those that make no sense, and limits of groups. */
/* modules: vm/host/host.c vm/base/cgroups.c vm/base/path.c tests/unit/fixture/host_fixture.c */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/unit/fixture/host_fixture.h"
#include "vm/host/host.h"
#include "vm/base/util.h"

static int setup(void **state)
{
	if (host_fixture_setup(state) < 0)
		return -1;
	put("/proc/meminfo", "MemTotal:        8388608 kB\nMemFree:          100000 kB\n"
			     "MemAvailable:    4194304 kB\nSwapTotal: 0 kB\n");
	return 0;
}

static struct host_reading reading(void)
{
	struct host_reading r;
	struct host h;

	assert_int_equal(host_open(&h, root), 0);
	host_read(&h, &r);
	host_close(&h);
	return r;
}

/* ---- texts ---- */

static void meminfo(void **state)
{
	uint64_t kib = 7;

	(void)state;
	assert_int_equal(
		host_parse_meminfo("MemTotal:  12 kB\nMemAvailable:\t3 kB\n", "MemAvailable", &kib),
		0);
	assert_int_equal(kib, 3);
	assert_int_equal(host_parse_meminfo("XMemTotal: 1 kB\n", "MemTotal", &kib), -ENODATA);
	assert_int_equal(host_parse_meminfo("MemTotal: x kB\n", "MemTotal", &kib), -ENODATA);
	assert_int_equal(host_parse_meminfo("MemTotal: -4 kB\n", "MemTotal", &kib), -ENODATA);
	assert_int_equal(host_parse_meminfo("MemTotal:", "MemTotal", &kib), -ENODATA);
	assert_int_equal(host_parse_meminfo("", "MemTotal", &kib), -ENODATA);
}

static void pressure(void **state)
{
	static const struct {
		const char *text;
		int result;
		unsigned centi;
	} cases[] = {
		{"some avg10=1.00 avg60=0.00 avg300=0.00 total=0\n"
		 "full avg10=12.34 avg60=0.00 avg300=0.00 total=5\n",
		 0, 1234},
		{"full avg10=0.00 avg60=0.00", 0, 0},
		{"full avg10=100.00 avg60", 0, 10000},
		{"full avg10=7\n", 0, 700},
		{"full avg10=7.5\n", 0, 750},
		{"full avg10=7.559 avg60=0", 0, 755},
		{"full avg10=7", 0, 700},
		{"some avg10=50.00 avg60=0.00 avg300=0.00 total=0\n", -ENODATA, 0},
		{"full avg60=50.00\n", -ENODATA, 0},
		{"full avg10=\n", -ENODATA, 0},
		{"full avg10=nan avg60=1", -ENODATA, 0},
		{"full avg10=inf avg60=1", -ENODATA, 0},
		{"full avg10=-1.00 avg60=1", -ENODATA, 0},
		{"full avg10=99999999999 avg60=1", -ENODATA, 0},
		{"full avg10=1,5 avg60=1", -ENODATA, 0},
		{"full avg10=1.5x avg60=1", -ENODATA, 0},
		{"xfull avg10=1.5 avg60=1", -ENODATA, 0},
		{"", -ENODATA, 0},
		{"\n\n\n", -ENODATA, 0},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		unsigned centi = 4711;

		print_message("%zu\n", i);
		assert_int_equal(host_parse_pressure(cases[i].text, &centi), cases[i].result);
		assert_int_equal(centi, cases[i].result ? 4711 : cases[i].centi);
	}
}

static void limit(void **state)
{
	uint64_t n;

	(void)state;
	assert_int_equal(host_parse_limit("max\n", &n), 0);
	assert_true(n == UINT64_MAX);
	assert_int_equal(host_parse_limit("1048576\n", &n), 0);
	assert_true(n == 1048576);
	assert_int_equal(host_parse_limit("9223372036854771712\n", &n), 0);
	assert_true(n == UINT64_MAX);
	assert_int_equal(host_parse_limit("99999999999999999999999\n", &n), 0);
	assert_true(n == UINT64_MAX);
	assert_int_equal(host_parse_limit("-1\n", &n), -ENODATA);
	assert_int_equal(host_parse_limit("maximum\n", &n), -ENODATA);
	assert_int_equal(host_parse_limit("12 kB\n", &n), -ENODATA);
	assert_int_equal(host_parse_limit("\n", &n), -ENODATA);
	assert_int_equal(host_parse_limit("", &n), -ENODATA);
}

/* ---- readings ---- */

static void plain(void **state)
{
	struct host_reading r = reading();

	(void)state;
	assert_int_equal(r.total_mb, 8192);
	assert_int_equal(r.available_mb, 4096);
	assert_int_equal(r.limited_groups, 0);
	assert_true(r.pressure == HOST_PRESSURE_UNKNOWN); /* nobody says */
	put("/proc/pressure/memory", "some avg10=9.00\nfull avg10=3.50 avg60=0.00\n");
	assert_int_equal(reading().pressure, 350);
	put("/proc/pressure/memory", "what is this?\n");
	assert_true(reading().pressure == HOST_PRESSURE_UNKNOWN);
	put("/proc/pressure/memory", "");
	assert_true(reading().pressure == HOST_PRESSURE_UNKNOWN);
}

static void nonsense(void **state)
{
	struct host_reading r;

	(void)state;
	put("/proc/meminfo", "no such thing\n");
	put("/proc/self/cgroup", "::\n0\n:\n\n0::\n5:memory\n");
	put("/proc/self/mountinfo", "\n - \n1 2 3 - cgroup2\n1 2 3 4 5 - cgroup2 x y\nx - y z\n");
	r = reading();
	assert_int_equal(r.total_mb, 2048); /* a small machine */
	assert_int_equal(r.available_mb, 2048);
	put("/proc/meminfo", "MemTotal: 1024 kB\nMemAvailable: 4096000 kB\n");
	r = reading();
	assert_int_equal(r.available_mb, 1); /* never more than there is */
}

/* The second generation: every group above counts, and pages that come back are not used up. */
static void unified(void **state)
{
	struct host_reading r;

	(void)state;
	put("/proc/self/cgroup", "0::/user.slice/me\n");
	put("/proc/self/mountinfo",
	    "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n");
	put("/sys/fs/cgroup/user.slice/memory.max", "2147483648\n");
	put("/sys/fs/cgroup/user.slice/memory.current", "1073741824\n");
	put("/sys/fs/cgroup/user.slice/memory.stat", "anon 5\ninactive_file 536870912\n");
	put("/sys/fs/cgroup/user.slice/me/memory.max", "max\n");
	put("/sys/fs/cgroup/user.slice/me/memory.current", "1073741824\n");
	r = reading();
	assert_int_equal(r.total_mb, 2048);
	assert_int_equal(r.available_mb, 1024 + 512);
	assert_int_equal(r.limited_groups, 1);
	put("/sys/fs/cgroup/user.slice/me/memory.high", "1342177280\n");
	put("/sys/fs/cgroup/user.slice/me/memory.pressure", "full avg10=20.00 avg60=0\n");
	put("/proc/pressure/memory", "full avg10=1.00 avg60=0\n");
	r = reading();
	assert_int_equal(r.total_mb, 1280);
	assert_int_equal(r.available_mb, 256);
	assert_int_equal(r.pressure, 2000); /* the worst of all */
	put("/sys/fs/cgroup/user.slice/memory.current", "9999999999\n");
	put("/sys/fs/cgroup/user.slice/memory.stat", "inactive_file x\n");
	assert_int_equal(reading().available_mb, 0);
	put("/sys/fs/cgroup/user.slice/memory.max", "lots\n");
	assert_int_equal(reading().total_mb, 1280); /* no limit that anybody could read */
}

/* The first generation, of which a container sees only its own part. */
static void first_generation(void **state)
{
	struct host_reading r;
	struct host h;

	(void)state;
	put("/proc/self/cgroup",
	    "9:name=systemd:/\n4:memory:/docker/abc\n2:cpu,cpuacct:/docker/abc\n"
	    "0::/\n");
	put("/proc/self/mountinfo",
	    "40 30 0:30 /docker/abc /cg/memory ro - cgroup cgroup rw,memory\n"
	    "41 30 0:31 /docker/abc /cg/cpu,cpuacct ro - cgroup cgroup rw,cpu,cpuacct\n");
	put("/cg/memory/memory.limit_in_bytes", "1073741824\n");
	put("/cg/memory/memory.usage_in_bytes", "805306368\n");
	put("/cg/memory/memory.stat", "inactive_file 1\ntotal_inactive_file 268435456\n");
	r = reading();
	assert_int_equal(r.total_mb, 1024);
	assert_int_equal(r.available_mb, 512);
	put("/cg/cpu,cpuacct/cpu.cfs_quota_us", "50000\n");
	put("/cg/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
	assert_int_equal(host_open(&h, root), 0);
	assert_int_equal(host_cpus(&h), 50);
	put("/cg/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
	assert_true(host_cpus(&h) >= 100);
	host_close(&h);
}

/* A group that the mount does not show has no name there: its top counts, and never a namesake elsewhere. */
static void outside_of_the_mount(void **state)
{
	static const char *const own[] = {"/pod-2/x", "/other", "/../pod/x", "/pod/../x"};
	struct host h;

	(void)state;
	put("/proc/self/mountinfo", "30 23 0:26 /pod /cg rw - cgroup2 cgroup2 rw\n");
	put("/cg/cpu.max", "50000 100000\n");
	put("/cg/x/cpu.max", "25000 100000\n");
	put("/cg-2/x/cpu.max", "10000 100000\n");
	put("/x/cpu.max", "10000 100000\n");
	for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++) {
		char line[64];

		snprintf(line, sizeof(line), "0::%s\n", own[i]);
		put("/proc/self/cgroup", line);
		assert_int_equal(host_open(&h, root), 0);
		assert_int_equal(host_cpus(&h), 50);
		host_close(&h);
	}
	put("/proc/self/cgroup", "0::/pod/x\n");
	assert_int_equal(host_open(&h, root), 0);
	assert_int_equal(host_cpus(&h), 25);
	host_close(&h);
}

static void processors(void **state)
{
	struct host h;
	unsigned all;

	(void)state;
	put("/proc/self/cgroup", "0::/me\n");
	put("/proc/self/mountinfo", "30 23 0:26 / /cg rw - cgroup2 cgroup2 rw\n");
	assert_int_equal(host_open(&h, root), 0);
	all = host_cpus(&h);
	assert_true(all >= 100);
	put("/cg/me/cpu.max", "25000 100000\n");
	assert_int_equal(host_cpus(&h), 25);
	put("/cg/me/cpu.max", "max 100000\n");
	assert_int_equal(host_cpus(&h), all);
	put("/cg/me/cpu.max", "25000 0\n");
	assert_int_equal(host_cpus(&h), all);
	put("/cg/me/cpu.max", "25000\n");
	assert_int_equal(host_cpus(&h), all);
	put("/cg/cpu.max", "0 100000\n");
	assert_int_equal(host_cpus(&h), 1);
	host_close(&h);
}

static void demand(void **state)
{
	uint64_t ms = 0;
	struct host h;

	(void)state;
	put("/proc/77/task/77/schedstat", "1500000000 500000000 12\n");
	put("/proc/77/task/78/schedstat", "1000000 1000000 1\n");
	put("/proc/77/task/79/schedstat", "what\n");
	assert_int_equal(host_open(&h, root), 0);
	assert_int_equal(host_demand_ms(&h, 77, &ms), 0);
	assert_int_equal(ms, 2002);
	/* Children count, and theirs; one that is gone does not. */
	put("/proc/77/task/78/children", "90 91 \n");
	put("/proc/90/task/90/schedstat", "1000000000 0 1\n");
	put("/proc/90/task/90/children", "92 \n");
	put("/proc/92/task/92/schedstat", "0 500000000 1\n");
	assert_int_equal(host_demand_ms(&h, 77, &ms), 0);
	assert_int_equal(ms, 3502);
	/* Those do not count where it is asked what its own threads lacked. */
	assert_int_equal(host_waited_ms(&h, 77, &ms), 0);
	assert_int_equal(ms, 501);
	assert_int_equal(host_waited_ms(&h, 78, &ms), -ENOENT);
	assert_int_equal(host_demand_ms(&h, 78, &ms), -ENOENT);
	put("/proc/80/task/80/schedstat", "\n");
	assert_int_equal(host_demand_ms(&h, 80, &ms), -ENODATA);
	host_close(&h);
}

/* Names are chosen by who has them, and children count, also those that have ended and were waited for. */
static void used(void **state)
{
	const uint64_t tick = 1000000 / (uint64_t)sysconf(_SC_CLK_TCK);
	uint64_t us = 0;
	struct host h;

	(void)state;
	put("/proc/61/stat", "61 (a) R 9 9) S 1 1 1 0 -1 4 5 6 7 8 10 20 3 4 20 0 2 0 9\n");
	put("/proc/61/task/61/schedstat", "1 1 1\n");
	assert_int_equal(host_open(&h, root), 0);
	assert_int_equal(host_used_us(&h, 61, true, &us), 0);
	assert_int_equal(us, 37 * tick);
	put("/proc/61/task/61/children", "62 63 \n");
	put("/proc/62/stat", "62 (b) S 61 1 1 0 -1 4 5 6 7 8 100 0 0 0 20 0 1 0 9\n");
	put("/proc/62/task/62/schedstat", "1 1 1\n");
	put("/proc/62/task/62/children", "64 \n");
	put("/proc/64/stat", "64 (c) S 62 1 1 0 -1 4 5 6 7 8 0 1000 0 0 20 0 1 0 9\n");
	assert_int_equal(host_used_us(&h, 61, true, &us), 0);
	assert_int_equal(us, 1137 * tick);
	assert_int_equal(host_used_us(&h, 61, false, &us), 0);
	assert_int_equal(us, 37 * tick);
	assert_int_equal(host_used_us(&h, 65, true, &us), -ENOENT);
	put("/proc/66/stat", "66 what\n");
	assert_int_equal(host_used_us(&h, 66, true, &us), -ENODATA);
	host_close(&h);
}

/* This host, whatever it is. */
static void real(void **state)
{
	struct host_reading r;
	struct host h;

	(void)state;
	assert_int_equal(host_open(&h, ""), 0);
	host_read(&h, &r);
	assert_true(r.total_mb > 0 && r.available_mb <= r.total_mb);
	assert_true(host_cpus(&h) >= 1);
	host_close(&h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(meminfo),
		cmocka_unit_test(pressure),
		cmocka_unit_test_setup_teardown(used, setup, host_fixture_teardown),
		cmocka_unit_test(limit),
		cmocka_unit_test_setup_teardown(plain, setup, host_fixture_teardown),
		cmocka_unit_test_setup_teardown(nonsense, setup, host_fixture_teardown),
		cmocka_unit_test_setup_teardown(unified, setup, host_fixture_teardown),
		cmocka_unit_test_setup_teardown(first_generation, setup, host_fixture_teardown),
		cmocka_unit_test_setup_teardown(outside_of_the_mount, setup, host_fixture_teardown),
		cmocka_unit_test_setup_teardown(processors, setup, host_fixture_teardown),
		cmocka_unit_test_setup_teardown(demand, setup, host_fixture_teardown),
		cmocka_unit_test(real),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
