/* SPDX-License-Identifier: Apache-2.0 */
/* A machinery with machines that are not there, users of it, and a time that stands still. */
#ifndef XSBX_TEMPLATE_BED_H
#define XSBX_TEMPLATE_BED_H

#include "machines_fake.h"
#include "vm/vm_internal.h"

#define USERS  8
#define MINUTE 60000u

/* A sandbox somebody asked for. */
struct user {
	struct sandbox *s;
	unsigned nready, nclosed;
	struct vm_problem problem;
};

struct bed {
	uv_loop_t loop;
	struct vm *vm;
	struct user user[USERS];
	char cache[64];
	bool vm_gone;
	bool in_call; /* of vm/: no callback may come */
	/* Watched from one turn of the loop to the next. */
	const struct template *watched;
	unsigned least_ready;
};

extern struct bed bed;

/* For cmocka: 32 places. */
int bed_setup(void **state);
int bed_teardown(void **state);

/* The machinery ends, whatever it is doing, and leaves nothing; begins, with the same cache. */
void bed_stop(void);
void bed_start(unsigned places);
void bed_restart(unsigned places);

/* Turns the loop until nothing happens any more unless time goes on. */
void bed_settle(void);

/* Lets time go on, from one timer to the next. */
void bed_pass(uint64_t ms);

/* From now on `least_ready` is the smallest number of ready clones of @t that was seen. */
void bed_watch(const struct template *t);

/* python, with a pool of two. */
struct sandbox_spec bed_spec(void);

void bed_ask(struct user *u, const struct sandbox_spec *spec);

/* Asks, and has it, started in this way, without time going on. */
void bed_open(struct user *u, const struct sandbox_spec *spec, const char *start);

/* The first user, whose kind then has its snapshot and its clones. */
struct template *bed_open_first(const struct sandbox_spec *spec);

/* A snapshot is on the disk, and is about to be read for the first user. */
void bed_begin_loading(const struct sandbox_spec *spec);

/* The first user is there; the machine for the snapshot boots, and will not be ready; or it is being
 * saved, and that does not end. */
struct template *bed_begin_building(const struct sandbox_spec *spec);
struct template *bed_begin_saving(const struct sandbox_spec *spec);

void bed_close(struct user *u);

/* The oldest kind of sandbox; how often any machine was started to make a snapshot. */
struct template *bed_template(void);
unsigned bed_recorded(void);

/* How it was started. */
const char *bed_start_of(const struct user *u);

void bed_assert_state(const struct template *t, enum template_state state);

#endif
