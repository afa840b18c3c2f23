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

uv_loop_t loop;
struct spawner *sp;

int spawner_bed_setup(void **state)
{
	(void)state;
	assert_int_equal(spawner_start(&free_rules, &sp), 0);
	uv_loop_init(&loop);
	assert_int_equal(spawner_attach(sp, &loop), 0);
	return 0;
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
