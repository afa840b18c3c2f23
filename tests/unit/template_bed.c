/* SPDX-License-Identifier: Apache-2.0 */
/* A machinery with machines that are not there, users of it, and a time that stands still. */
/* modules: tests/unit/machines_fake.c vm */
/* libs: uv crypto jansson seccomp */
#include "template_bed.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "vm/log.h"
#include "vm/remove.h"

#define OWN_PARTS 4  /* handles of the machinery when nothing is done in other threads */
#define HANGS_S	  20 /* real time */

struct bed bed;

/* ---- callbacks ---- */

static void on_state(void *data, enum sandbox_state state)
{
	struct user *u = data;

	assert_false(bed.in_call);
	u->nready += state == SANDBOX_READY;
}

static void on_closed(void *data, const struct vm_problem *problem)
{
	struct user *u = data;

	assert_false(bed.in_call);
	u->nclosed++;
	if (problem)
		u->problem = *problem;
	u->s = NULL;
}

static const struct sandbox_events events = {
	.state = on_state,
	.console = sandbox_unheard_console,
	.output = sandbox_unheard_output,
	.exit = sandbox_unheard_exit,
	.closed = on_closed,
};

/* ---- time ---- */

static bool is_busy(void)
{
	bool busy = machines_play() || (uv_loop_alive(&bed.loop) && !uv_backend_timeout(&bed.loop));

	if (!bed.vm_gone && bed.vm->nhandles > OWN_PARTS && !machines.jobs_held) {
		poll(NULL, 0, 1);
		busy = true;
	}
	return busy;
}

/* Until nothing happens any more unless time goes on. */
void bed_settle(void)
{
	const time_t begin = time(NULL);
	unsigned quiet = 0;

	while (quiet < 4) {
		assert_true(time(NULL) - begin < HANGS_S);
		uv_run(&bed.loop, UV_RUN_NOWAIT);
		quiet = is_busy() ? 0 : quiet + 1;
		if (bed.watched)
			bed.least_ready = MIN(bed.least_ready, bed.watched->nready);
	}
}

void bed_pass(uint64_t ms)
{
	bed_settle();
	while (ms) {
		const int due = uv_backend_timeout(&bed.loop);
		const uint64_t step = due > 0 ? MIN((uint64_t)due, ms) : ms;

		machines_skip(step);
		ms -= step;
		bed_settle();
	}
}

/* ---- the bed ---- */

void bed_start(unsigned places)
{
	const struct vm_config cfg = {
		.cache_dir = bed.cache,
		.runtime_dir = "/nonexistent",
		.qemu = "qemu",
		.agent = "agent",
		.accel = "auto",
		.max_vms = places,
		.admission_s = 600,
		.boot_s = 60,
	};

	bed.vm_gone = false;
	memset(machines.started, 0, sizeof(machines.started));
	machines.destroyed = 0;
	assert_int_equal(vm_new_with(&backend_machines, &bed.loop, NULL, &cfg, NULL, NULL, &bed.vm),
			 0);
}

static void on_vm_closed(void *data)
{
	assert_false(bed.in_call);
	*(bool *)data = true;
}

/* Whatever it is doing. */
void bed_stop(void)
{
	unsigned started = 0;

	bed.watched = NULL;
	bed.in_call = true;
	vm_close(bed.vm, on_vm_closed, &bed.vm_gone);
	bed.in_call = false;
	machines_release_jobs();
	for (unsigned i = 0; i < 100 && !bed.vm_gone; i++)
		bed_pass(20);
	assert_true(bed.vm_gone);
	for (unsigned i = 0; i < USERS; i++)
		assert_null(bed.user[i].s);
	for (unsigned i = 0; i < MACHINES_NMODES; i++)
		started += machines.started[i];
	assert_int_equal(started, machines.destroyed);
}

void bed_restart(unsigned places)
{
	bed_stop();
	bed_start(places);
}

int bed_setup(void **state)
{
	(void)state;
	memset(&bed, 0, sizeof(bed));
	log_open(LOG_LEVEL_ERROR);
	snprintf(bed.cache, sizeof(bed.cache), "%s/pool.XXXXXX",
		 getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
	assert_non_null(mkdtemp(bed.cache));
	uv_loop_init(&bed.loop);
	machines_init(&bed.loop);
	bed_start(32);
	return 0;
}

int bed_teardown(void **state)
{
	(void)state;
	if (!bed.vm_gone)
		bed_stop();
	bed_settle();
	assert_int_equal(uv_loop_close(&bed.loop), 0);
	remove_tree(bed.cache);
	return 0;
}

void bed_watch(const struct template *t)
{
	bed.watched = t;
	bed.least_ready = t->nready;
}

/* ---- users ---- */

struct sandbox_spec bed_spec(void)
{
	return (struct sandbox_spec){
		.name = "python-demo",
		.image = "python",
		.language = "python",
		.memory_mb = 64,
		.cpus = 1,
		.pool = {.target = 2, .low = 2},
	};
}

void bed_ask(struct user *u, const struct sandbox_spec *spec)
{
	memset(u, 0, sizeof(*u));
	bed.in_call = true;
	assert_int_equal(sandbox_new(bed.vm, spec, &events, u, &u->s), 0);
	bed.in_call = false;
}

const char *bed_start_of(const struct user *u)
{
	struct sandbox_info info;

	assert_non_null(u->s);
	sandbox_info(u->s, &info);
	return info.start;
}

/* Asks, and has it, without time going on. */
void bed_open(struct user *u, const struct sandbox_spec *spec, const char *start)
{
	bed_ask(u, spec);
	bed_settle();
	assert_int_equal(u->nready, 1);
	assert_string_equal(bed_start_of(u), start);
}

void bed_close(struct user *u)
{
	bed.in_call = true;
	sandbox_close(u->s);
	bed.in_call = false;
	bed_settle();
	assert_int_equal(u->nclosed, 1);
}

void bed_assert_state(const struct template *t, enum template_state state)
{
	assert_string_equal(template_state_str(t->state), template_state_str(state));
}

/* One user, whose kind then has its snapshot and its clones. */
struct template *bed_open_first(const struct sandbox_spec *spec)
{
	struct template *t;

	bed_open(&bed.user[0], spec, "cold");
	bed_pass(2000);
	t = bed_template();
	bed_assert_state(t, TEMPLATE_READY);
	assert_int_equal(t->nready, spec->pool.target);
	return t;
}

struct template *bed_template(void)
{
	return TAILQ_FIRST(&bed.vm->templates);
}

/* How often any machine was started that way. */
unsigned bed_recorded(void)
{
	return machines.started[BACKEND_RECORD];
}

/* A snapshot is on the disk, and is about to be read for the first user. */
void bed_begin_loading(const struct sandbox_spec *spec)
{
	bed_open_first(spec);
	bed_restart(32);
	machines_hold_jobs();
	bed_ask(&bed.user[0], spec);
	bed_settle();
	bed_assert_state(bed_template(), TEMPLATE_LOADING);
	assert_int_equal(bed.user[0].nready, 0);
}

struct template *bed_begin_building(const struct sandbox_spec *spec)
{
	struct template *t;

	machines.sleeps[BACKEND_RECORD] = true;
	bed_open(&bed.user[0], spec, "cold");
	bed_pass(100);
	t = bed_template();
	bed_assert_state(t, TEMPLATE_BUILDING);
	return t;
}

struct template *bed_begin_saving(const struct sandbox_spec *spec)
{
	struct template *t;

	machines.save_sleeps = true;
	bed_open(&bed.user[0], spec, "cold");
	bed_pass(2000);
	t = bed_template();
	bed_assert_state(t, TEMPLATE_BUILDING);
	assert_int_equal(t->builder->phase, PHASE_SAVE);
	return t;
}
