/* SPDX-License-Identifier: Apache-2.0 */
/* What is handed over as an estate may be damaged, or none: it is refused. */
/* modules: tests/unit/fixture/estate_fixture.c */
/* modules: vm/base/estate.c vm/base/estate_file.c vm/base/io.c vm/base/estate_items.c vm/base/estate_load.c vm/base/estate_tidy.c */
/* modules: vm/base/memory.c vm/base/record.c vm/base/buf.c */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/unit/fixture/estate_fixture.h"
#include "vm/base/estate_internal.h"
#include "vm/base/util.h"

static int open_changed(void (*change)(struct estate *e))
{
	struct estate *e = fresh(), *heir = NULL;
	int fd, r;

	put(e, 1, 0, "one");
	put(e, 2, 0, "two");
	assert_int_equal(estate_drop(e, KIND, 1, 0), 0);
	assert_int_equal(estate_commit(e), 0);
	change(e);
	fd = dup(estate_fd(e));
	estate_free(e);
	r = estate_open(fd, &heir);
	estate_free(heir);
	return r;
}

static struct estate_entry *nth(struct estate *e, unsigned n)
{
	return estate_entry_at(e, 0, n * 40ull);
}

static void nothing(struct estate *e)
{
	(void)e;
}
static void magic(struct estate *e)
{
	e->head->magic++;
}
static void version(struct estate *e)
{
	e->head->version++;
}
static void given_up(struct estate *e)
{
	e->head->given_up = 1;
}
static void longer(struct estate *e)
{
	e->head->committed += 8;
}
static void odd(struct estate *e)
{
	e->head->committed--;
}
static void shorter(struct estate *e)
{
	e->head->committed -= 8;
}
static void much_longer(struct estate *e)
{
	e->head->committed = 8ull << 30;
}
static void longest(struct estate *e)
{
	e->head->committed = ~0ull;
}
static void no_kind(struct estate *e)
{
	nth(e, 0)->kind = 0;
}
static void no_serial(struct estate *e)
{
	nth(e, 0)->serial = 0;
}
static void other_serial(struct estate *e)
{
	nth(e, 2)->serial++;
}
static void twice(struct estate *e)
{
	*nth(e, 1) = *nth(e, 0);
	nth(e, 1)->serial = 9;
}
static void long_entry(struct estate *e)
{
	nth(e, 1)->len = 4096;
}
static void wild_entry(struct estate *e)
{
	nth(e, 1)->len = UINT32_MAX;
}
static void dropped_with_fields(struct estate *e)
{
	nth(e, 0)->kind |= ESTATE_DROPPED;
}
static void dropped_without(struct estate *e)
{
	nth(e, 2)->key = 5;
}
static void empty_other(struct estate *e)
{
	e->head->committed = ESTATE_AREA_BIT;
}

static void damage_is_refused(void **state)
{
	void (*const bad[])(struct estate *) = {
		magic,		 version,     given_up,	  longer,     odd,
		shorter,	 much_longer, longest,	  no_kind,    no_serial,
		other_serial,	 twice,	      long_entry, wild_entry, dropped_with_fields,
		dropped_without,
	};

	(void)state;
	assert_int_equal(open_changed(nothing), 0);
	assert_int_equal(open_changed(empty_other), 0);
	for (unsigned i = 0; i < ARRAY_SIZE(bad); i++)
		if (open_changed(bad[i]) != -EBADMSG)
			fail_msg("damage %u is not seen", i);
}

static void serials_end(void **state)
{
	struct estate *e = fresh();

	(void)state;
	put(e, 1, 0, "one");
	nth(e, 0)->serial = UINT64_MAX - 1;
	assert_int_equal(estate_commit(e), 0);
	e = heir_of(e);
	put(e, 2, 0, "two");
	assert_int_equal(estate_commit(e), 0);
	e = heir_of(e);
	assert_is(e, "1.0=one 2.0=two ");
	assert_int_equal(estate_put(e, KIND, 3, 0, "three", 5), -EOVERFLOW);
	assert_given_up(e, -EOVERFLOW);
}

static void other_files_are_refused(void **state)
{
	struct estate *e = NULL;
	int fd = memfd_create("short", MFD_ALLOW_SEALING);

	(void)state;
	assert_int_equal(estate_open(fd, &e), -EBADMSG);
	/* As long, but who made it can cut it off. */
	fd = memfd_create("long", MFD_ALLOW_SEALING);
	assert_int_equal(ftruncate(fd, (off_t)ESTATE_SIZE), 0);
	assert_int_equal(estate_open(fd, &e), -EBADMSG);
	fd = memfd_create("long", MFD_ALLOW_SEALING);
	assert_int_equal(ftruncate(fd, (off_t)ESTATE_SIZE), 0);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_WRITE), 0);
	assert_int_equal(estate_open(fd, &e), -EBADMSG);
	assert_int_equal(estate_open(open("/dev/null", O_RDWR | O_CLOEXEC), &e), -EBADMSG);
	/* Nobody can do that to one of ours. */
	e = fresh();
	assert_int_equal(ftruncate(estate_fd(e), 0), -1);
	estate_free(e);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(damage_is_refused),
					   cmocka_unit_test(serials_end),
					   cmocka_unit_test(other_files_are_refused)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
