/* SPDX-License-Identifier: Apache-2.0 */
/* What `isolation` says of machines, before and after QEMU was tried out. */
/* modules: vm */
/* libs: uv crypto jansson seccomp */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "vm/backend/backend.h"
#include "vm/sandbox/internal.h"

static void keep(void *data, const char *key, const char *value)
{
	if (strcmp(key, "microvm") == 0)
		snprintf(data, 128, "%s", value);
}

static void says_what_it_knows(void **state)
{
	static const struct backend_ops machine = {.needs_image = true};
	static struct vm vm = {.backends = {.machine = &machine, .probe.accel = "probing"}};
	char said[128];

	(void)state;
	vm_isolation(&vm, keep, said);
	assert_non_null(strstr(said, "(QEMU, probing)"));
	snprintf(vm.backends.probe.qemu, sizeof(vm.backends.probe.qemu), "10.0.2");
	vm.backends.probe.accel = "kvm";
	vm_isolation(&vm, keep, said);
	assert_non_null(strstr(said, "(QEMU 10.0.2, kvm)"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(says_what_it_knows),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
