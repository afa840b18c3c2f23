/* SPDX-License-Identifier: Apache-2.0 */
/* The command line of a machine, emulated and with KVM. */
/* modules: vm/backend/qemu_argv.c */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "vm/backend/qemu_argv.h"

/* The value of an option, by its @n-th use. */
static const char *value(const struct qemu_argv *a, const char *option, unsigned n)
{
	for (size_t i = 1; i < a->argc; i++) {
		if (a->argv[i] && strcmp(a->argv[i], option) == 0 && n-- == 0)
			return a->argv[i + 1];
	}
	return NULL;
}

static const struct qemu_machine machine = {
	.arch = ARCH_X86_64,
	.qemu = "qemu-system-x86_64",
	.version = "10.0.2 (Debian 1:10.0.2)",
	.name = "python-demo",
	.tsc_khz = 2100123,
	.memory_mb = 192,
	.cpus = 2,
};

static void emulated(void **state)
{
	struct qemu_argv a;

	(void)state;
	qemu_argv(&machine, &a);
	assert_string_equal(a.argv[0], "qemu-system-x86_64");
	assert_null(a.argv[a.argc]);
	assert_string_equal(value(&a, "-accel", 0), "tcg,tb-size=128");
	assert_string_equal(value(&a, "-cpu", 0),
			    "max,svm=off,vmx=off,erms=off,fsrm=off,xlevel=0x80000008");
	assert_string_equal(value(&a, "-m", 0), "192");
	assert_string_equal(value(&a, "-smp", 0), "2");
	assert_string_equal(value(&a, "-name", 0), "python-demo");
	assert_non_null(strstr(value(&a, "-append", 0), "tsc_early_khz=2100123"));
	assert_non_null(strstr(value(&a, "-append", 0), "panic=-1"));
	assert_non_null(strstr(value(&a, "-M", 0), "microvm,"));
	assert_non_null(strstr(value(&a, "-M", 0), "acpi=on"));
	assert_non_null(strstr(value(&a, "-drive", 0), "readonly=on"));
	assert_non_null(value(&a, "-no-reboot", 0));
}

/* With KVM only the accelerator, the processor and the clock differ. */
static void with_kvm(void **state)
{
	struct qemu_machine m = machine;
	struct qemu_argv tcg, kvm;

	(void)state;
	qemu_argv(&machine, &tcg);
	m.kvm = true;
	qemu_argv(&m, &kvm);
	assert_int_equal(tcg.argc, kvm.argc);
	assert_string_equal(value(&kvm, "-accel", 0), "kvm");
	assert_string_equal(value(&kvm, "-cpu", 0), "host,svm=off,vmx=off");
	assert_null(strstr(value(&kvm, "-append", 0), "tsc"));
	for (size_t i = 1; i < tcg.argc; i++) {
		const char *option = tcg.argv[i - 1];

		if (strcmp(option, "-accel") != 0 && strcmp(option, "-cpu") != 0 &&
		    strcmp(option, "-append") != 0)
			assert_string_equal(tcg.argv[i], kvm.argv[i]);
	}
}

/* What a version of QEMU gets wrong is not shown to its guests; with KVM there is no emulator. */
static void mistakes(void **state)
{
	static const char *const wrong[] = {"7.2.22 (Debian 1:7.2)", "8.2.0", "9.0.2", "none", ""};
	static const char *const right[] = {"9.1.0", "9.2.1", "10.0.2", "11.0"};
	struct qemu_machine m = machine;
	struct qemu_argv a;

	(void)state;
	for (unsigned i = 0; i < 5; i++) {
		m.version = wrong[i];
		qemu_argv(&m, &a);
		assert_string_equal(value(&a, "-cpu", 0),
				    "max,svm=off,vmx=off,erms=off,fsrm=off,xlevel=0x80000008,avx2="
				    "off,vaes=off,bmi1="
				    "off,bmi2=off,adx=off");
	}
	for (unsigned i = 0; i < 4; i++) {
		m.version = right[i];
		qemu_argv(&m, &a);
		assert_string_equal(value(&a, "-cpu", 0),
				    "max,svm=off,vmx=off,erms=off,fsrm=off,xlevel=0x80000008");
	}
	m.kvm = true;
	m.version = wrong[0];
	qemu_argv(&m, &a);
	assert_string_equal(value(&a, "-cpu", 0), "host,svm=off,vmx=off");
}

/* Our own kernel finds its devices without ACPI, and has no self-tests to be told not to do. */
static void own_kernel(void **state)
{
	struct qemu_machine m = machine;
	struct qemu_argv stock, own;

	(void)state;
	qemu_argv(&machine, &stock);
	m.own_kernel = true;
	qemu_argv(&m, &own);
	assert_int_equal(stock.argc, own.argc);
	assert_non_null(strstr(value(&own, "-M", 0), "acpi=off"));
	assert_non_null(strstr(value(&own, "-append", 0), "reboot=t"));
	assert_null(strstr(value(&stock, "-append", 0), "reboot="));
	for (size_t i = 1; i < stock.argc; i++) {
		const char *option = stock.argv[i - 1];

		if (strcmp(option, "-M") != 0 && strcmp(option, "-append") != 0)
			assert_string_equal(stock.argv[i], own.argv[i]);
	}
}

/* On arm64 the machine, its processor, console and kernel's arguments differ, and nothing else; whatever is asked for. */
static void arm64(void **state)
{
	static const char *const differ[] = {"-M", "-cpu", "-append"};
	struct qemu_machine m = machine;
	struct qemu_argv x86, arm;

	(void)state;
	for (unsigned i = 0; i < 8; i++) {
		m.kvm = i & 1;
		m.network = i & 2;
		m.mode = i & 4 ? MACHINE_RECORD : MACHINE_COLD;
		m.arch = ARCH_X86_64;
		qemu_argv(&m, &x86);
		m.arch = ARCH_ARM64;
		qemu_argv(&m, &arm);
		assert_int_equal(x86.argc, arm.argc);
		assert_string_equal(value(&arm, "-cpu", 0), m.kvm ? "host" : "cortex-a76");
		assert_int_equal(strncmp(value(&arm, "-M", 0), "virt,", 5), 0);
		assert_int_equal(!!strstr(value(&arm, "-M", 0), ",memory-backend=ram"), !!(i & 4));
		assert_non_null(strstr(value(&arm, "-append", 0), "console=ttyAMA0"));
		assert_int_equal(!!strstr(value(&arm, "-append", 0), "mitigations=off"), !m.kvm);
		assert_null(strstr(value(&arm, "-append", 0), "tsc"));
		for (size_t k = 1; k < x86.argc; k++) {
			bool may = false;

			for (size_t d = 0; d < sizeof(differ) / sizeof(differ[0]); d++)
				may |= strcmp(x86.argv[k - 1], differ[d]) == 0;
			if (!may)
				assert_string_equal(x86.argv[k], arm.argv[k]);
		}
	}
}

/* What a machine is to have reaches the agent in it as variables. */
static void variables(void **state)
{
	struct qemu_machine m = machine;
	struct qemu_argv a;

	(void)state;
	for (unsigned i = 0; i < 8; i++) {
		m.kvm = i & 1;
		m.root = i & 2;
		m.packages = i & 4;
		qemu_argv(&m, &a);
		assert_int_equal(!!strstr(value(&a, "-append", 0), " XSBX_ROOT=1"), m.root);
		assert_int_equal(!!strstr(value(&a, "-append", 0), " XSBX_PACKAGES=1"), m.packages);
	}
}

/* Nothing has a path of the host, listens, or reaches a network; the sandbox is on. */
static void closed_world(void **state)
{
	static const char *const never[] = {"-netdev",	"-nic",	 "-net",      "-virtfs", "-fsdev",
					    "-vnc",	"-gdb",	 "-qmp",      "-s",	 "-S",
					    "-pidfile", "-bios", "-daemonize"};
	struct qemu_argv a;

	(void)state;
	qemu_argv(&machine, &a);
	for (size_t i = 0; i < sizeof(never) / sizeof(never[0]); i++)
		assert_null(value(&a, never[i], 0));
	assert_non_null(value(&a, "-nodefaults", 0));
	assert_non_null(value(&a, "-no-user-config", 0));
	assert_string_equal(
		value(&a, "-sandbox", 0),
		"on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny");
	for (size_t i = 1; i < a.argc; i++) {
		assert_null(strstr(a.argv[i], "server"));
		assert_null(strstr(a.argv[i], "path="));
		if (a.argv[i][0] == '/')
			assert_int_equal(strncmp(a.argv[i], "/proc/self/fd/", 14), 0);
	}
	for (unsigned i = 0; i < 3; i++)
		assert_non_null(strstr(value(&a, "-chardev", i), "socket,id="));
	assert_null(value(&a, "-chardev", 3));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(emulated),	cmocka_unit_test(with_kvm),
		cmocka_unit_test(mistakes),	cmocka_unit_test(own_kernel),
		cmocka_unit_test(arm64),	cmocka_unit_test(variables),
		cmocka_unit_test(closed_world),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
