/* SPDX-License-Identifier: Apache-2.0 */
/* Parked reads that are woken while answers wait for the end of the turn: not all of them at once. */
/* modules: fs/request/waitlist.c fs/request/handle_notes.c fs/request/touched.c vm/base/turn.c vm/base/blackbox.c vm/base/estate.c vm/base/estate_file.c vm/base/io.c vm/base/estate_items.c vm/base/estate_load.c vm/base/estate_tidy.c vm/base/memory.c vm/base/record.c vm/base/buf.c */
/* libs: uv */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "fs/request/reply.h"
#include "fs/request/waitlist.h"
#include "vm/base/estate.h"

#define READERS 20u
#define SIZE	(256u << 10)

struct req {
	bool answered;
	int err;
	void (*interrupt)(struct req *req, void *data);
	void *data;
};

struct fixture {
	uv_loop_t loop;
	struct estate *estate;
	struct turn turn;
	struct touched touched;
	struct handles handles;
	struct handle h;
	struct waitlist list;
	struct req req[READERS];
	bool there;	 /* what they wait for */
	unsigned rounds; /* of the turn */
};

/* ---- what waitlist.c calls ---- */

void reply_err(struct req *req, int err)
{
	assert_false(req->answered);
	req->answered = true;
	req->err = err;
}

void req_on_interrupt(struct req *req, void (*fn)(struct req *req, void *data), void *data)
{
	req->interrupt = fn;
	req->data = data;
}

void pollwait_notify(struct pollwait *pw)
{
	(void)pw;
}

void pollwait_free(struct pollwait *pw)
{
	(void)pw;
}

/* ---- who reads ---- */

static struct fixture *now;

static void on_read(struct handle *h, struct req *req, size_t size, uint64_t offset, bool nonblock)
{
	(void)nonblock;
	if (!now->there) {
		wait_park(h, req, size, offset);
		return;
	}
	reply_err(req, 0);
	turn_queued(&now->turn, size);
	turn_due(&now->turn);
}

static int on_write(void *data, struct estate *e)
{
	struct fixture *fx = data;

	(void)e;
	fx->rounds++;
	return 0;
}

static const struct handle_ops reads = {.read = on_read};
static const struct turn_ops turn_ops = {.write = on_write};

static int set_up(void **state)
{
	struct fixture *fx = calloc(1, sizeof(*fx));

	if (!fx || uv_loop_init(&fx->loop) < 0 || estate_new(&fx->estate) < 0)
		return -1;
	turn_start(&fx->turn, &fx->loop, fx->estate, &turn_ops, fx);
	turn_now(&fx->turn);
	fx->rounds = 0;
	touched_init(&fx->touched, &fx->turn);
	fx->handles.touched = &fx->touched;
	fx->h = (struct handle){.all = &fx->handles, .ops = &reads, .waitlist = &fx->list};
	waitlist_init(&fx->list);
	now = fx;
	for (unsigned i = 0; i < READERS; i++)
		wait_park(&fx->h, &fx->req[i], SIZE, 0);
	*state = fx;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *fx = *state;

	turn_close(&fx->turn);
	uv_run(&fx->loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&fx->loop), 0);
	estate_free(fx->estate);
	free(fx);
	return 0;
}

static unsigned count(const struct fixture *fx, int err)
{
	unsigned n = 0;

	for (unsigned i = 0; i < READERS; i++)
		n += fx->req[i].answered && fx->req[i].err == err;
	return n;
}

static void not_all_at_once(void **state)
{
	struct fixture *fx = *state;

	fx->there = true;
	wait_wake(&fx->list);
	assert_in_range(count(fx, 0), 4, 5); /* a MiB of answers */
	turn_now(&fx->turn);
	assert_int_equal(count(fx, 0), READERS);
	assert_in_range(fx->rounds, READERS * SIZE >> 20, (READERS * SIZE >> 20) + 1);
	assert_int_equal(fx->list.nwaiters, 0);
}

/* Without turns, and where there is nothing to read, it is as ever. */
static void all_at_once(void **state)
{
	struct fixture *fx = *state;

	wait_wake(&fx->list);
	assert_int_equal(fx->list.nwaiters, READERS);
	assert_null(fx->list.turn);
	fx->handles.touched = NULL;
	fx->there = true;
	wait_wake(&fx->list);
	assert_int_equal(count(fx, 0), READERS);
}

/* Who was woken in time gets what there is, if it all ends now. */
static void ends_meanwhile(void **state)
{
	struct fixture *fx = *state;

	fx->there = true;
	wait_wake(&fx->list);
	wait_flush(&fx->list, -ESTALE);
	assert_int_equal(count(fx, 0), READERS);
	assert_null(fx->list.turn);
	turn_now(&fx->turn);
}

/* Those who were left may go by themselves, and the list with them. */
static void interrupted_meanwhile(void **state)
{
	struct fixture *fx = *state;
	unsigned n = 0;

	fx->there = true;
	wait_wake(&fx->list);
	assert_non_null(fx->list.turn);
	for (unsigned i = 0; i < READERS; i++) {
		if (fx->req[i].answered)
			continue;
		fx->req[i].interrupt(&fx->req[i], fx->req[i].data);
		n++;
	}
	assert_in_range(n, READERS - 5, READERS - 4);
	assert_int_equal(count(fx, -EINTR), n);
	assert_null(fx->list.turn);
	memset(&fx->list, 0xff, sizeof(fx->list));
	turn_now(&fx->turn);
}

#define test(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		test(not_all_at_once),
		test(all_at_once),
		test(ends_meanwhile),
		test(interrupted_meanwhile),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
