/* SPDX-License-Identifier: Apache-2.0 */
/* What is looked at before a lease is granted, with processes that are only told of. */
/* modules: agent/lease.c agent/protocol.c */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "agent/agent.h"
#include "agent/core/guest_env.h"
#include "agent/core/proc.h"
#include "agent/core/spawn.h"
#include "agent/core/util.h"
#include "agent/interp/rest.h"
#include "agent/lease.h"

#define PID	    100 /* the active interpreter; that of the spare is the next */
#define PEER	    1000u
#define ID	    7u
#define SIGSET(sig) (1ull << ((sig)-1))

static struct agent a;
static const struct guest_env env = {.work = "/", .home = "/", .lib = "/"};

/* What the kernel would say. */
static struct {
	uint64_t threads[2], caught[2];
	enum rest_state rest[2];
	bool unread[2], limited[2];
	bool refused;
	unsigned nudges[2];
	bool stranger; /* another process */
	bool job;      /* a program beside the interpreter, which may have no process yet */
	void (*during_scan)(void);
	pid_t newest;
} now;

bool jobs_active(const struct jobs *all)
{
	(void)all;
	return now.job;
}

static int answered; /* -1: not yet */
static unsigned nscans;

static pid_t pid_in(const char *path)
{
	int pid = 0;

	return sscanf(path, "/proc/%d/", &pid) == 1 ? pid : 0;
}

uint64_t proc_number(const char *path, const char *key, int base)
{
	if (strcmp(key, "SigCgt:") != 0)
		return 0;
	assert_int_equal(base, 16);
	return now.caught[pid_in(path) - PID];
}

int proc_read_stat(const char *path, struct proc_stat *ret_s)
{
	*ret_s = (struct proc_stat){.state = 'S', .threads = now.threads[pid_in(path) - PID]};
	return 0;
}

enum rest_state rest_look(const struct rest *r)
{
	return now.rest[container_of(r, const struct interp, rest)->pid - PID];
}

bool rest_lasts(pid_t pid, const struct rest *r, uint64_t socket)
{
	(void)r;
	assert_int_equal(socket, PEER + (uint64_t)(pid - PID));
	return !now.limited[pid - PID];
}

bool interp_unread(const struct interp *i)
{
	return now.unread[i->pid - PID];
}

bool interp_nudge(struct interp *i)
{
	now.nudges[i->pid - PID]++;
	return !now.refused;
}

static int list(struct proc_set *set)
{
	static struct proc v[3];

	for (unsigned i = 0; i < ARRAY_SIZE(v); i++)
		v[i] = (struct proc){.pid = PID + (pid_t)i, .live = true};
	set->v = v;
	set->n = now.stranger ? 3 : 2;
	return 0;
}

int proc_children(struct proc_set *set)
{
	return list(set);
}

int proc_scan(struct proc_set *set)
{
	nscans++;
	if (now.during_scan)
		now.during_scan();
	return list(set);
}

void proc_set_clear(struct proc_set *set)
{
	*set = (struct proc_set){0};
}

pid_t proc_last_pid(void)
{
	return now.newest;
}

bool proc_forked_since(pid_t newest)
{
	return now.newest != newest;
}

struct frame *frame_new(enum proto_type type, uint32_t id, size_t cap)
{
	struct frame *f = calloc(1, sizeof(*f) + 64);

	assert_int_equal(type, PROTO_LEASED);
	assert_int_equal(id, ID);
	assert_true(f && cap <= 64);
	f->out = (struct proto_out){(uint8_t *)(f + 1), 0, cap, false};
	return f;
}

void conn_send(struct conn *c, struct frame *f)
{
	assert_ptr_equal(c, &a.conn);
	assert_int_equal(f->out.len, 4);
	answered = f->out.data[0];
	free(f);
}

void loop_arm(struct loop *l, struct loop_timer *t, uint64_t delay_us)
{
	(void)l;
	assert_true(delay_us > 0);
	t->armed = true;
}

void loop_stop(struct loop *l, int result)
{
	(void)l;
	(void)result;
	fail();
}

static int setup(void **state)
{
	(void)state;
	memset(&a, 0, sizeof(a));
	memset(&now, 0, sizeof(now));
	a.env = &env;
	for (int i = 0; i < 2; i++) {
		a.spares.slots[i] = (struct interp){.state = INTERP_IDLE,
						    .pid = PID + i,
						    .peer = PEER + (uint64_t)i,
						    .config = &a.config,
						    .env = &env};
		now.threads[i] = 1;
		now.rest[i] = REST_THERE;
	}
	a.spares.slots[0].touched = a.spares.slots[0].holds = true;
	now.newest = 200;
	return 0;
}

/* Return: the answer, or -1 if it looks again later. */
static int look_later(void)
{
	a.look.armed = false;
	lease_advance(&a);
	return answered;
}

/* Some of what is looked at later, too. */
static int ask(void)
{
	answered = -1;
	a.look.armed = false;
	lease_ask(&a, ID);
	lease_advance(&a);
	for (int i = 0; answered < 0 && i < 3; i++)
		(void)look_later();
	return answered;
}

static void plain(void **state)
{
	(void)state;
	assert_int_equal(ask(), 1);
	now.stranger = true;
	assert_int_equal(ask(), 0);
	now.stranger = false;
	now.job = true;
	assert_int_equal(ask(), -1);
	now.job = false;
	now.rest[0] = REST_AWAY;
	assert_int_equal(ask(), -1);
	now.rest[0] = REST_UNKNOWN;
	assert_int_equal(ask(), 0);
}

/* Packages that were imported have left nothing that would be missed, but may have left threads, handlers and timers:
 * there, and in copies. */
static void touched(void **state)
{
	struct interp *spare = &a.spares.slots[1];

	(void)state;
	now.threads[1] = 5; /* as some runtimes have before they execute anything */
	now.rest[1] = REST_UNKNOWN;
	assert_int_equal(ask(), 1);
	spare->touched = true;
	assert_int_equal(ask(), 0);
	now.rest[1] = REST_THERE;
	assert_int_equal(ask(), 0);
	now.threads[1] = 1;
	assert_int_equal(ask(), 1);
	now.caught[1] = SIGSET(SIGALRM);
	assert_int_equal(ask(), 0);
	now.caught[1] = 0;
	now.rest[1] = REST_AWAY;
	assert_int_equal(ask(), -1);
}

/* Whatever number it has: the kernel sends it for what was set up before. */
static void signals(void **state)
{
	(void)state;
	for (int sig = 1; sig <= 64; sig++) {
		now.caught[0] = SIGSET(sig);
		assert_int_equal(ask(), 0);
	}
}

/* Not before the driver was told to tidy up, which executes the user's code. */
static void tidied_up(void **state)
{
	(void)state;
	a.run.settle.armed = true;
	assert_int_equal(ask(), -1);
	a.run.settle.armed = false;
	lease_advance(&a);
	assert_int_equal(answered, -1);
	assert_int_equal(look_later(), 1);
}

/* Of what is caught waiting nobody knows when that has begun. */
static void nudged(void **state)
{
	(void)state;
	lease_ask(&a, ID);
	answered = -1;
	lease_advance(&a);
	assert_int_equal(answered, -1);
	assert_int_equal(now.nudges[0], 1);
	assert_int_equal(now.nudges[1], 0); /* executed nothing */
	now.unread[0] = true;
	assert_int_equal(look_later(), -1);
	now.unread[0] = false;
	assert_int_equal(look_later(), 1);
	assert_int_equal(now.nudges[0], 1);
	/* It does not listen there at all. */
	now.unread[0] = true;
	assert_int_equal(ask(), -1);
	for (int i = 0; answered < 0; i++) {
		assert_true(i < 20);
		(void)look_later();
	}
	assert_int_equal(answered, 0);
	now.unread[0] = false;
	now.refused = true;
	assert_int_equal(ask(), 0);
}

/* Another socket, or a limit of time: found before it is nudged, or after. */
static void limited(void **state)
{
	(void)state;
	now.limited[0] = true;
	assert_int_equal(ask(), 0);
	now.limited[0] = false;
	answered = -1;
	lease_ask(&a, ID);
	lease_advance(&a);
	now.limited[0] = true;
	assert_int_equal(look_later(), 0);
	now.limited[0] = false;
	assert_int_equal(ask(), 1);
}

/* Files that are open may have been passed on. */
static void writes_elsewhere(void **state)
{
	static const struct guest_env writes = {
		.work = "/", .home = "/", .lib = "/", .write = {"/srv"}, .nwrite = 1};
	static const struct guest_env lies_over = {
		.work = "/", .home = "/", .lib = "/", .store = "/store"};

	(void)state;
	a.env = &writes;
	assert_int_equal(ask(), 0);
	a.env = &lies_over;
	assert_int_equal(ask(), 0);
	a.env = &env;
	assert_int_equal(ask(), 1);
}

static void wake(void)
{
	now.rest[0] = REST_AWAY;
}

static void fork_one(void)
{
	now.newest++;
	now.during_scan = NULL;
}

/* What has ended before it was looked for may have woken what was looked at before, and what comes and goes while that
 * is nudged may have changed anything. */
static void during_scan(void **state)
{
	(void)state;
	now.during_scan = wake;
	assert_int_equal(ask(), -1);
	assert_true(nscans > 0);
	now.rest[0] = REST_THERE;
	now.during_scan = fork_one;
	now.nudges[0] = 0;
	assert_int_equal(ask(), 1);
	assert_int_equal(now.nudges[0], 2);
	a.spares.slots[0].touched = false;
	now.during_scan = fork_one;
	assert_int_equal(ask(), 1);
	now.during_scan = NULL;
	assert_int_equal(ask(), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup(f, setup)
		T(plain),  T(touched), T(signals),	    T(tidied_up),
		T(nudged), T(limited), T(writes_elsewhere), T(during_scan),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
