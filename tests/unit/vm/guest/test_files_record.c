/* SPDX-License-Identifier: Apache-2.0 */
/* What is owed to an agent, where every turn is written down: in parts, of which a turn writes what it has changed. */
/* modules: vm */
/* libs: uv crypto jansson seccomp */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "vm/base/estate.h"
#include "vm/base/turn.h"
#include "vm/base/util.h"
#include "vm/guest/channel.h"
#include "vm/guest/channel_record.h"
#include "vm/guest/files.h"
#include "vm/guest/files_record.h"

#define KEY  7u
#define MANY 8000u /* nearly as many as may be, see known_table.c */

/* A guest's files, and the estate of the daemon that has it. */
struct daemon {
	struct guest_files gf;
	struct channel ch;
	struct channel_scratch scratch;
	struct turn turn;
};

static struct daemon a, b;

static void begin(struct daemon *d, struct estate *e)
{
	memset(d, 0, sizeof(*d));
	d->turn.estate = e;
	d->scratch.turn = &d->turn;
	d->ch.scratch = &d->scratch;
	guest_file_init(&d->gf, &d->ch);
}

static void end(struct daemon *d)
{
	guest_file_fail(&d->gf, -ESTALE);
	guest_files_unwrite(&d->gf);
}

static void owe(struct daemon *d, uint64_t node, uint64_t lookups)
{
	assert_int_equal(known_owe(&d->gf.lease.known, node, lookups), 0);
}

/* Writes it down, as a turn does. Return: bytes of the record in which all else is. */
static size_t put(struct daemon *d)
{
	struct buf out = {0};
	size_t len;

	guest_files_put(&d->gf, &out, d->turn.estate, KEY);
	assert_int_equal(out.failed, 0);
	assert_int_equal(estate_commit(d->turn.estate), 0);
	len = out.len;
	buf_clear(&out);
	return len;
}

/* All of it in one record, as where there are no turns. */
static void put_alone(struct daemon *d, struct buf *out)
{
	guest_files_put(&d->gf, out, NULL, 0);
	assert_int_equal(out->failed, 0);
}

/* Return: what guest_files_take() does in another daemon. */
static int inherit(struct daemon *from, struct daemon *to, struct estate *left)
{
	struct buf out = {0};
	int r;

	guest_files_put(&from->gf, &out, from->turn.estate, KEY);
	begin(to, left);
	r = guest_files_take(&to->gf, record_reader(out.data, out.len), left);
	buf_clear(&out);
	return r;
}

static int count(void *data, const struct record *rec, uint64_t sub)
{
	unsigned *n = data;

	(void)rec;
	(void)sub;
	++*n;
	return 0;
}

static unsigned records(const struct estate *e)
{
	unsigned n = 0;

	assert_int_equal(estate_each(e, ESTATE_CHANNEL_BYTES, count, &n), 0);
	return n;
}

static struct estate *estate(void)
{
	struct estate *e;

	assert_int_equal(estate_new(&e), 0);
	return e;
}

/* However much is owed, a turn in which one lookup comes, or goes, writes little. */
static void a_turn_writes_little(void **state)
{
	struct estate *e = estate();
	size_t taken;

	(void)state;
	begin(&a, e);
	for (uint64_t i = 0; i < MANY; i++)
		owe(&a, 100 + i, 1);
	assert_true(put(&a) < 256);
	taken = estate_taken(e);
	assert_int_equal(records(e), KNOWN_OWED);
	for (uint64_t i = 0; i < 20; i++) {
		assert_int_equal(known_forget(&a.gf.lease.known, 100 + i * 350, 1), 0);
		assert_true(put(&a) < 256);
	}
	/* Each changed one of the parts. All of them take more than 50 kB. */
	assert_in_range(estate_taken(e), taken, taken + (256u << 10));
	assert_true(estate_live(e) > 50000);
	end(&a);
	estate_free(e);
}

/* Whoever goes on knows the same, and writes the same. */
static void an_heir_has_it(void **state)
{
	struct buf had = {0}, has = {0};
	struct estate *e = estate();

	(void)state;
	begin(&a, e);
	for (uint64_t i = 0; i < 3000; i++)
		owe(&a, 1 + i * 3, 1 + i % 5);
	put(&a);
	for (uint64_t i = 0; i < 1000; i++)
		assert_int_equal(known_forget(&a.gf.lease.known, 1 + i * 9, UINT64_MAX / 4),
				 UINT64_MAX / 4 - 1 - i * 3 % 5);
	put(&a);
	assert_int_equal(inherit(&a, &b, e), 0);
	assert_int_equal(b.gf.lease.known.nowed, 2000);
	put_alone(&a, &had);
	put_alone(&b, &has);
	assert_int_equal(had.len, has.len);
	assert_memory_equal(had.data, has.data, had.len);
	buf_clear(&had);
	buf_clear(&has);
	guest_file_fail(&a.gf, -ESTALE); /* it has died */
	put(&b);
	known_owe_nothing(&b.gf.lease.known);
	put(&b);
	assert_int_equal(records(e), 0);
	end(&b);
	estate_free(e);
}

/* What is there is nobody's when the guest is gone. */
static void nothing_is_left(void **state)
{
	struct estate *e = estate();

	(void)state;
	begin(&a, e);
	for (uint64_t i = 0; i < 10; i++)
		owe(&a, 100 + i, 1);
	put(&a);
	assert_in_range(records(e), 1, 10);
	end(&a);
	assert_int_equal(records(e), 0);
	estate_free(e);
}

static void on_difference(void *data, enum estate_difference what, uint32_t kind, uint64_t key,
			  uint64_t sub)
{
	(void)what;
	(void)sub;
	assert_int_equal(kind, ESTATE_CHANNEL_BYTES);
	assert_int_equal(key, KEY);
	++*(unsigned *)data;
}

static unsigned differences(struct daemon *d)
{
	struct estate *e = d->turn.estate;
	unsigned n = 0;
	struct estate_compare c = {.differs = on_difference, .data = &n};
	struct buf out = {0};

	estate_compare_begin(e, &c);
	guest_files_put(&d->gf, &out, e, KEY);
	estate_compare_end(e);
	buf_clear(&out);
	return n;
}

/* Whoever compares sees all parts, and what was not written stays to be. */
static void comparing_sees_all(void **state)
{
	struct estate *e = estate();

	(void)state;
	begin(&a, e);
	owe(&a, 100, 1);
	put(&a);
	assert_int_equal(differences(&a), 0);
	owe(&a, 200, 1);
	assert_int_equal(differences(&a), 1);
	put(&a);
	assert_int_equal(differences(&a), 0);
	owe(&a, 300, 1);
	for (unsigned part = 0; part < KNOWN_OWED; part++)
		known_owed_written(&a.gf.lease.known, part); /* it was not */
	put(&a);
	assert_int_equal(differences(&a), 1);
	end(&a);
	estate_free(e);
}

/* Records that somebody else has made. */
static void damage_is_refused(void **state)
{
	struct estate *e = estate();
	struct buf fields = {0};

	(void)state;
	begin(&a, e);
	owe(&a, 100, 1);
	put(&a);
	assert_int_equal(inherit(&a, &b, NULL), -EBADMSG);
	guest_file_fail(&b.gf, -ESTALE);
	/* One node in two parts, another field, no field. */
	for (uint64_t sub = CHANNEL_SUB_OWN; sub < (CHANNEL_SUB_OWN | KNOWN_OWED); sub++) {
		const void *was;
		size_t len;

		if (!estate_get(e, ESTATE_CHANNEL_BYTES, KEY, sub, &was, &len))
			continue;
		assert_int_equal(buf_append(&fields, was, len), 0);
		assert_int_equal(
			estate_put(e, ESTATE_CHANNEL_BYTES, KEY, sub ^ 1, fields.data, fields.len),
			0);
		assert_int_equal(inherit(&a, &b, e), -EBADMSG);
		guest_file_fail(&b.gf, -ESTALE);
		assert_int_equal(estate_put(e, ESTATE_CHANNEL_BYTES, KEY, sub ^ 1, "x", 1), 0);
		assert_int_equal(inherit(&a, &b, e), -EBADMSG);
		guest_file_fail(&b.gf, -ESTALE);
		fields.len = 0;
		record_u64(&fields, 1, 1);
		assert_int_equal(
			estate_put(e, ESTATE_CHANNEL_BYTES, KEY, sub ^ 1, fields.data, fields.len),
			0);
		assert_int_equal(inherit(&a, &b, e), -EBADMSG);
		guest_file_fail(&b.gf, -ESTALE);
		assert_int_equal(estate_drop(e, ESTATE_CHANNEL_BYTES, KEY, sub ^ 1), 0);
		break;
	}
	assert_true(fields.len > 0);
	assert_int_equal(inherit(&a, &b, e), 0);
	guest_file_fail(&b.gf, -ESTALE);
	buf_clear(&fields);
	end(&a);
	estate_free(e);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_turn_writes_little), cmocka_unit_test(an_heir_has_it),
		cmocka_unit_test(nothing_is_left),	cmocka_unit_test(comparing_sees_all),
		cmocka_unit_test(damage_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
