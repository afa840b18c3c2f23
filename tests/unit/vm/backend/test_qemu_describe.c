/* SPDX-License-Identifier: Apache-2.0 */
/* What a snapshot's key is made of: whatever of a machine changes, the text does. */
/* modules: vm/backend/qemu_describe.c vm/backend/qemu_argv.c vm/base/buf.c */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "vm/base/buf.h"
#include "vm/image/digest_job.h"
#include "vm/backend/qemu_argv.h"
#include "vm/backend/backend.h"

/* Files whose checksums are known. */
int images_open(struct images *im, const char *name, struct image *ret_image, const char **ret_why)
{
	(void)im;
	(void)name;
	*ret_why = "";
	*ret_image = (struct image){.kernel = 1, .initrd = 2, .rootfs = 3, .initrd_sha256 = "beef"};
	return 0;
}

int digest_jobs_ask(struct digest_jobs *j, int fd, char ret_hex[DIGEST_HEX])
{
	(void)j;
	snprintf(ret_hex, DIGEST_HEX, "%064d", fd);
	return 0;
}

static char program[] = "qemu";
static struct backends all = {.qemu = program, .probe = {.done = true, .qemu_ok = true}};
static struct backend_spec spec = {.image = "raw", .memory_mb = 192, .cpus = 1};

static char *describe(const char *version, const char *accel)
{
	struct buf out = {.limit = 1 << 20};
	const char *why;
	char *text;

	snprintf(all.probe.qemu, sizeof(all.probe.qemu), "%s", version);
	all.probe.accel = accel;
	assert_int_equal(qemu_describe(&all, &spec, &out, &why), 0);
	text = strdup(buf_str(&out));
	buf_clear(&out);
	assert_non_null(text);
	return text;
}

/* Without the one line, each other QEMU makes another machine; so the line is taken out here. */
static char *without_version(char *text)
{
	char *line = strstr(text, "\nqemu ");

	assert_non_null(line);
	memset(line + 1, ' ', strcspn(line + 1, "\n"));
	return text;
}

static void processor(void **state)
{
	char *old, *fresh, *kvm;

	(void)state;
	old = describe("7.2.22", "tcg");
	fresh = describe("7.2.22", "tcg");
	assert_string_equal(old, fresh);
	assert_non_null(
		strstr(old, "\nmax,svm=off,vmx=off,erms=off,fsrm=off,xlevel=0x80000008,avx2=off"));
	free(fresh);
	/* As long as the other, so that only the processor tells them apart. */
	fresh = describe("10.0.2", "tcg");
	assert_string_not_equal(without_version(old), without_version(fresh));
	kvm = describe("10.0.2", "kvm");
	assert_string_not_equal(fresh, without_version(kvm));
	assert_non_null(strstr(kvm, "\nhost,svm=off,vmx=off"));
	free(old);
	free(fresh);
	free(kvm);
}

/* A snapshot whose system can be changed is not one for those whose can't. */
static void root(void **state)
{
	char *without, *with;

	(void)state;
	without = describe("10.0.2", "kvm");
	spec.root = true;
	with = describe("10.0.2", "kvm");
	spec.root = false;
	assert_string_not_equal(without, with);
	free(without);
	free(with);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(processor), cmocka_unit_test(root)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
