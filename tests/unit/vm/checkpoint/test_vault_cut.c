/* SPDX-License-Identifier: Apache-2.0 */
/* The power is cut while something is saved in the vault: all of it is there, or nothing; and what is said to be there is there. For
 * that, all must be synced, and in this order: see tests/unit/fixture/disk_fake.h. */
/* modules: vm tests/unit/fixture/disk_fake.c tests/unit/fixture/saved_fixture.c */
/* libs: uv crypto jansson seccomp zstd */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <cmocka.h>

#include "tests/unit/fixture/disk_fake.h"
#include "tests/unit/fixture/saved_fixture.h"
#include "vm/base/remove.h"
#include "vm/base/util.h"
#include "vm/checkpoint/vault_disk.h"

#define FILES 3000u

/* The first has memory, and so has the second, with the same base; the third has files alone. */
static const char *const ids[] = {"00000000000000000000000000000001",
				  "00000000000000000000000000000002",
				  "00000000000000000000000000000003"};

struct promised {
	const struct seal_key *key;
	unsigned n; /* so many of them are to be there */
};

static bool is_whole(const struct vault_disk *d, const char *id)
{
	struct buf text = {0};
	struct vault_head head;
	struct pack *pack = NULL;
	struct point *point = NULL;
	int r = vault_disk_head(d, id, &text, &head);

	if (r == 0)
		r = vault_disk_pack(d, id, &head, &pack);
	if (r == 0 && head.memory)
		r = vault_disk_point(d, id, &head, -1, &point);
	if (pack)
		pack_unref(pack);
	if (point)
		point_unref(point);
	buf_clear(&text);
	return r == 0;
}

static bool all_whole(void *data, const char *tree)
{
	const struct promised *p = data;
	const int state = open(tree, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	bool there[ARRAY_SIZE(ids)] = {false}, good = true;
	struct vault_disk d;

	assert_true(state >= 0);
	if (vault_disk_open(state, p->key, &d) < 0)
		good = false;
	for (unsigned i = 0; i < ARRAY_SIZE(ids) && good; i++) {
		there[i] = faccessat(d.dir, ids[i], F_OK, 0) == 0;
		good = there[i] ? is_whole(&d, ids[i]) : i >= p->n;
	}
	vault_disk_close(&d);
	close(state);
	return good;
}

static struct disk_cuts three_saved(unsigned left_out)
{
	char top[] = "/tmp/xsbxfs-unit.XXXXXX", tree[PATH_MAX];
	struct seal_key *key = saved_fixture_key(1);
	struct promised p = {.key = key};
	struct vault_head head;
	struct disk_cuts cuts;
	struct vault_disk d;
	int state;

	assert_non_null(mkdtemp(top));
	snprintf(tree, sizeof(tree), "%s/state", top);
	assert_int_equal(mkdir(tree, 0700), 0);
	state = open(tree, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(vault_disk_open(state, key, &d), 0);
	disk_begin(tree, all_whole, &p, left_out);
	for (unsigned i = 0; i < ARRAY_SIZE(ids); i++) {
		struct pack *pack = saved_fixture_pack(i, FILES);
		struct point *point = i < 2 ? saved_fixture_point(i, 77) : NULL;

		assert_int_equal(vault_disk_store(&d, ids[i], pack, point, "", &head), 0);
		p.n++;
		pack_unref(pack);
		if (point)
			point_unref(point);
	}
	cuts = disk_end();
	vault_disk_close(&d);
	close(state);
	seal_key_free(key);
	assert_int_equal(remove_tree(top), 0);
	return cuts;
}

static void all_or_nothing(void **data)
{
	const struct disk_cuts cuts = three_saved(0);

	(void)data;
	print_message("%u cuts, %u calls of fsync()\n", cuts.cuts, cuts.syncs);
	assert_true(cuts.syncs >= 15 && cuts.cuts >= 100);
	assert_int_equal(cuts.bad, 0);
}

/* Each of the calls is needed; but for those of the list of bases: what is not on it is written once more. */
static void none_left_out(void **data)
{
	(void)data;
	disk_needs_each(three_saved, "bases", 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_or_nothing),
		cmocka_unit_test(none_left_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
