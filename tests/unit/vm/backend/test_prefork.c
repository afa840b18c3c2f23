/* SPDX-License-Identifier: Apache-2.0 */
/* Jails kept in reserve: made anew when they are taken, and later and later when they don't come up. */
/* modules: tests/unit/fixture/template_fixture.c */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/unit/fixture/template_fixture.h"
#include "vm/backend/prefork.h"

/* One jail at a time, which is its events. */
static struct {
	struct prefork reserve;
	const struct backend_events *events;
	void *data;
	unsigned made;
	bool dies;
} rack;

static struct backend jail;

static struct backend *make(struct backends *all, const void *bytes, size_t len,
			    const struct backend_events *events, void *data)
{
	(void)all;
	(void)bytes;
	(void)len;
	rack.events = events;
	rack.data = data;
	rack.made++;
	return &jail;
}

static bool alive(const struct backend *b)
{
	(void)b;
	return true;
}

static void give(struct backend *b, const struct backend_events *events, void *data)
{
	(void)b;
	rack.events = events;
	rack.data = data;
}

static void destroy(struct backend *b)
{
	(void)b;
	rack.events->destroyed(rack.data);
}

static const struct prefork_ops ops = {
	.make = make, .alive = alive, .give = give, .destroy = destroy};

static bool has_room(void *data)
{
	(void)data;
	return true;
}

static struct backend *take(void)
{
	static const struct backend_events none;

	return prefork_take(&rack.reserve, "shell", 5, &none, NULL);
}

/* Lets time go on, in which each that is made comes up, or goes down. */
static void pass(unsigned seconds)
{
	for (unsigned n = rack.made, ms = 0; ms < seconds * 1000; ms += 100) {
		machines_skip(100);
		uv_run(&fx.loop, UV_RUN_NOWAIT);
		if (n == rack.made)
			continue;
		n = rack.made;
		if (rack.dies)
			rack.events->down(rack.data, NULL);
		else
			rack.events->up(rack.data);
	}
}

static int setup(void **state)
{
	memset(&rack, 0, sizeof(rack));
	fx_setup(state);
	prefork_init(&rack.reserve, &fx.vm->backends, &ops, has_room, NULL);
	return 0;
}

static int teardown(void **state)
{
	prefork_clear(&rack.reserve);
	uv_close((uv_handle_t *)&rack.reserve.timer, NULL);
	return fx_teardown(state);
}

static void made_anew(void **state)
{
	(void)state;
	assert_null(take());
	pass(1);
	for (unsigned i = 1; i < 5; i++) {
		assert_int_equal(rack.made, i);
		assert_ptr_equal(take(), &jail);
		pass(1);
	}
}

static void later_and_later(void **state)
{
	(void)state;
	rack.dies = true;
	assert_null(take());
	for (unsigned i = 0; i < 8; i++) {
		pass(30);
		assert_null(take()); /* still wanted */
	}
	/* After 1 s, 2 s, 4 s, ... and each minute. */
	assert_in_range(rack.made, 7, 10);
	rack.dies = false;
	pass(30);
	(void)take(); /* still wanted */
	pass(31);
	assert_ptr_equal(take(), &jail);
}

/* One that came up once is tried again at once. */
static void never_mind(void **state)
{
	unsigned before;

	(void)state;
	rack.dies = true;
	assert_null(take());
	pass(20);
	rack.dies = false;
	pass(20);
	before = rack.made;
	rack.events->down(rack.data, NULL);
	pass(3);
	assert_int_equal(rack.made, before + 1);
	assert_ptr_equal(take(), &jail);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
		T(made_anew),
		T(later_and_later),
		T(never_mind),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
