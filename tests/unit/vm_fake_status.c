/* SPDX-License-Identifier: Apache-2.0 */
/* The fake behind vm/vm.h: what it says of itself, always the same, and of its number of sandboxes. */
#include "vm/confine.h"
#include "vm_fake.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

struct fake_asked fake_asked;

void vm_store_status(const struct vm *vm, struct vm_store_status *ret_status)
{
	(void)vm;
	*ret_status = (struct vm_store_status){.state = "none"};
}

void vm_status(const struct vm *vm, struct vm_status *ret_status)
{
	(void)vm;
	*ret_status = (struct vm_status){
		.accel = "tcg",
		.accel_why = "a fake has no accelerator",
		.qemu = "7.2",
		.max_vms = 4,
		.running = fake_alive(),
		.started = fake_count(),
	};
}

void vm_admission(struct vm *vm, struct vm_admission *ret_admission)
{
	(void)vm;
	*ret_admission = (struct vm_admission){.places = 4, .running = fake_alive(), .lack = ""};
}

void vm_templates(struct vm *vm, void (*fn)(void *data, const struct vm_template_status *st),
		  void *data)
{
	const struct vm_template_status st = {
		.image = "python",
		.language = "python",
		.memory_mb = 192,
		.cpus = 1,
		.state = "ready",
		.problem = "",
		.packages = "",
		.warmup = "",
		.pool = 1,
		.ready = 1,
	};

	(void)vm;
	fn(data, &st);
}

void vm_prepare(struct vm *vm, const struct sandbox_spec *spec)
{
	(void)vm;
	(void)spec;
}

int vm_offer(struct vm *vm, const struct vm_offer_for *what, const char *packages, vm_offer_fn fn,
	     void *data)
{
	(void)vm;
	(void)what;
	if (fake_asked.fn)
		return -EBUSY;
	snprintf(fake_asked.packages, sizeof(fake_asked.packages), "%s", packages);
	fake_asked.fn = fn;
	fake_asked.data = data;
	return 0;
}

void fake_offer(const char *words, const char *why)
{
	const vm_offer_fn fn = fake_asked.fn;

	assert_non_null(fn);
	fake_asked.fn = NULL;
	fn(fake_asked.data, words, why);
}

const char *vm_image(struct vm *vm, const char *name, const char **ret_why)
{
	(void)vm;
	if (strcmp(name, "python") == 0)
		return "{\"python\": \"3.11.2\"}";
	*ret_why = "there is no such image";
	return NULL;
}

void vm_image_status(struct vm *vm, const char *name, struct vm_image_status *ret_status)
{
	const char *why = "";
	const bool there = vm_image(vm, name, &why) != NULL;

	*ret_status = (struct vm_image_status){
		.state = there ? "ready" : "missing", .step = "", .problem = why};
}

void vm_doctor(struct vm *vm, const struct vm_config *cfg, vm_check_fn fn, void *data)
{
	(void)vm;
	(void)cfg;
	fn(data, "accelerator", VM_WARN, "none", "get one");
}

void confine_tell(void (*line)(void *data, const char *key, const char *value), void *data)
{
	line(data, "daemon.seccomp", "none");
}

void vm_isolation(struct vm *vm, void (*line)(void *data, const char *key, const char *value),
		  void *data)
{
	(void)vm;
	line(data, "microvm", "a machine of its own");
}
