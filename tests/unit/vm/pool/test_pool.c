/* SPDX-License-Identifier: Apache-2.0 */
/* The pool of clones: who is given one, and when it is filled, renewed and emptied. */
/* modules: tests/unit/fixture/template_fixture.c */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/queue.h>
#include <cmocka.h>

#include "tests/unit/fixture/template_fixture.h"
#include "vm/base/log.h"
#include "vm/guest/internal.h"
#include "vm/pool/pool.h"

/* ---- the pool ---- */

static void miss_and_hit(void **state)
{
	const struct sandbox_spec spec = fx_spec();
	struct template *t;

	(void)state;
	t = fx_open_first(&spec);
	assert_int_equal(t->misses, 1);
	assert_int_equal(t->hits, 0);
	assert_int_equal(machines.started[MACHINE_RECORD], 1);
	assert_int_equal(machines.started[MACHINE_CLONE], 2);
	fx_open(&fx.user[1], &spec, "warm");
	assert_int_equal(t->hits, 1);
	assert_int_equal(t->nidle[IDLE_READY], 1);
	fx_pass(1000);
	assert_int_equal(t->nidle[IDLE_READY], 2);
	assert_int_equal(machines.started[MACHINE_CLONE], 3);
	assert_int_equal(machines.started[MACHINE_RECORD], 1);
}

/* With nothing in the pool, a clone is made at once. */
static void cloned_on_demand(void **state)
{
	const struct sandbox_spec spec = fx_spec();

	(void)state;
	fx_open_first(&spec);
	fx_open(&fx.user[1], &spec, "warm");
	fx_open(&fx.user[2], &spec, "warm");
	fx_open(&fx.user[3], &spec, "snapshot");
	assert_int_equal(fx_template()->misses, 2);
}

static void low_water_mark(void **state)
{
	struct sandbox_spec spec = fx_spec();
	struct template *t;

	(void)state;
	spec.pool = (struct vm_pool){.target = 4, .low = 2};
	t = fx_open_first(&spec);
	fx_open(&fx.user[1], &spec, "warm");
	fx_open(&fx.user[2], &spec, "warm");
	fx_pass(MINUTE);
	assert_int_equal(t->nidle[IDLE_READY], 2); /* not fewer than two */
	fx_open(&fx.user[3], &spec, "warm");
	fx_pass(1000);
	assert_int_equal(t->nidle[IDLE_READY], 4);
}

static void no_pool(void **state)
{
	struct sandbox_spec spec = fx_spec();

	(void)state;
	spec.pool = (struct vm_pool){.target = 0};
	fx_open_first(&spec);
	fx_pass(MINUTE);
	assert_int_equal(machines.started[MACHINE_CLONE], 0);
	fx_open(&fx.user[1], &spec, "snapshot");
}

static void too_old(void **state)
{
	struct sandbox_spec spec = fx_spec();
	const struct idle *i;
	struct template *t;
	uint64_t then;

	(void)state;
	spec.pool.age_s = 60;
	t = fx_open_first(&spec);
	then = uv_now(&fx.loop);
	fx_watch(t);
	fx_pass(MINUTE / 2);
	assert_int_equal(machines.started[MACHINE_CLONE], 2);
	fx_pass(2 * MINUTE / 3);
	assert_int_equal(t->nidle[IDLE_READY], 2);
	TAILQ_FOREACH(i, &t->idle, link)
		assert_true(i->guest->ready_at > then);
	assert_int_equal(machines.started[MACHINE_CLONE], 4);
	assert_int_equal(fx.least_ready, 2); /* each went when another one was there */
}

/* Also where the pool has as many places as it may have. */
static void too_old_in_little_room(void **state)
{
	struct sandbox_spec spec = fx_spec();
	struct template *t;
	uint64_t then;

	(void)state;
	fx_restart(3);
	spec.pool = (struct vm_pool){.target = 1, .low = 1, .age_s = 60};
	t = fx_open_first(&spec);
	then = uv_now(&fx.loop);
	fx_watch(t);
	fx_pass(2 * MINUTE);
	assert_int_equal(t->nidle[IDLE_READY], 1);
	assert_true(TAILQ_FIRST(&t->idle)->guest->ready_at > then);
	assert_int_equal(fx.least_ready, 1);
}

/* A template without snapshots, and its first user. */
static struct template *open_plain(const struct sandbox_spec *spec)
{
	static struct backend_ops plain;
	struct template *t;

	fx_open(&fx.user[0], spec, "cold");
	t = fx_template();
	plain = *t->ops;
	plain.save = NULL;
	t->ops = &plain;
	t->state = TEMPLATE_PLAIN;
	return t;
}

/* One without snapshots, whose clones don't start: they are tried again later and later, and then are there. */
static void later_and_later(void **state)
{
	const struct sandbox_spec spec = fx_spec();
	struct template *t;
	unsigned before;

	(void)state;
	t = open_plain(&spec);
	before = machines.started[MACHINE_COLD];
	machines.dies[MACHINE_COLD] = true;
	fx_pass(30000); /* after 5 s, 10 s, 20 s, ... */
	assert_in_range(machines.started[MACHINE_COLD] - before, 3, 4);
	fx_pass(4 * MINUTE);
	assert_in_range(machines.started[MACHINE_COLD] - before, 6, 9);
	machines.dies[MACHINE_COLD] = false;
	fx_pass(MINUTE + 1000);
	assert_int_equal(t->nidle[IDLE_READY], 2);
	assert_int_equal(t->clone_failures, 0);
}

/* Without snapshots each would pay for its exercises alone: they are brief, and nothing better comes later. */
static void plain_is_brief(void **state)
{
	const struct sandbox_spec spec = fx_spec();
	const struct idle *i;
	struct template *t;
	unsigned before;

	(void)state;
	t = open_plain(&spec);
	fx_pass(30000);
	assert_int_equal(t->nidle[IDLE_READY], 2);
	assert_int_equal(t->grown, 0);
	TAILQ_FOREACH(i, &t->idle, link)
		assert_true(i->brief);
	before = machines.started[MACHINE_COLD];
	fx_pass(MINUTE);
	assert_int_equal(machines.started[MACHINE_COLD], before);
}

static void mute_all(const struct template *t, bool mute)
{
	const struct idle *i;

	TAILQ_FOREACH(i, &t->idle, link)
		machines_of(i->guest)->mute = mute;
}

/* A clone that was not heard of for a while is in the pool, but nobody is given it. */
static void silent(void **state)
{
	struct sandbox_spec spec = fx_spec();
	struct template *t;

	(void)state;
	t = fx_open_first(&spec);
	machines.sleeps[MACHINE_CLONE] = true; /* what is to take their place takes its time */
	mute_all(t, true);
	fx_pass(20000);
	assert_int_equal(t->nidle[IDLE_READY], 2);
	machines.sleeps[MACHINE_CLONE] = false;
	fx_open(&fx.user[1], &spec, "snapshot");
	assert_int_equal(t->hits, 0);
	assert_int_equal(t->nidle[IDLE_READY], 2);
}

/* It is replaced, but goes only when the other one is there. */
static void silent_is_replaced(void **state)
{
	const struct sandbox_spec spec = fx_spec();
	const struct idle *i;
	struct template *t;

	(void)state;
	t = fx_open_first(&spec);
	mute_all(t, true);
	fx_watch(t);
	for (unsigned n = 0; n < 35; n++)
		fx_pass(1000);
	assert_true(fx.least_ready >= 1);
	assert_int_equal(t->nidle[IDLE_READY], 2);
	assert_int_equal(machines.started[MACHINE_CLONE], 4);
	TAILQ_FOREACH(i, &t->idle, link)
		assert_false(machines_of(i->guest)->mute);
	fx_open(&fx.user[1], &spec, "warm");
}

static void one_is_silent(void **state)
{
	const struct sandbox_spec spec = fx_spec();
	struct guest *bad;
	struct template *t;

	(void)state;
	t = fx_open_first(&spec);
	bad = TAILQ_FIRST(&t->idle)->guest;
	bad->unheard = 3;
	fx_open(&fx.user[1], &spec, "warm");
	assert_ptr_not_equal(fx.user[1].s->guest, bad);
	fx_open(&fx.user[2], &spec, "snapshot");
	bad->unheard = 0; /* it was only slow */
	fx_open(&fx.user[3], &spec, "warm");
	assert_ptr_equal(fx.user[3].s->guest, bad);
}

/* What nobody asks anything of sleeps, but for two questions a minute; who may be taken is asked more often. */
static void idle_ones_are_asked(void **state)
{
	const struct sandbox_spec spec = fx_spec();
	const struct backend *owned, *idle;
	unsigned before, idle_before;
	struct template *t;

	(void)state;
	t = fx_open_first(&spec);
	fx_open(&fx.user[1], &spec, "warm");
	fx_pass(MINUTE);
	owned = machines_of(fx.user[1].s->guest);
	idle = machines_of(TAILQ_FIRST(&t->idle)->guest);
	before = owned->questions;
	idle_before = idle->questions;
	for (int s = 0; s < 60; s++) /* with their answers */
		fx_pass(1000);
	assert_in_range(owned->questions - before, 2, 3);
	assert_in_range(idle->questions - idle_before, 6, 8);
	assert_int_equal(fx.user[1].nclosed, 0);
}

/* A machine that is gone is not handed out, also if nobody has noticed yet. */
static void one_is_gone(void **state)
{
	const struct sandbox_spec spec = fx_spec();
	struct guest *gone;
	struct template *t;

	(void)state;
	t = fx_open_first(&spec);
	gone = TAILQ_FIRST(&t->idle)->guest;
	assert_int_equal(shutdown(machines_of(gone)->fd, SHUT_RDWR), 0);
	fx_ask(&fx.user[1], &spec);
	assert_ptr_not_equal(fx.user[1].s->guest, gone);
	fx_settle();
	assert_int_equal(fx.user[1].nready, 1);
	assert_string_equal(fx_start_of(&fx.user[1]), "warm");
}

static void dead_is_replaced(void **state)
{
	const struct sandbox_spec spec = fx_spec();
	struct problem p = {.cause = "it is gone"};
	struct backend *b;
	struct template *t;

	(void)state;
	t = fx_open_first(&spec);
	b = machines_of(TAILQ_FIRST(&t->idle)->guest);
	b->events->down(b->data, &p);
	fx_settle();
	assert_int_equal(t->nidle[IDLE_READY], 1);
	fx_pass(1000);
	assert_int_equal(t->nidle[IDLE_READY], 2);
	fx_assert_state(t, TEMPLATE_READY);
}

/* ---- places ---- */

static struct sandbox_spec another_kind(void)
{
	struct sandbox_spec spec = fx_spec();

	spec.image = spec.language = "javascript";
	spec.pool = (struct vm_pool){.target = 0};
	return spec;
}

/* A user of one kind, whose two clones have two more places, and a user of another kind. */
static struct template *fill_four_places(const struct sandbox_spec *spec,
					 const struct sandbox_spec *other)
{
	struct template *t;

	fx_restart(4);
	t = fx_open_first(spec);
	fx_open(&fx.user[1], other, "cold");
	return t;
}

/* Never more than half of all places. */
static void half_of_the_places(void **state)
{
	struct sandbox_spec spec = fx_spec();

	(void)state;
	fx_restart(6);
	spec.pool = (struct vm_pool){.target = 8, .low = 8};
	fx_open(&fx.user[0], &spec, "cold");
	fx_pass(10 * MINUTE / 2);
	assert_int_equal(fx_template()->nidle[IDLE_READY], 3);
	assert_int_equal(fx.vm->admission.running, 4);
}

static void clones_give_way(void **state)
{
	const struct sandbox_spec spec = fx_spec(), other = another_kind();
	struct template *t;

	(void)state;
	t = fill_four_places(&spec, &other);
	assert_int_equal(t->nidle[IDLE_READY], 2);
	fx_open(&fx.user[2], &other, "cold");
	assert_int_equal(t->nidle[IDLE_READY], 1);
	fx_open(&fx.user[3], &other, "cold");
	assert_int_equal(t->nidle[IDLE_READY], 0);
	assert_false(pool_yield(&fx.vm->pool));
	fx_ask(&fx.user[4], &other);
	fx_pass(MINUTE);
	assert_int_equal(fx.user[4].nready, 0); /* nobody else gives way */
	assert_int_equal(pool_places(&fx.vm->pool), 0);
	fx_close(&fx.user[1]);
	assert_int_equal(fx.user[4].nready, 1);
}

/* Who comes later is not given a clone while others wait for a place, which that clone has. */
static void waiting_users_come_first(void **state)
{
	const struct sandbox_spec spec = fx_spec(), other = another_kind();
	struct template *t;

	(void)state;
	t = fill_four_places(&spec, &other);
	machines.destroy_sleeps = true; /* a clone on its way out has its place for a while */
	fx_ask(&fx.user[2], &other);
	fx_settle();
	assert_true(admission_contended(&fx.vm->admission));
	fx_ask(&fx.user[3], &spec);
	fx_settle();
	assert_int_equal(fx.user[3].nready, 0);
	assert_int_equal(t->hits, 0);
	machines.destroy_sleeps = false;
	fx_pass(1000);
	assert_int_equal(fx.user[2].nready, 1);
	assert_int_equal(fx.user[3].nready, 1);
}

static void builder_gives_way(void **state)
{
	const struct sandbox_spec spec = fx_spec(), other = another_kind();
	struct template *t;

	(void)state;
	fx_restart(2);
	t = fx_begin_building(&spec);
	fx_open(&fx.user[1], &other, "cold");
	assert_null(t->builder);
	fx_assert_state(t, TEMPLATE_NONE);
	assert_int_equal(t->build_failures, 0);
	machines.sleeps[MACHINE_RECORD] = false;
	fx_pass(MINUTE);
	fx_assert_state(t, TEMPLATE_NONE);
	fx_close(&fx.user[1]);
	fx_pass(2000);
	fx_assert_state(t, TEMPLATE_READY);
}

/* A killed machine that does not go away is no hope for those who wait. */
static void lingering_clone(void **state)
{
	const struct sandbox_spec spec = fx_spec(), other = another_kind();
	struct template *t;

	(void)state;
	t = fill_four_places(&spec, &other);
	machines.destroy_sleeps = true;
	fx_ask(&fx.user[2], &other);
	fx_settle();
	TAILQ_LAST(&t->idle, idle_list)->guest->backend->stuck = true;
	machines.destroy_sleeps = false;
	fx_pass(5000);
	assert_int_equal(fx.user[2].nready, 0);
	fx_pass(6000);
	assert_int_equal(fx.user[2].nready, 1);
	TAILQ_LAST(&t->idle, idle_list)->guest->backend->stuck = false;
	fx_pass(2000);
}

static void take_line(void *data, enum log_level level, const char *text)
{
	(void)level;
	if (strstr(text, "not gone yet"))
		snprintf(data, 256, "%s", text);
}

/* The log calls it what it is called in every other line. */
static void lingering_by_its_label(void **state)
{
	struct sandbox_spec spec = fx_spec();
	char line[256] = "";

	(void)state;
	spec.label.who = "python/demo";
	fx_open_first(&spec);
	log_open(LOG_LEVEL_WARN);
	log_divert(take_line, line);
	machines.destroy_sleeps = true;
	sandbox_close(fx.user[0].s);
	fx_pass(12000);
	log_divert(NULL, NULL);
	log_open(LOG_LEVEL_ERROR);
	machines.destroy_sleeps = false;
	fx_pass(2000);
	assert_string_equal(
		line, "python/demo: killed 10 s ago, and not gone yet; its place stays taken");
}

/* ---- without use ---- */

static void emptied_when_unused(void **state)
{
	const struct sandbox_spec spec = fx_spec();
	struct template *t;

	(void)state;
	t = fx_open_first(&spec);
	fx_pass(9 * MINUTE);
	assert_int_equal(t->nidle[IDLE_READY], 2);
	fx_pass(2 * MINUTE);
	assert_int_equal(t->nidle[IDLE_READY], 0);
	fx_assert_state(t, TEMPLATE_READY);
	fx_pass(10 * MINUTE);
	fx_assert_state(t, TEMPLATE_UNKNOWN);
	assert_int_equal(template_memory(&fx.vm->pool), 0);
	fx_open(&fx.user[1], &spec, "snapshot"); /* read again */
	fx_pass(1000);
	assert_int_equal(t->nidle[IDLE_READY], 2);
	assert_int_equal(machines.started[MACHINE_RECORD], 1);
}

static void kept_when_prepared(void **state)
{
	const struct sandbox_spec spec = fx_spec();
	struct template *t;

	(void)state;
	vm_prepare(fx.vm, &spec);
	fx_pass(2000);
	t = fx_template();
	fx_assert_state(t, TEMPLATE_READY);
	assert_int_equal(t->nidle[IDLE_READY], 2);
	fx_pass(30 * MINUTE);
	assert_int_equal(t->nidle[IDLE_READY], 2);
	fx_open(&fx.user[0], &spec, "warm");
	assert_int_equal(fx.vm->starts[START_COLD], 0);
}

/* ---- the end ---- */

/* fx_teardown() looks at what is left. */
static void ends_while_filling(void **state)
{
	const struct sandbox_spec spec = fx_spec();

	(void)state;
	machines.sleeps[MACHINE_CLONE] = true;
	fx_open(&fx.user[0], &spec, "cold");
	fx_pass(2000);
	assert_int_equal(fx_template()->nidle[IDLE_FILLING], 2);
}

static void ends_while_ready(void **state)
{
	const struct sandbox_spec spec = fx_spec();

	(void)state;
	fx_open_first(&spec);
	fx_open(&fx.user[1], &spec, "warm");
}

/* The clone was given away, and is reset before it has answered the greeting: it answers both. */
static void reset_while_introduced(void **state)
{
	const struct sandbox_spec spec = fx_spec();
	struct user *u = &fx.user[1];

	(void)state;
	fx_open_first(&spec);
	fx_ask(u, &spec);
	assert_int_equal(u->s->guest->due, DUE_HELLO);
	assert_int_equal(sandbox_reset(u->s), 0);
	fx_settle();
	assert_int_equal(u->nclosed, 0);
	assert_int_equal(u->s->state, SANDBOX_READY);
	assert_int_equal(u->s->guest->due, DUE_NOTHING);
}

/* The clone was given away, and has not heard of it. */
static void ends_while_adopted(void **state)
{
	const struct sandbox_spec spec = fx_spec();

	(void)state;
	fx_open_first(&spec);
	fx_ask(&fx.user[1], &spec);
	assert_string_equal(fx_start_of(&fx.user[1]), "warm");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, fx_setup, fx_teardown)
		T(miss_and_hit),
		T(cloned_on_demand),
		T(low_water_mark),
		T(no_pool),
		cmocka_unit_test_setup_teardown(no_pool, fx_setup_standby, fx_teardown),
		T(too_old),
		T(too_old_in_little_room),
		T(later_and_later),
		T(plain_is_brief),
		T(silent),
		T(silent_is_replaced),
		T(one_is_silent),
		T(idle_ones_are_asked),
		T(one_is_gone),
		T(dead_is_replaced),
		T(half_of_the_places),
		T(clones_give_way),
		T(waiting_users_come_first),
		T(builder_gives_way),
		T(lingering_clone),
		T(lingering_by_its_label),
		T(emptied_when_unused),
		T(kept_when_prepared),
		T(reset_while_introduced),
		T(ends_while_filling),
		T(ends_while_ready),
		T(ends_while_adopted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
