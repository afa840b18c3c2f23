/* SPDX-License-Identifier: Apache-2.0 */
/* An unmount is seen whenever it happens. */
/* modules: fs/fuse/mountwatch.c vm/base/mount_table.c vm/base/buf.c tests/unit/fixture/own_mount.c */
/* libs: uv */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>
#include <cmocka.h>

#include "fs/fuse/mountwatch.h"
#include "tests/unit/fixture/own_mount.h"

#define LONG_MS 20000u

static char top[] = "/tmp/xsbx-unit.XXXXXX";

struct fixture {
	uv_loop_t loop;
	uv_timer_t late;
	struct mountwatch watch;
	int connection;
	unsigned ended;
};

static bool is_busy(void *data)
{
	(void)data;
	return false;
}

static void on_ended(void *data)
{
	struct fixture *fx = data;

	fx->ended++;
	uv_stop(&fx->loop);
}

static void on_late(uv_timer_t *timer)
{
	uv_stop(timer->loop);
}

static int set_up(void **state)
{
	struct fixture *fx = calloc(1, sizeof(*fx));

	if (!fx || uv_loop_init(&fx->loop) < 0)
		return -1;
	fx->watch.fd = -1;
	fx->watch.busy = is_busy;
	fx->watch.ended = on_ended;
	fx->watch.data = fx;
	fx->connection = own_mount(top);
	uv_timer_init(&fx->loop, &fx->late);
	uv_timer_start(&fx->late, on_late, LONG_MS, 0);
	*state = fx;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *fx = *state;

	mountwatch_close(&fx->watch);
	uv_close((uv_handle_t *)&fx->late, NULL);
	uv_run(&fx->loop, UV_RUN_DEFAULT);
	uv_loop_close(&fx->loop);
	if (fx->connection >= 0)
		own_unmount(top, fx->connection);
	free(fx);
	return 0;
}

static void begin(struct fixture *fx)
{
	if (fx->connection < 0) {
		print_message("no mount of FUSE here: %s\n", strerror(-fx->connection));
		skip();
	}
	assert_int_equal(mountwatch_start(&fx->watch, &fx->loop, top), 0);
	assert_true(fx->watch.device[0]);
}

static void detach(void)
{
	assert_int_equal(umount2(top, MNT_DETACH), 0);
}

/* The connection is open still, so that nothing else tells of it. */
static void test_unmounted(void **state)
{
	struct fixture *fx = *state;

	begin(fx);
	for (int i = 0; i < 3; i++)
		uv_run(&fx->loop, UV_RUN_NOWAIT);
	assert_int_equal(fx->ended, 0);
	detach();
	uv_run(&fx->loop, UV_RUN_DEFAULT);
	assert_int_equal(fx->ended, 1);
}

static void test_unmounted_before_the_loop_runs(void **state)
{
	struct fixture *fx = *state;

	begin(fx);
	detach();
	uv_run(&fx->loop, UV_RUN_DEFAULT);
	assert_int_equal(fx->ended, 1);
}

static void test_nothing_is_watched(void **state)
{
	struct fixture *fx = *state;

	assert_false(mountwatch_sees(&fx->watch));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_unmounted, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_unmounted_before_the_loop_runs, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(test_nothing_is_watched, set_up, tear_down),
	};
	int failed;

	if (!mkdtemp(top))
		return 1;
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	rmdir(top);
	return failed;
}
