/* SPDX-License-Identifier: Apache-2.0 */
/* For tests of what starts processes: a spawner, and a loop that it is attached to. */
/* modules: vm */
/* libs: uv seccomp crypto */
#include "spawner_bed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "vm/util.h"

#define SPAWNER_BED_MS 20000 /* for what takes milliseconds */

uv_loop_t loop;
struct spawner *sp;

void spawner_bed_start(const struct spawner_rules *rules)
{
	assert_int_equal(spawner_start(rules, &sp), 0);
	uv_loop_init(&loop);
	assert_int_equal(spawner_attach(sp, &loop), 0);
}

int spawner_bed_setup(void **state)
{
	(void)state;
	spawner_bed_start(&free_rules);
	return 0;
}

static void on_late(uv_timer_t *timer)
{
	(void)timer;
	fail_msg("nothing was heard of it");
}

void spawner_bed_await(const bool *what)
{
	uv_timer_t timer;

	uv_timer_init(&loop, &timer);
	uv_timer_start(&timer, on_late, SPAWNER_BED_MS, 0);
	while (!*what)
		uv_run(&loop, UV_RUN_ONCE);
	uv_close((uv_handle_t *)&timer, NULL);
	uv_run(&loop, UV_RUN_NOWAIT);
}

bool spawner_bed_has_children(void)
{
	char path[64], line[16] = "";
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)spawner_pid(sp),
		 (int)spawner_pid(sp));
	f = fopen(path, "re");
	assert_non_null(f);
	(void)!fgets(line, sizeof(line), f);
	fclose(f);
	return line[0] != '\0';
}

void spawner_bed_await_childless(void)
{
	for (int ms = 0; spawner_bed_has_children(); ms += 10) {
		assert_true(ms < SPAWNER_BED_MS);
		usleep(10000);
	}
}

int spawner_bed_capture(struct capture *c, const char *const argv[], uint32_t flags, unsigned ms,
			void (*done)(struct capture *c))
{
	static const char *const no_env[] = {NULL};
	const struct free_job job = {
		.argv = argv, .envp = no_env, .target = {{0, 1}}, .ntargets = 1, .flags = flags};
	char request[SPAWN_MESSAGE_MAX];
	const ssize_t n = free_pack(&job, request, sizeof(request));

	return n < 0 ? (int)n : capture_start(c, &loop, sp, request, (size_t)n, ms, done);
}

int spawner_bed_tool(struct tool *t, const char *const argv[], const char *const envp[])
{
	const struct free_job job = {
		.argv = argv, .envp = envp, .target = {{0, 1}, {0, 2}}, .ntargets = 2};
	char request[SPAWN_MESSAGE_MAX];
	const ssize_t n = free_pack(&job, request, sizeof(request));

	return n < 0 ? (int)n : tool_start(t, &loop, sp, request, (size_t)n);
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
