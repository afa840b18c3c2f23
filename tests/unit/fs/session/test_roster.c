/* SPDX-License-Identifier: Apache-2.0 */
/* The table of sessions: names, slots and generations, users. */
/* modules: vm/base/record.c vm/base/buf.c fs/session/roster.c */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "fs/session/ino.h"
#include "fs/session/roster.h"
#include "fs/session/session.h"

/* As much of a configuration as counts here: addresses. */
static struct conf_template templates[2];

static struct session *add(struct roster *ro, unsigned t, const char *name, uid_t uid)
{
	struct session *s = calloc(1, sizeof(*s));
	const int slot = roster_reserve(ro, uid);

	assert_non_null(s);
	assert_true(slot >= 0);
	s->t = &templates[t];
	s->uid = uid;
	s->slot = (unsigned)slot;
	s->generation = roster_generation(ro, s->slot);
	snprintf(s->name, sizeof(s->name), "%s", name);
	roster_put(ro, s);
	return s;
}

static void drop(struct roster *ro, struct session *s)
{
	roster_drop(ro, s);
	roster_forget(ro, s);
	free(s);
}

static void drop_all(struct roster *ro)
{
	for (unsigned i = 0; i < ro->n; i++)
		if (roster_at(ro, i))
			drop(ro, roster_at(ro, i));
	roster_fini(ro);
}

static void test_names(void **state)
{
	struct roster ro = {0};
	struct session *b = add(&ro, 0, "b", 1), *other = add(&ro, 1, "b", 1),
		       *a = add(&ro, 0, "a", 1);

	(void)state;
	assert_ptr_equal(roster_find(&ro, &templates[0], "b"), b);
	assert_ptr_equal(roster_find(&ro, &templates[1], "b"), other);
	assert_null(roster_find(&ro, &templates[1], "a"));
	assert_null(roster_find(&ro, &templates[0], "ab"));
	assert_ptr_equal(roster_first(&ro, &templates[0]), a);
	assert_ptr_equal(roster_next(a), b);
	assert_null(roster_next(b));
	assert_ptr_equal(roster_first(&ro, &templates[1]), other);
	assert_null(roster_next(other));
	drop(&ro, b);
	assert_null(roster_find(&ro, &templates[0], "b"));
	assert_null(roster_next(a));
	drop(&ro, other);
	assert_null(roster_first(&ro, &templates[1]));
	drop_all(&ro);
}

static void test_users(void **state)
{
	struct roster ro = {0};
	struct session *s = add(&ro, 0, "a", 7);

	(void)state;
	add(&ro, 0, "b", 7);
	add(&ro, 0, "c", 8);
	assert_int_equal(roster_of(&ro, 7, false), 2);
	assert_int_equal(roster_of(&ro, 8, false), 1);
	assert_int_equal(roster_of(&ro, 9, false), 0);
	roster_drop(&ro, s);
	assert_int_equal(roster_of(&ro, 7, false), 1);
	assert_int_equal(roster_of(&ro, 7, true), 1);
	roster_forget(&ro, s);
	assert_int_equal(roster_of(&ro, 7, true), 0);
	free(s);
	drop_all(&ro);
}

/* A user who has none takes no memory: his entry is another's then. */
static void test_users_come_and_go(void **state)
{
	struct roster ro = {0};
	char name[32];

	(void)state;
	for (uid_t uid = 0; uid < 1000; uid++) {
		snprintf(name, sizeof(name), "%u", uid);
		drop(&ro, add(&ro, 0, name, uid));
		assert_int_equal(roster_of(&ro, uid, false) + roster_of(&ro, uid, true), 0);
	}
	assert_int_equal(ro.nusers, 1);
	drop_all(&ro);
}

/* However often one is made and removed: a slot rests while ROSTER_REST others are used, and it has another generation
 * each time, so that a number of a session means another one only after a million of them. */
static void test_slots_rest(void **state)
{
	static unsigned last[ROSTER_MAX], generation[ROSTER_MAX];
	struct roster ro = {0};

	(void)state;
	for (unsigned i = 1; i < 20 * ROSTER_REST; i++) {
		struct session *s = add(&ro, 0, "x", 1);

		if (last[s->slot]) {
			assert_true(i - last[s->slot] > ROSTER_REST);
			assert_int_equal(s->generation,
					 (generation[s->slot] + 1) & INO_GENERATIONS);
		}
		last[s->slot] = i;
		generation[s->slot] = s->generation;
		drop(&ro, s);
	}
	assert_int_equal(ro.n, ROSTER_REST + 1);
	drop_all(&ro);
}

/* Each that became free or was taken is noted, once; and which of the two it is, is told by whether it has fields. */
static void test_notes(void **state)
{
	struct roster ro = {0};
	struct buf out = {0};
	struct session *s;
	unsigned slot;

	(void)state;
	for (unsigned i = 0; i <= ROSTER_REST; i++)
		drop(&ro, add(&ro, 0, "x", 1));
	roster_noted(&ro);
	assert_int_equal(roster_touched(&ro), ROSTER_MAX);
	slot = roster_free(&ro);
	s = add(&ro, 0, "x", 1);
	assert_int_equal(s->slot, slot);
	assert_int_equal(roster_touched(&ro), slot);
	assert_int_equal(roster_next_touched(&ro, slot), ROSTER_MAX);
	assert_false(roster_put_free(&ro, slot, &out));
	roster_noted(&ro);
	drop(&ro, s);
	assert_int_equal(roster_touched(&ro), slot);
	assert_true(roster_put_free(&ro, slot, &out));
	buf_clear(&out);
	drop_all(&ro);
}

static void test_full(void **state)
{
	struct roster ro = {0};
	struct session *last = NULL;
	char name[32];

	(void)state;
	for (unsigned i = 0; i < ROSTER_MAX; i++) {
		snprintf(name, sizeof(name), "%u", i);
		last = add(&ro, i % 2, name, i % 3);
	}
	assert_int_equal(roster_reserve(&ro, 1), -ENOSPC);
	assert_ptr_equal(roster_find(&ro, last->t, last->name), last);
	drop(&ro, last);
	last = add(&ro, 0, "more", 1);
	assert_int_equal(last->generation, 1);
	assert_int_equal(roster_reserve(&ro, 1), -ENOSPC);
	drop_all(&ro);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_users),
		cmocka_unit_test(test_users_come_and_go),
		cmocka_unit_test(test_slots_rest),
		cmocka_unit_test(test_notes),
		cmocka_unit_test(test_full),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
