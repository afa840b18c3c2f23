/* SPDX-License-Identifier: Apache-2.0 */
/* For tests of what starts processes: a spawner, and a loop that it is attached to. */
/* modules: vm */
/* libs: uv seccomp */
#include "spawner_bed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

uv_loop_t loop;
struct spawner *sp;

int spawner_bed_setup(void **state)
{
	(void)state;
	assert_int_equal(spawner_start(&sp), 0);
	uv_loop_init(&loop);
	assert_int_equal(spawner_attach(sp, &loop), 0);
	return 0;
}

static void nothing(void *data)
{
	(void)data;
}

int spawner_bed_teardown(void **state)
{
	(void)state;
	spawner_detach(sp, nothing, NULL);
	uv_run(&loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&loop), 0);
	spawner_stop(sp);
	return 0;
}
