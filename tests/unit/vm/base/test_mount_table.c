/* SPDX-License-Identifier: Apache-2.0 */
/* The mount table: what lies on top, under any name, and of what type it is. */
/* modules: vm/base/mount_table.c vm/base/buf.c */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "vm/base/mount_table.h"

static const char table[] =
	"22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n"
	"30 22 0:30 / /mnt/a rw,nosuid shared:9 master:1 - fuse.xsbxfs xsbxfs rw,user_id=0\n"
	"31 30 0:31 / /mnt/a rw - tmpfs fuse.xsbxfs rw\n"
	"32 22 0:32 / /mnt/a\\040b\\134c rw - fuse.xsbxfs xsbxfs rw\n"
	"33 22 0:32 /sub /mnt/bound rw - fuse.xsbxfs xsbxfs rw\n";

static void topmost(void **state)
{
	char device[MOUNT_DEVICE_MAX] = "none";

	(void)state;
	assert_false(mount_table_at(table, "/mnt", device));
	assert_false(mount_table_at(table, "/mnt/a b", device));
	assert_string_equal(device, "none");
	assert_true(mount_table_at(table, "/", device));
	assert_string_equal(device, "8:1");
	assert_true(mount_table_at(table, "/mnt/a", device));
	assert_string_equal(device, "0:31");
	assert_true(mount_table_at(table, "/mnt/a b\\c", device));
	assert_string_equal(device, "0:32");
}

static void devices(void **state)
{
	(void)state;
	assert_true(mount_table_has(table, "0:30"));
	assert_false(mount_table_has(table, "0:3"));
	assert_true(mount_table_has_type(table, "0:30", "fuse.xsbxfs"));
	assert_true(mount_table_has_type(table, "0:32", "fuse.xsbxfs"));
	/* What somebody calls the source is not its type. */
	assert_false(mount_table_has_type(table, "0:31", "fuse.xsbxfs"));
	assert_false(mount_table_has_type(table, "0:30", "fuse"));
}

static void the_kernels(void **state)
{
	const int fd = open(MOUNT_TABLE, O_RDONLY | O_CLOEXEC);
	char device[MOUNT_DEVICE_MAX];
	char *text;

	(void)state;
	assert_true(fd >= 0);
	for (int i = 0; i < 2; i++) {
		text = mount_table_read(fd);
		assert_non_null(text);
		assert_true(mount_table_at(text, "/proc", device));
		assert_true(mount_table_has_type(text, device, "proc"));
		free(text);
	}
	close(fd);
	assert_null(mount_table_read(-1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(topmost),
		cmocka_unit_test(devices),
		cmocka_unit_test(the_kernels),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
