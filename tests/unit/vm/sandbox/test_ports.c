/* SPDX-License-Identifier: Apache-2.0 */
/* Ports that sandboxes ask for and can't have, and those that they give up. */
/* modules: tests/unit/fixture/template_fixture.c tests/unit/fixture/listener.c vm/net/dial/server.c vm/net/dial/dials.c vm/net/dial/upstream.c vm/net/dial/local.c vm/base/address.c */
/* libs: http_parser */
#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "tests/unit/fixture/listener.h"
#include "tests/unit/fixture/template_fixture.h"
#include "vm/net/dial/server.h"
#include "vm/net/dialer.h"
#include "vm/net/dialer_process.h"

static struct dialer dialer;
static struct dial_server *server;

/* ---- the hub, whose dialer needs no process ---- */

static void on_server_ended(void *data, int err)
{
	(void)data;
	(void)err;
	dial_server_close(server);
	server = NULL;
}

static int start_server(struct dialer *d)
{
	const struct dial_config cfg = {.ended = on_server_ended};
	int sv[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sv), 0);
	assert_int_equal(dial_server_new(d->loop, sv[1], &cfg, &server), 0);
	return sv[0];
}

static void on_dialer_closed(struct dialer *d)
{
	(void)d;
	context_wake(&fx.vm->ctx);
}

struct dialer *dialer_process_get(struct dialer_process *p)
{
	(void)p;
	return &dialer;
}

uint32_t dialer_process_new_owner(struct dialer_process *p)
{
	(void)p;
	return 1;
}

const struct jail_report *dialer_process_report(const struct dialer_process *p)
{
	(void)p;
	return NULL;
}

bool dialer_process_close(struct dialer_process *p)
{
	(void)p;
	dialer_close(&dialer);
	return !dialer.in_use;
}

static int set_up(void **state)
{
	const int r = fx_setup(state);

	memset(&dialer, 0, sizeof(dialer));
	dialer_init(&dialer, &fx.loop);
	dialer.start = start_server;
	dialer.closed = on_dialer_closed;
	return r;
}

/* ---- tests ---- */

static void count(void *data, const struct sandbox_port *port)
{
	(void)port;
	++*(unsigned *)data;
}

static unsigned bound_ports(const struct user *u)
{
	unsigned n = 0;

	sandbox_ports(u->s, count, &n);
	return n;
}

/* Networked sandboxes have their snapshot. */
static struct sandbox_spec start(void)
{
	struct sandbox_spec spec = fx_spec();

	spec.network = true;
	spec.pool.target = 0;
	fx_ask(&fx.user[0], &spec);
	fx_pass(10000);
	fx_assert_state(fx_template(), TEMPLATE_READY);
	return spec;
}

/* A clone whose port is taken is not a clone that does not come up: nothing boots in its place. */
static void taken_for_a_clone(void **state)
{
	struct sandbox_spec spec = start();
	struct sandbox_port port = {.guest = 8080};
	const unsigned booted = machines.started[MACHINE_COLD];
	const int listener = listener_open(&port.host);

	(void)state;
	machines.sleeps[MACHINE_CLONE] = true;
	spec.ports = &port;
	spec.nports = 1;
	fx_ask(&fx.user[1], &spec);
	fx_settle();
	assert_int_equal(fx.user[1].nclosed, 1);
	assert_string_equal(problem_code_str(fx.user[1].problem.code), "port-taken");
	assert_int_equal(machines.started[MACHINE_COLD], booted);
	assert_int_equal(fx_template()->clone_failures, 0);
	close(listener);
}

/* What is closed has left its port at once, and not only when the loop has turned. */
static void left_at_once(void **state)
{
	struct sandbox_spec spec = start();
	struct sandbox_port port = {.guest = 8080};
	int listener;

	(void)state;
	close(listener_open(&port.host));
	machines.sleeps[MACHINE_CLONE] = true;
	spec.ports = &port;
	spec.nports = 1;
	fx_ask(&fx.user[1], &spec);
	fx_settle();
	assert_int_equal(bound_ports(&fx.user[1]), 1);
	assert_int_equal(listener_open(&port.host), -1);
	sandbox_close(fx.user[1].s);
	listener = listener_open(&port.host);
	assert_true(listener >= 0);
	close(listener);
	fx_settle();
	assert_int_equal(fx.user[1].nclosed, 1);
}

static int start_nothing(struct dialer *d)
{
	(void)d;
	return -EMFILE;
}

/* Two are asked for, and nobody is there who could bind any: the sandbox ends, once. */
static void none_can_be_bound(void **state)
{
	struct sandbox_spec spec = start();
	struct sandbox_port ports[] = {{.guest = 8080}, {.guest = 9090}};

	(void)state;
	dialer.start = start_nothing;
	machines.sleeps[MACHINE_CLONE] = true;
	spec.ports = ports;
	spec.nports = 2;
	fx_ask(&fx.user[1], &spec);
	fx_settle();
	assert_int_equal(fx.user[1].nclosed, 1);
	assert_string_equal(problem_code_str(fx.user[1].problem.code), "port-taken");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(taken_for_a_clone, set_up, fx_teardown),
		cmocka_unit_test_setup_teardown(left_at_once, set_up, fx_teardown),
		cmocka_unit_test_setup_teardown(none_can_be_bound, set_up, fx_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
