/* SPDX-License-Identifier: Apache-2.0 */
/* An estate is taken into one whose regions are there already: what is copied is the same, whatever was asked for before. */
/* modules: vm/base/estate.c vm/base/estate_file.c vm/base/io.c vm/base/estate_items.c vm/base/estate_load.c vm/base/estate_tidy.c vm/base/memory.c vm/base/estate_sheets.c vm/base/sheets.c */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "vm/base/estate.h"

#define MIB (1u << 20)

static const struct {
	unsigned number;
	size_t size;
} regions[] = {
	{1, 100}, {2, 3 * MIB + 5000}, {3, 70000}, {ESTATE_REGIONS - 1, ESTATE_REGION_MAX / 16}};

#define NREGIONS (sizeof(regions) / sizeof(*regions))

static unsigned char byte_of(unsigned region, size_t at)
{
	return (unsigned char)((at * 2654435761u >> 13) + region);
}

/* With a record, and bytes in all of its regions. */
static struct estate *make(void)
{
	struct estate *e;

	assert_int_equal(estate_new(&e), 0);
	for (unsigned i = 0; i < NREGIONS; i++) {
		unsigned char *p = estate_region(e, regions[i].number, regions[i].size);

		assert_non_null(p);
		for (size_t at = 0; at < regions[i].size; at++)
			p[at] = byte_of(i, at);
	}
	assert_int_equal(estate_put(e, 7, 1, 2, "fields", 6), 0);
	assert_int_equal(estate_commit(e), 0);
	return e;
}

static void expect_all(struct estate *e)
{
	const void *fields;
	size_t len;

	for (unsigned i = 0; i < NREGIONS; i++) {
		const unsigned char *p = estate_region(e, regions[i].number, regions[i].size);

		assert_non_null(p);
		for (size_t at = 0; at < regions[i].size; at++)
			if (p[at] != byte_of(i, at))
				fail_msg("region %u differs at %zu", regions[i].number, at);
	}
	assert_true(estate_get(e, 7, 1, 2, &fields, &len));
	assert_int_equal(len, 6);
	assert_memory_equal(fields, "fields", len);
}

/* Each combination of regions that the heir has before. */
static void regions_before(void **state)
{
	struct estate *e = make(), *heir;

	(void)state;
	for (unsigned which = 0; which < 1u << NREGIONS; which++) {
		assert_int_equal(estate_new(&heir), 0);
		for (unsigned i = 0; i < NREGIONS; i++)
			if (which >> i & 1)
				assert_non_null(
					estate_region(heir, regions[i].number, regions[i].size));
		assert_int_equal(estate_take(heir, dup(estate_fd(e)), NULL, NULL), 0);
		expect_all(heir);
		/* It is its own: the next one has it from there. */
		assert_int_equal(estate_put(heir, 7, 2, 0, "more", 4), 0);
		assert_int_equal(estate_commit(heir), 0);
		memset(estate_region(heir, regions[0].number, regions[0].size), byte_of(0, 0), 1);
		estate_free(heir);
	}
	expect_all(e);
	estate_free(e);
}

/* Of another version perhaps: of another size, or one that it has not. */
static void other_regions(void **state)
{
	struct estate *e = make(), *heir, *next;
	unsigned char *small, *large, *own;

	(void)state;
	assert_int_equal(estate_new(&heir), 0);
	small = estate_region(heir, regions[1].number, MIB);
	large = estate_region(heir, regions[2].number, 2 * MIB);
	own = estate_region(heir, 9, 5000);
	assert_true(small && large && own);
	assert_int_equal(estate_take(heir, dup(estate_fd(e)), NULL, NULL), 0);
	for (size_t at = 0; at < MIB; at++)
		assert_int_equal(small[at], byte_of(1, at));
	for (size_t at = 0; at < regions[2].size; at++)
		assert_int_equal(large[at], byte_of(2, at));
	assert_int_equal(large[2 * MIB - 1], 0);
	assert_int_equal(own[0], 0);
	/* What is behind a region that is small here is there still. */
	assert_int_equal(estate_open(dup(estate_fd(heir)), &next), 0);
	large = estate_region(next, regions[1].number, regions[1].size);
	for (size_t at = 0; at < regions[1].size; at++)
		assert_int_equal(large[at], byte_of(1, at));
	estate_free(next);
	estate_free(heir);
	estate_free(e);
}

/* The file is closed in any case. */
static void refused(void **state)
{
	struct estate *e = make(), *heir;
	int fd;

	(void)state;
	assert_int_equal(estate_new(&heir), 0);
	fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	assert_int_equal(estate_take(heir, fd, NULL, NULL), -EBADMSG);
	assert_int_equal(fcntl(fd, F_GETFD), -1);
	estate_give_up(e, -ENOMEM);
	fd = dup(estate_fd(e));
	assert_int_equal(estate_take(heir, fd, NULL, NULL), -EBADMSG);
	assert_int_equal(fcntl(fd, F_GETFD), -1);
	estate_free(heir);
	estate_free(e);
}

/* Who leaves nothing keeps nothing, but what is held of the sheets, as long as it is held. */
static void retired(void **state)
{
	struct estate *before = make(), *e;
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	struct sheets *sheets = estate_sheets(before);
	unsigned char *bytes, *others;

	(void)state;
	assert_non_null(sheets);
	memset(sheets->mem, 'x', sheets->size * sheets->n);
	assert_int_equal(estate_new(&e), 0);
	assert_non_null(estate_region(e, regions[1].number, regions[1].size));
	assert_int_equal(estate_take(e, dup(estate_fd(before)), NULL, NULL), 0);
	estate_free(before);
	sheets = estate_sheets(e);
	bytes = sheets_find(sheets, sheets->size + 7, 100);
	others = sheets_find(sheets, 3 * sheets->size, sheets->size);
	sheets_hold(sheets, bytes);
	sheets_hold(sheets, bytes + 50);
	sheets_hold(sheets, others);
	assert_true(estate_taken(e) > 10 * MIB);
	estate_retire(e);
	assert_false(estate_is_whole(e));
	assert_in_range(estate_taken(e), 2 * sheets->size, 2 * sheets->size + page);
	sheets_let_go(sheets, bytes);
	assert_in_range(estate_taken(e), 2 * sheets->size, 2 * sheets->size + page);
	assert_int_equal(bytes[0], 'x');
	assert_int_equal(bytes[99], 'x');
	sheets_let_go(sheets, bytes + 50);
	assert_in_range(estate_taken(e), sheets->size, sheets->size + page);
	assert_int_equal(others[sheets->size - 1], 'x');
	sheets_let_go(sheets, others);
	assert_in_range(estate_taken(e), 0, page);
	estate_free(e);

	/* There may be none. */
	e = make();
	estate_retire(e);
	assert_in_range(estate_taken(e), 0, page);
	estate_free(e);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(regions_before),
		cmocka_unit_test(other_regions),
		cmocka_unit_test(refused),
		cmocka_unit_test(retired),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
