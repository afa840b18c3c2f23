/* SPDX-License-Identifier: Apache-2.0 */
/* Who asks the store's client for something, when it is his turn, and what he is told. */
/* modules: vm/build/store_client.c vm/store/kind.c vm/order/order.c vm/base/lines.c */
/* libs: uv */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "vm/base/log.h"
#include "vm/build/store_client.h"
#include "vm/order/order.h"

static uv_loop_t loop;
static struct context ctx;
static struct store_client client;

/* ---- what it calls ---- */

static char started[256]; /* keys of the programs, in order */
static struct program *running[2];
static unsigned nrunning, holds;
static int start_fails;

int program_start(struct program *p, uv_loop_t *l, struct spawner *sp, const void *request,
		  size_t size)
{
	const struct order *order = request;
	size_t len;

	(void)l;
	(void)sp;
	assert_int_equal(size, sizeof(*order));
	if (start_fails)
		return start_fails;
	assert_true(nrunning < 2);
	running[nrunning++] = p;
	len = strlen(started);
	snprintf(started + len, sizeof(started) - len, "%s ", order->store.key);
	return 0;
}

void child_kill(struct child *c)
{
	(void)c;
}

void context_event(struct context *c, const char *kind, const char *words, ...)
{
	(void)c;
	(void)kind;
	(void)words;
}

void context_hold(struct context *c)
{
	(void)c;
	holds++;
}

void context_release(struct context *c)
{
	(void)c;
	holds--;
}

void log_write(enum log_level level, const char *fmt, ...)
{
	(void)level;
	(void)fmt;
}

/* The program that was started first ends like that. */
static void over(enum store_end end)
{
	struct program *p = running[0];

	assert_true(nrunning > 0);
	running[0] = running[1];
	nrunning--;
	p->status = (int)end << 8;
	p->over(p);
}

/* ---- who asks ---- */

static char told[256];	 /* for whom, and how it ended */
static const char *then; /* is asked for when something has come */

static void on_done(void *data, const char *key, enum store_end end, const char *why)
{
	const size_t len = strlen(told);

	assert_non_null(why);
	snprintf(told + len, sizeof(told) - len, "%s=%s:%d ", (const char *)data, key, (int)end);
	if (then)
		store_client_get(&client, STORE_LAYER, steal_ptr(then), 0, 0, on_done,
				 (void *)"then");
}

static bool ask(const char *key)
{
	return store_client_get(&client, STORE_LAYER, key, 0, 0, on_done, (void *)key);
}

static int setup(void **state)
{
	const struct vm_store cfg = {
		.url = "https://host/bucket", .program = "store", .read = true, .write = true};

	(void)state;
	memset(&ctx, 0, sizeof(ctx));
	memset(&client, 0, sizeof(client));
	assert_int_equal(uv_loop_init(&loop), 0);
	ctx.loop = &loop;
	ctx.spawner = (struct spawner *)&ctx;
	started[0] = told[0] = '\0';
	nrunning = holds = 0;
	start_fails = 0;
	then = NULL;
	return store_client_init(&client, &ctx, &cfg);
}

static int teardown(void **state)
{
	(void)state;
	assert_int_equal(holds, 0);
	store_client_fini(&client);
	return uv_loop_close(&loop);
}

static void one_after_the_other(void **state)
{
	(void)state;
	assert_true(ask("a") && ask("b"));
	store_client_put(&client, STORE_LAYER, "p", 0, false);
	store_client_put(&client, STORE_LAYER, "p", 0, false);
	assert_string_equal(started, "a p ");
	over(STORE_DONE);
	over(STORE_DONE);
	assert_string_equal(started, "a p b ");
	over(STORE_ABSENT);
	assert_string_equal(told, "a=a:0 b=b:3 ");
	assert_int_equal(client.st.put, 1);
}

/* Each is told of what he asked for, also who asks from within, while others wait. */
static void asked_from_within(void **state)
{
	(void)state;
	assert_true(ask("a") && ask("b"));
	then = "c";
	over(STORE_DONE);
	over(STORE_DONE);
	over(STORE_DONE);
	assert_string_equal(started, "a b c ");
	assert_string_equal(told, "a=a:0 b=b:0 then=c:0 ");
}

static void not_started(void **state)
{
	(void)state;
	assert_true(ask("a") && ask("b"));
	start_fails = -EAGAIN;
	over(STORE_DONE);
	assert_string_equal(told, "a=a:0 b=b:4 ");
	assert_false(ask("c"));
	assert_false(ask("../c"));
	start_fails = 0;
	assert_true(ask("d"));
	over(STORE_DONE);
	assert_string_equal(told, "a=a:0 b=b:4 d=d:0 ");
}

/* After two failures; who waits then is told so. */
static void left_alone(void **state)
{
	struct vm_store_status st;

	(void)state;
	assert_true(ask("a") && ask("b") && ask("c"));
	over(STORE_AWAY);
	assert_string_equal(started, "a b ");
	over(STORE_AWAY);
	assert_string_equal(started, "a b ");
	assert_string_equal(told, "a=a:4 b=b:4 c=c:4 ");
	assert_false(ask("d"));
	store_client_status(&client, &st);
	assert_string_equal(st.state, "left-alone");
	assert_int_equal(st.failed, 2);
}

static void at_the_end(void **state)
{
	(void)state;
	assert_true(ask("a") && ask("b"));
	ctx.closing = true;
	store_client_cut(&client);
	assert_string_equal(told, "b=b:4 ");
	assert_false(ask("c"));
	over(STORE_DONE);
	assert_string_equal(told, "b=b:4 a=a:4 ");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(one_after_the_other, setup, teardown),
		cmocka_unit_test_setup_teardown(asked_from_within, setup, teardown),
		cmocka_unit_test_setup_teardown(not_started, setup, teardown),
		cmocka_unit_test_setup_teardown(left_alone, setup, teardown),
		cmocka_unit_test_setup_teardown(at_the_end, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
