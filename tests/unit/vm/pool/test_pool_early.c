/* SPDX-License-Identifier: Apache-2.0 */
/* The pool of clones: those that are given away before they are ready, and its size. */
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

/* ---- taken while it is being made ---- */

/* The pool is empty, and a clone for it was just started. */
static struct guest *begin_filling(const struct sandbox_spec *spec)
{
	struct template *t = fx_open_first(spec);

	machines.sleeps[MACHINE_CLONE] = true;
	fx_open(&fx.user[1], spec, "warm");
	fx_pass(200);
	machines.sleeps[MACHINE_CLONE] = false;
	assert_int_equal(t->nidle[IDLE_FILLING], 1);
	assert_int_equal(t->nidle[IDLE_READY], 0);
	return TAILQ_FIRST(&t->idle)->guest;
}

/* Lets the machine of @g start, until it is in @phase and has been asked something. */
static void begin_phase(struct guest *g, enum guest_phase phase)
{
	machines_of(g)->events->up(machines_of(g)->data);
	for (unsigned i = 0; i < 100 && g->phase != phase; i++) {
		uv_run(machines.loop, UV_RUN_NOWAIT);
		machines_play();
	}
	assert_int_equal(g->phase, phase);
	uv_run(machines.loop, UV_RUN_NOWAIT);
}

/* One user has @g and another one asks: there is no third machine. */
static void take_over(struct guest *g, const struct sandbox_spec *spec)
{
	const unsigned clones = machines.started[MACHINE_CLONE];

	fx_ask(&fx.user[2], spec);
	assert_ptr_equal(fx.user[2].s->guest, g);
	assert_string_equal(fx_start_of(&fx.user[2]), "snapshot");
	assert_int_equal(fx_template()->nidle[IDLE_FILLING], 0);
	assert_int_equal(machines.started[MACHINE_CLONE], clones);
}

static void assert_had(const struct guest *g, unsigned greetings)
{
	fx_settle();
	assert_int_equal(fx.user[2].nready, 1);
	assert_ptr_equal(fx.user[2].s->guest, g);
	assert_string_equal(g->spec.name, "the second one");
	assert_false(g->changed);
	assert_int_equal(g->exercises, 0);
	assert_int_equal(g->generation, 1 + greetings);
}

static struct sandbox_spec fx_spec_of_one(void)
{
	struct sandbox_spec spec = fx_spec();

	spec.pool = (struct vm_pool){.target = 1, .low = 1};
	return spec;
}

static void on_its_way(void **state)
{
	struct sandbox_spec spec = fx_spec_of_one();
	struct guest *g = begin_filling(&spec);

	(void)state;
	spec.name = "the second one";
	take_over(g, &spec);
	machines_of(g)->events->up(machines_of(g)->data);
	assert_had(g, 1);
}

/* It was greeted as nobody's, and is told who has it when it is up. */
static void taken_in(enum guest_phase phase)
{
	struct sandbox_spec spec = fx_spec_of_one();
	struct guest *g = begin_filling(&spec);

	begin_phase(g, phase);
	spec.name = "the second one";
	take_over(g, &spec);
	assert_had(g, 2);
}

static void on_its_way_greeted(void **state)
{
	(void)state;
	taken_in(GUEST_SETUP);
}

static void on_its_way_exercised(void **state)
{
	(void)state;
	taken_in(GUEST_WARM);
}

/* As one that was started for its user: another machine boots in its place. */
static void on_its_way_dies(void **state)
{
	struct sandbox_spec spec = fx_spec_of_one();
	struct guest *g = begin_filling(&spec);
	struct problem p;

	(void)state;
	take_over(g, &spec);
	problem_set(&p, PROBLEM_AGENT_FAILED, "", "it was to die");
	machines_of(g)->events->down(machines_of(g)->data, &p);
	fx_settle();
	assert_int_equal(fx.user[2].nready, 1);
	assert_string_equal(fx_start_of(&fx.user[2]), "cold");
	assert_int_equal(fx_template()->clone_failures, 1);
}

/* Where there are no clones, what failed was begun before its user came: he gets a start of his own. */
static void begin_dying_unsaved(bool again)
{
	const struct sandbox_spec spec = fx_spec_of_one();
	struct user *u = &fx.user[2];
	struct problem p;

	problem_set(&p, PROBLEM_AGENT_FAILED, "", "it was to die");
	fx_open(&fx.user[0], &spec, "cold");
	fx_pass(500);
	machines.sleeps[MACHINE_COLD] = true;
	fx_open(&fx.user[1], &spec, "warm");
	fx_pass(200);
	fx_ask(u, &spec);
	assert_int_equal(fx_template()->nidle[IDLE_FILLING], 0);
	machines.sleeps[MACHINE_COLD] = again;
	for (unsigned i = 0; i < (again ? 2u : 1u); i++) {
		assert_non_null(u->s);
		machines_of(u->s->guest)->events->down(machines_of(u->s->guest)->data, &p);
		fx_settle();
	}
	machines.sleeps[MACHINE_COLD] = false;
}

static void on_its_way_dies_unsaved(void **state)
{
	(void)state;
	begin_dying_unsaved(false);
	assert_int_equal(fx.user[2].nready, 1);
}

/* His own is the last one. */
static void on_its_way_dies_twice(void **state)
{
	(void)state;
	begin_dying_unsaved(true);
	assert_int_equal(fx.user[2].nready, 0);
	assert_null(fx.user[2].s);
}

/* The user who took it does not wait for it any more. */
static void on_its_way_closed(void **state)
{
	struct sandbox_spec spec = fx_spec_of_one();
	struct guest *g = begin_filling(&spec);

	(void)state;
	begin_phase(g, GUEST_SETUP);
	take_over(g, &spec);
	fx_close(&fx.user[2]);
	fx_pass(1000);
	assert_int_equal(fx_template()->nidle[IDLE_READY], 1);
}

/* ---- standing by ---- */

static unsigned standing_by(void)
{
	return fx_template()->nidle[IDLE_STANDBY];
}

/* The pool is full, and one more stands by, in a place of its own. */
static struct template *open_with_standby(const struct sandbox_spec *spec)
{
	struct template *t = fx_open_first(spec);

	fx_pass(1000);
	assert_int_equal(standing_by(), 1);
	assert_int_equal(machines.started[MACHINE_CLONE], spec->pool.target + 1);
	assert_int_equal(pool_places(&fx.vm->pool), spec->pool.target + 1);
	return t;
}

static void stands_by(void **state)
{
	const struct sandbox_spec spec = fx_spec_of_one();
	struct template *t = open_with_standby(&spec);
	const struct guest *g = TAILQ_LAST(&t->idle, idle_list)->guest;

	(void)state;
	fx_open(&fx.user[1], &spec, "warm");
	fx_open(&fx.user[2], &spec, "snapshot");
	assert_ptr_equal(fx.user[2].s->guest, g);
	assert_int_equal(g->generation, 2); /* it was greeted once */
	fx_pass(1000);
	assert_int_equal(t->nidle[IDLE_READY], 1);
	assert_int_equal(standing_by(), 1);
	assert_int_equal(machines.started[MACHINE_CLONE], 4);
}

/* The pool is filled by what stands by. */
static void standby_fills(void **state)
{
	const struct sandbox_spec spec = fx_spec_of_one();
	struct template *t = open_with_standby(&spec);
	const struct guest *g = TAILQ_LAST(&t->idle, idle_list)->guest;

	(void)state;
	fx_open(&fx.user[1], &spec, "warm");
	fx_pass(1000);
	assert_int_equal(t->nidle[IDLE_READY], 1);
	assert_ptr_equal(TAILQ_FIRST(&t->idle)->guest, g);
	assert_int_equal(standing_by(), 1);
}

/* For however long: it has no deadline, and nobody expects it to answer. */
static void standby_waits(void **state)
{
	struct sandbox_spec spec = fx_spec_of_one();

	(void)state;
	open_with_standby(&spec);
	fx_pass(5 * MINUTE);
	assert_int_equal(standing_by(), 1);
	assert_int_equal(machines.started[MACHINE_CLONE], 2);
	fx_open(&fx.user[1], &spec, "warm");
	fx_open(&fx.user[2], &spec, "snapshot");
}

/* It ends by itself: another takes its place. */
static void standby_dies(void **state)
{
	const struct sandbox_spec spec = fx_spec_of_one();
	struct template *t = open_with_standby(&spec);
	struct guest *g = TAILQ_LAST(&t->idle, idle_list)->guest;
	struct problem p;

	(void)state;
	problem_set(&p, PROBLEM_AGENT_FAILED, "", "it was to die");
	machines_of(g)->events->down(machines_of(g)->data, &p);
	fx_pass(1000);
	assert_int_equal(t->clone_failures, 0); /* the snapshot is not to blame */
	assert_int_equal(standing_by(), 0);
	assert_true(uv_timer_get_due_in(&fx.vm->pool.timer) >
		    3000); /* it does not look all the time */
	fx_pass(5000);
	assert_int_equal(standing_by(), 1);
	assert_int_equal(machines.started[MACHINE_CLONE], 3);
	fx_assert_state(t, TEMPLATE_READY);
}

/* Where there is no memory for it, it does not try all the time. */
static void standby_lacks_memory(void **state)
{
	const struct sandbox_spec spec = fx_spec_of_one();
	struct template *t = open_with_standby(&spec);
	const unsigned room = fx.vm->admission.limits.memory_mb;

	(void)state;
	fx_open(&fx.user[1], &spec, "warm");
	fx.vm->admission.limits.memory_mb = fx.vm->admission.memory_used_mb;
	fx_pass(1000);
	assert_int_equal(t->nidle[IDLE_READY], 1); /* what stood by */
	assert_int_equal(standing_by(), 0);
	assert_true(uv_timer_get_due_in(&fx.vm->pool.timer) > 5000);
	fx.vm->admission.limits.memory_mb = room;
	fx_pass(20000);
	assert_int_equal(standing_by(), 1);
}

/* A template's only clone comes before what stands by for another one. */
static void standby_gives_way_to_a_clone(void **state)
{
	struct sandbox_spec spec = fx_spec_of_one();
	struct template *t;

	(void)state;
	fx_restart(10); /* five for the pool */
	for (unsigned i = 0; i < 3; i++, spec.memory_mb *= 2) {
		fx_ask(&fx.user[i], &spec);
		fx_pass(1000);
		assert_int_equal(fx.user[i].nready, 1);
	}
	fx_close(&fx.user[0]);
	fx_close(&fx.user[1]);
	fx_close(&fx.user[2]);
	fx_ask(&fx.user[3], &spec);
	fx_pass(2000);
	assert_int_equal(fx.user[3].nready, 1);
	fx_pass(MINUTE);
	TAILQ_FOREACH(t, &fx.vm->pool.templates, link)
		assert_int_equal(t->nidle[IDLE_READY], 1);
	assert_int_equal(standing_by(), 0); /* that of the oldest */
	assert_int_equal(pool_places(&fx.vm->pool), 5);
	assert_int_equal(machines.started[MACHINE_CLONE], 4 + 2);
}

/* Whoever waits for a place comes first. */
static void standby_gives_way(void **state)
{
	const struct sandbox_spec spec = fx_spec_of_one();

	(void)state;
	fx_restart(4);
	open_with_standby(&spec);
	fx_open(&fx.user[1], &spec, "warm");
	fx_open(&fx.user[2], &spec, "snapshot");
	fx_ask(&fx.user[3], &spec);
	fx_pass(1000);
	assert_int_equal(fx.user[3].nready, 1);
	assert_int_equal(pool_places(&fx.vm->pool), 0);
}

/* What can't be filled is not tried all the time. */
static void never_fills(void **state)
{
	const struct sandbox_spec spec = fx_spec_of_one();
	struct template *t;
	unsigned started, often = 0;

	(void)state;
	fx_open(&fx.user[0], &spec, "cold");
	machines.dies[MACHINE_COLD] = true;
	fx_pass(8 * MINUTE);
	t = fx_template();
	assert_true(t->clone_failures > 5);
	for (unsigned i = 0; i < 20; i++) {
		fx_pass(137);
		often += uv_timer_get_due_in(&fx.vm->pool.timer) <= 50;
	}
	assert_true(often < 5);
	started = machines.started[MACHINE_COLD];
	machines.dies[MACHINE_COLD] = false;
	fx_pass(61000);
	assert_int_equal(t->nidle[IDLE_READY], 1);
	assert_int_equal(machines.started[MACHINE_COLD], started + 1);
}

/* ---- growing and shrinking ---- */

/* How many were exercised in brief. */
static unsigned briefly(const struct template *t)
{
	const struct idle *i;
	unsigned n = 0;

	TAILQ_FOREACH(i, &t->idle, link)
		n += i->state == IDLE_READY && i->brief;
	return n;
}

/* Sessions find it empty: it grows, but not beyond what is allowed; when it is quiet it is as before. */
static void grows_and_shrinks(void **state)
{
	struct sandbox_spec spec = fx_spec_of_one();
	struct template *t;

	(void)state;
	spec.pool.most = 3;
	t = fx_open_first(&spec);
	assert_int_equal(t->grown, 0); /* it has found none, because there was none yet */
	for (unsigned i = 1; i < 6; i++)
		fx_open(&fx.user[i], &spec, i == 1 ? "warm" : "snapshot");
	fx_pass(1000);
	assert_int_equal(t->grown, 2);
	assert_int_equal(t->nidle[IDLE_READY], 3);
	assert_int_equal(briefly(t), 3); /* there was no time for more */
	fx_pass(31000);
	assert_int_equal(t->nidle[IDLE_READY], 2);
	fx_pass(31000);
	assert_int_equal(t->nidle[IDLE_READY], 1);
	fx_pass(MINUTE);
	assert_int_equal(t->nidle[IDLE_READY], 1); /* which is the least */
	assert_int_equal(briefly(t), 0);	   /* and was replaced */
}

/* Those that come too fast for a pool of the largest size keep it there. */
static void stays_grown(void **state)
{
	struct sandbox_spec spec = fx_spec_of_one();
	struct template *t;

	(void)state;
	spec.pool.most = 2;
	t = fx_open_first(&spec);
	for (unsigned i = 0; i < 4; i++) {
		fx_open(&fx.user[1], &spec, "warm");
		if (i > 0)
			fx_open(&fx.user[2], &spec, "warm");
		fx_open(&fx.user[3], &spec, "snapshot");
		for (unsigned n = 1; n < 4; n++)
			if (fx.user[n].s)
				fx_close(&fx.user[n]);
		memset(&fx.user[1], 0, 3 * sizeof(fx.user[1]));
		fx_pass(20000);
		assert_int_equal(t->grown, 1);
	}
}

/* Who finds none because there was none for long has not come too fast. */
static void grows_only_when_filled(void **state)
{
	struct sandbox_spec spec = fx_spec_of_one();
	struct template *t;

	(void)state;
	spec.pool.most = 3;
	t = fx_open_first(&spec);
	fx_pass(11 * MINUTE);
	assert_int_equal(t->nidle[IDLE_READY], 0);
	fx_open(&fx.user[1], &spec, "snapshot");
	assert_int_equal(t->grown, 0);
	fx_pass(1000);
	assert_int_equal(t->nidle[IDLE_READY], 1);
	fx_open(&fx.user[2], &spec, "warm");
	fx_open(&fx.user[3], &spec, "snapshot");
	assert_int_equal(t->grown, 1);
}

/* It was allowed more when it grew. */
static void grown_too_far(void **state)
{
	struct sandbox_spec spec = fx_spec_of_one();
	struct template *t;

	(void)state;
	spec.pool.most = 4;
	t = fx_open_first(&spec);
	for (unsigned i = 1; i < 5; i++)
		fx_open(&fx.user[i], &spec, i == 1 ? "warm" : "snapshot");
	assert_int_equal(pool_wanted(t), 4);
	spec.pool.most = 2;
	fx_open(&fx.user[5], &spec, "snapshot");
	assert_int_equal(pool_wanted(t), 2);
}

/* One that is not to have a pool gets none, however often it is asked for. */
static void grows_from_nothing(void **state)
{
	struct sandbox_spec spec = fx_spec_of_one();

	(void)state;
	spec.pool = (struct vm_pool){.target = 0, .most = 3};
	fx_open(&fx.user[0], &spec, "cold");
	fx_pass(1000);
	for (unsigned i = 1; i < 4; i++)
		fx_open(&fx.user[i], &spec, "snapshot");
	fx_pass(1000);
	assert_int_equal(pool_places(&fx.vm->pool), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, fx_setup, fx_teardown)
#define U(f) cmocka_unit_test_setup_teardown(f, fx_setup_unsaved, fx_teardown)
#define S(f) cmocka_unit_test_setup_teardown(f, fx_setup_standby, fx_teardown)
		T(on_its_way),
		T(on_its_way_greeted),
		T(on_its_way_exercised),
		T(on_its_way_dies),
		T(on_its_way_closed),
		U(on_its_way_dies_unsaved),
		U(on_its_way_dies_twice),
		S(stands_by),
		S(standby_fills),
		S(standby_waits),
		S(standby_dies),
		S(standby_gives_way),
		S(standby_lacks_memory),
		S(standby_gives_way_to_a_clone),
		U(never_fills),
		T(grows_and_shrinks),
		T(stays_grown),
		T(grows_only_when_filled),
		T(grown_too_far),
		T(grows_from_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
