/* SPDX-License-Identifier: Apache-2.0 */
/* The power is cut while a session is written to the state directory: it is the old one or the new one, and what is said to be there
 * is there. For that, all must be synced, and in this order: see tests/unit/fixture/disk_fake.h. */
/* modules: fs/keep/store.c tests/unit/fixture/disk_fake.c tests/unit/fixture/vault_fake.c tests/unit/fixture/pack_fake.c */
/* modules: vm/checkpoint/saved.c vm/base/wait.c vm/base/buf.c vm/base/io.c vm/base/path.c vm/base/problem.c vm/base/remove.c vm/base/log.c vm/base/log_line.c vm/base/systemd.c */
#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <cmocka.h>

#include "fs/keep/store.h"
#include "tests/unit/fixture/disk_fake.h"
#include "tests/unit/fixture/vault_fake.h"
#include "vm/base/problem.h"
#include "vm/base/remove.h"

#define LENGTH 70000u /* of an output: two pieces */

static const struct store_name demo = {"python", "demo", {12345, 678}};

/* Which of the session's records may be there: that of this number, or a later one up to that. 0: none. */
struct may_be {
	unsigned from, to;
};

static struct store_output output_of(unsigned n)
{
	struct store_output o = {.name = ""};

	snprintf(o.name, sizeof(o.name), "r%u.0", n);
	return o;
}

static int give(void *data, uint64_t offset, void *to, size_t len)
{
	(void)offset;
	memset(to, 'a' + *(int *)data, len);
	return 0;
}

static int take(void *data, const void *bytes, size_t len)
{
	return len && *(const char *)bytes == 'a' + *(int *)data ? 0 : -EBADMSG;
}

/* Return: the number of the record that is there; 0: none; -errno. */
static int number_of(const struct store *st)
{
	struct buf out = {.limit = 100};
	int n, r = store_read(st, demo.template, demo.name, &out);

	n = r == 0 && out.len == 1 ? out.data[0] - '0' : r == -ENOENT ? 0 : -EBADMSG;
	buf_clear(&out);
	return n;
}

/* What is in the directory is whole: the record, and the output that it names. */
static bool is_whole(void *data, const char *tree)
{
	const struct may_be *m = data;
	struct problem why = {0};
	char path[PATH_MAX];
	struct store st;
	bool good;
	int n;

	snprintf(path, sizeof(path), "%s/above/state", tree);
	if (store_open(path, &st, &why) < 0)
		return false;
	assert_int_equal(store_use(&st, vm_vault(NULL)), 0);
	n = number_of(&st);
	/* In the end it is removed, which is a record of none. */
	good = n < 0		  ? false
	       : m->from <= m->to ? n >= (int)m->from && n <= (int)m->to
				  : n == 0 || n == (int)m->from;
	if (n > 0) {
		const struct store_output o = output_of((unsigned)n);

		good = good && store_get_output(&st, &demo, &o, LENGTH, take, &n) == 0;
	}
	store_close(&st);
	return good;
}

static void write_session(struct store *st, int n, struct may_be *m)
{
	const struct store_output o = output_of((unsigned)n);
	const char text[] = {(char)('0' + n)};
	int fd;

	m->to = (unsigned)n;
	assert_int_equal(store_put_output(st, &demo, &o, LENGTH, give, &n), 0);
	fd = store_stage(st, &demo, text, sizeof(text));
	assert_true(fd >= 0);
	assert_int_equal(store_settle(fd), 0);
	assert_int_equal(store_publish(st, &demo), 0);
	assert_int_equal(store_sync(st, demo.template), 0);
	m->from = (unsigned)n;
}

/* All that is done with one: it is made, written again, and removed. */
static struct disk_cuts one_life(unsigned left_out)
{
	char top[] = "/tmp/xsbxfs-unit.XXXXXX", path[PATH_MAX], tree[PATH_MAX];
	struct problem why = {0};
	struct may_be m = {0};
	struct disk_cuts cuts;
	struct store st;

	assert_non_null(mkdtemp(top));
	snprintf(tree, sizeof(tree), "%s/disk", top);
	snprintf(path, sizeof(path), "%s/disk/above/state", top);
	assert_int_equal(mkdir(tree, 0700), 0);
	disk_begin(tree, is_whole, &m, left_out);
	assert_int_equal(store_open(path, &st, &why), 0);
	assert_int_equal(store_use(&st, vm_vault(NULL)), 0);
	write_session(&st, 1, &m);
	write_session(&st, 2, &m);
	m.to = 0;
	assert_int_equal(store_remove(&st, demo.template, demo.name), 0);
	m.from = 0;
	store_close(&st);
	cuts = disk_end();
	assert_int_equal(remove_tree(top), 0);
	return cuts;
}

static void old_or_new(void **data)
{
	const struct disk_cuts cuts = one_life(0);

	(void)data;
	print_message("%u cuts, %u calls of fsync()\n", cuts.cuts, cuts.syncs);
	assert_true(cuts.syncs >= 10 && cuts.cuts >= 100);
	assert_int_equal(cuts.bad, 0);
}

/* Each of the calls is needed; but for that behind `version`, without which a directory that is new is a new one. */
static void none_left_out(void **data)
{
	(void)data;
	disk_needs_each(one_life, "state", 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(old_or_new),
		cmocka_unit_test(none_left_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
