/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon's end of a sandbox's network, and a helper that asks for what it should not. */
/* modules: vm/net/gateway.c vm/net/gateway_policy.c vm/net/leave.c vm/base/egress.c vm/base/rules.c vm/base/place.c vm/base/http_path.c vm/base/secret_use.c vm/base/words.c vm/net/allow_check.c vm/net/dialer.c vm/base/packets.c vm/base/lent.c vm/base/fdpass.c vm/net/dial/server.c vm/net/dial/dials.c vm/net/dial/upstream.c vm/net/dial/local.c vm/base/allow.c vm/base/address.c vm/base/net_reason.c tests/unit/fixture/listener.c tests/unit/fixture/gateway_fixture.c vm/base/record.c vm/base/fdbag.c vm/base/buf.c vm/base/turn.c vm/base/blackbox.c vm/base/estate.c vm/base/estate_file.c vm/base/io.c vm/base/estate_items.c vm/base/estate_load.c vm/base/estate_tidy.c vm/base/memory.c */
/* libs: uv http_parser */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/unit/fixture/gateway_fixture.h"
#include "tests/unit/fixture/listener.h"

static int bound;	  /* what became of a port */
static int open_one = -1; /* who listens at an opened one */

static void on_port(struct dialer_request *rq, int result, uint16_t port, int *fd)
{
	(void)rq;
	bound = result;
	assert_int_equal(*fd >= 0, result == 0);
	assert_int_equal(port > 0, result == 0);
}

static void checks_for_itself(void **state)
{
	(void)state;
	assert_int_equal(gf_ask("a.test", 0, 443), NET_NAME); /* no list yet */
	gf_allow("a.test loop.test");
	assert_int_equal(gf_ask("b.test", 0, 443), NET_NAME);
	assert_int_equal(gf_ask("a.test", 0, 22), NET_NAME);
	assert_int_equal(gf_ask("a.test", 0, 443), NET_UNRESOLVED);
	assert_int_equal(gf_ask("loop.test", 0, 443), NET_PRIVATE);
	assert_int_equal(gf_ask("127.0.0.1", htonl(INADDR_LOOPBACK), 443), NET_ADDRESS);
	gf_allow("*");
	assert_int_equal(gf_ask("127.0.0.1", htonl(INADDR_LOOPBACK), 443), NET_ADDRESS);
	assert_int_equal(gf_ask("loop.any", 0, 1), NET_PRIVATE);
	assert_int_equal(gf.ended, 0);
}

static void connects(void **state)
{
	char list[100];
	uint16_t port = 0;
	const int listener = listener_open(&port);

	(void)state;
	assert_true(listener >= 0);
	snprintf(list, sizeof(list), "127.0.0.1:%u loop.test:%u", port, port);
	gf_allow(list);
	assert_int_equal(gf_ask("127.0.0.1", htonl(INADDR_LOOPBACK), port), NET_OK);
	assert_int_equal(gf_ask("loop.test", 0, port), NET_OK);
	close(listener);
	assert_int_equal(gf_ask("loop.test", 0, port), NET_UNREACHABLE);
}

/* What a rule says of one host is nothing for whoever asks for another one's address. */
static void is_told_one_place(void **state)
{
	static const char list[] = "127.0.0.1";
	struct net_policy policy = {.first = "", .secrets = ""};
	char allow[40], rules[100], why[VM_WHY_MAX];
	uint16_t port = 0;
	const int listener = listener_open(&port);
	struct net_dial d;

	(void)state;
	assert_true(listener >= 0);
	snprintf(allow, sizeof(allow), "%s:%u", list, port);
	snprintf(rules, sizeof(rules), "allow GET a.test:%u/x deny * %s:%u", port, list, port);
	policy.rules = rules;
	assert_int_equal(gateway_policy(gf.gw, allow, &policy, why), 0);
	gf_hears(NET_POLICY, sizeof(struct net_policy_message) + strlen(allow) + strlen(rules) + 4);
	assert_int_equal(gf_ask("127.0.0.1", htonl(INADDR_LOOPBACK), port), NET_ADDRESS);
	d = gf_request("a.test", htonl(INADDR_LOOPBACK), port);
	gf_tell(&d, sizeof(d));
	assert_int_equal(gf.connected, 0);
	assert_int_equal(gf.ended, -EPROTO);
	close(listener);
}

/* This machine by its name: at ports that are opened, and only if the list has the name. */
static void reaches_the_host(void **state)
{
	const struct net_policy learns = {.learn = true};
	char list[100], why[VM_WHY_MAX];
	const uint16_t port = gf.opened.port[0];
	uint16_t shut = 0;
	const int other = listener_open(&shut);

	(void)state;
	assert_true(other >= 0);
	snprintf(list, sizeof(list), "host.internal:%u host.internal:%u", port, shut);
	gf_allow(list);
	assert_int_equal(gf.connected, 0);
	assert_int_equal(gf_ask("host.internal", 0, port), NET_OK);
	/* It tells of what was made, and of nothing else. */
	snprintf(list, sizeof(list), "host.internal:%u", port);
	assert_string_equal(gf.connection, list);
	assert_int_equal(gf_ask("host.internal", 0, shut), NET_PORT);
	assert_int_equal(gf.connected, 1);
	gf_allow("* *.internal");
	assert_int_equal(gf_ask("host.internal", 0, port), NET_NAME);
	assert_int_equal(gateway_policy(gf.gw, "", &learns, why), 0);
	gf_hears(NET_POLICY, sizeof(struct net_policy_message) + 4);
	assert_int_equal(gf_ask("host.internal", 0, port), NET_NAME);
	close(other);
}

/* Several may have asked the same, and connect one after the other. */
static void goes_by_leave(void **state)
{
	const uint16_t port = gf.opened.port[0];
	struct net_asked m = {
		.header = {NET_ASKED, 1}, .port = port, .scheme = "tcp", .host = "host.internal"};

	const struct net_policy asks = {.ask = true}, denies = {.ask = true, .first = "deny * *"};
	char why[VM_WHY_MAX];

	(void)state;
	assert_int_equal(gateway_policy(gf.gw, "", &asks, why), 0);
	gf_hears(NET_POLICY, sizeof(struct net_policy_message) + 4);
	gf_tell(&m, sizeof(m));
	assert_int_equal(gf_ask("host.internal", 0, port), NET_NAME);
	gateway_decide(gf.gw, 2, true);
	gf_hears(NET_DECIDED, sizeof(struct net_decided));
	assert_int_equal(gf_ask("host.internal", 0, port), NET_NAME);
	gateway_decide(gf.gw, 1, true);
	gf_hears(NET_DECIDED, sizeof(struct net_decided));
	assert_int_equal(gf_ask("host.internal", 0, (uint16_t)(port ^ 1)), NET_NAME);
	assert_int_equal(gf_ask("host.internal", 0, port), NET_OK);
	assert_int_equal(gf_ask("host.internal", 0, port), NET_OK);
	/* What nobody may be asked for is not had by leave. */
	assert_int_equal(gateway_policy(gf.gw, "", &denies, why), 0);
	gf_hears(NET_POLICY, sizeof(struct net_policy_message) + 4 + strlen(denies.first));
	assert_int_equal(gf_ask("host.internal", 0, port), NET_NAME);
}

/* What the administrator's rules ask for may be beyond max_allow: so the filter is not believed that they do. */
static void who_asks(void **state)
{
	static const char rules[] = "ask * a.test:443 deny * b.test";
	const struct net_policy policy = {.ask = true, .first = rules};
	static const struct {
		const char *host;
		uint32_t rule, first;
		bool is_first;
	} table[] = {{"a.test", 1, 1, true},  {"a.test", 1, 0, false}, {"c.test", 1, 1, false},
		     {"b.test", 2, 1, false}, {"c.test", 3, 1, false}, {"c.test", 0, 1, false}};
	struct net_asked m = {.header = {NET_ASKED, 1}, .port = 443, .scheme = "tcp"};
	char why[VM_WHY_MAX];

	(void)state;
	assert_int_equal(gateway_policy(gf.gw, "", &policy, why), 0);
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		snprintf(m.host, sizeof(m.host), "%s", table[i].host);
		m.rule = table[i].rule;
		m.first = table[i].first;
		m.header.id++;
		gf.first = 0;
		gf_tell(&m, sizeof(m));
		assert_int_equal(gf.first, table[i].is_first);
	}
	assert_int_equal(gf.ended, 0);
}

/* Names of the administrator's list may be anywhere; what a `*` lets through may not. */
static void trusts_names(void **state)
{
	char list[100];
	uint16_t port = 0;
	const int listener = listener_open(&port);

	(void)state;
	assert_true(listener >= 0);
	snprintf(list, sizeof(list), "loop.test:%u", port);
	gf_allow(list);
	assert_int_equal(gf_ask("loop.test", 0, port), NET_OK);
	assert_int_equal(gf_ask("loop.test", 0, (uint16_t)(port ^ 1)), NET_NAME);
	gf_allow("*");
	assert_int_equal(gf_ask("loop.test", 0, port), NET_PRIVATE);
	assert_int_equal(gf_ask("127.0.0.1", htonl(INADDR_LOOPBACK), port), NET_ADDRESS);
	close(listener);
}

/* It hears that it may go when it is told to be. */
static void begins(void **state)
{
	const struct net_header h = {.type = NET_READY};

	(void)state;
	gf_hears_nothing();
	gf_tell(&h, sizeof(h));
	assert_int_equal(gf.ready, 1);
	gf_hears_nothing();
	assert_int_equal(gateway_go(gf.gw), 0);
	gf_hears(NET_GO, sizeof(h));
}

/* What was asked of a dialer that ended has failed; what comes later is done by the next. */
static void dialer_dies(void **state)
{
	struct dialer_request rq = {.done = on_port};

	(void)state;
	gf_allow("a.test");
	assert_int_equal(gf_ask("a.test", 0, 443), NET_UNRESOLVED);
	assert_int_equal(gf.starts, 1);
	assert_int_equal(dialer_listen(&gf.dialer, &rq, 0), 0);
	gf_end_dialer();
	gf_settle();
	assert_int_equal(bound, -EPIPE);
	/* Not at once, or a host where it can't run would be kept busy. */
	assert_int_equal(dialer_listen(&gf.dialer, &rq, 0), -EAGAIN);
	assert_int_equal(gf_ask("a.test", 0, 443), NET_UNREACHABLE);
	assert_int_equal(gf.starts, 1);
	gf.dialer.started_at = 0;
	assert_int_equal(dialer_listen(&gf.dialer, &rq, 0), 0);
	gf_settle();
	assert_int_equal(bound, 0);
	assert_int_equal(gf.starts, 2);
	/* One that is given up is not answered. */
	bound = 1;
	assert_int_equal(dialer_listen(&gf.dialer, &rq, 0), 0);
	dialer_cancel(&rq);
	gf_settle();
	assert_int_equal(bound, 1);
}

/* A port that is given up before it was bound can be had at once; one that is in use can't. */
static void port_is_given_up(void **state)
{
	struct dialer_request rq = {.done = on_port};
	uint16_t port = 0;
	int listener = listener_open(&port);

	(void)state;
	assert_true(listener >= 0);
	assert_int_equal(dialer_listen(&gf.dialer, &rq, port), 0);
	gf_settle();
	assert_int_equal(bound, -EADDRINUSE);
	close(listener);
	assert_int_equal(dialer_listen(&gf.dialer, &rq, port), 0);
	dialer_cancel(&rq);
	assert_int_equal(dialer_listen(&gf.dialer, &rq, port), 0);
	gf_settle();
	assert_int_equal(bound, 0);
	port = 0;
	listener = listener_open(&port);
	assert_true(listener >= 0);
	assert_int_equal(dialer_listen(&gf.dialer, &rq, port), 0);
	gf_settle();
	assert_int_equal(bound, -EADDRINUSE);
	close(listener);
}

/* The files that say how names are resolved have changed: another one, and nothing is lost. */
static void dialer_is_stale(void **state)
{
	(void)state;
	gf_allow("a.test");
	assert_int_equal(gf_ask("a.test", 0, 443), NET_UNRESOLVED);
	gf.stale = true;
	assert_int_equal(gf_ask("a.test", 0, 443), NET_UNRESOLVED);
	assert_int_equal(gf.starts, 2);
	assert_int_equal(gf_ask("a.test", 0, 443), NET_UNRESOLVED);
	assert_int_equal(gf.starts, 2);
}

static void nonsense(void **state)
{
	struct net_dial d = gf_request("a.test", 0, 443);
	struct net_denied m = {.header = {.type = NET_DENIED}, .reason = NET_NAME, .name = "x"};
	const struct net_stats s = {.header = {.type = NET_STATS}, .bytes_out = UINT64_MAX};
	const struct net_asked early = {.header = {NET_ASKED, 1},
					.time_ms = -1,
					.port = 443,
					.scheme = "tcp",
					.host = "a.test"},
			       late = {.header = {NET_ASKED, 1},
				       .until_ms = INT64_MIN,
				       .port = 443,
				       .scheme = "tcp",
				       .host = "a.test"};
	const struct net_header odd = {.type = NET_ALLOW}, caller = {NET_CALLED, 80};
	const int which = *(int *)*state;

	gf_allow("*");
	gf_tell(&m, sizeof(m));
	assert_int_equal(gf.denied, 1);
	gf.called = 0;
	gf_tell(&caller, sizeof(caller));
	assert_int_equal(gf.called, 1);
	switch (which) {
	case 0: gf_tell("x", 1); break;
	case 1: gf_tell(&odd, sizeof(odd)); break;
	case 2: gf_tell(&d, sizeof(d) - 1); break;
	case 3:
		memset(d.name, 'a', sizeof(d.name));
		gf_tell(&d, sizeof(d));
		break;
	case 4:
		d.name[0] = 'A';
		gf_tell(&d, sizeof(d));
		break;
	case 5:
		d.port = 0;
		gf_tell(&d, sizeof(d));
		break;
	case 6:
		d.name[0] = '\0';
		gf_tell(&d, sizeof(d));
		break;
	case 7:
		m.reason = NET_NREASONS;
		gf_tell(&m, sizeof(m));
		break;
	case 8:
		m.name[0] = '\n';
		gf_tell(&m, sizeof(m));
		break;
	case 9: gf_tell(&s, sizeof(s)); break;
	case 10: gf_tell(&early, sizeof(early)); break;
	case 11: gf_tell(&late, sizeof(late)); break;
	default: fail();
	}
	assert_int_equal(gf.ended, -EPROTO);
	assert_int_equal(gf.denied, 1);
}

static int silent = -1;

/* One that never answers. */
static int start_silent(struct dialer *d)
{
	int sv[2];

	(void)d;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sv), 0);
	silent = sv[1];
	return sv[0];
}

/* The filter may have more connections on their way than it lets through: that is no nonsense of its. */
static void too_many(void **state)
{
	struct net_dial d = gf_request("loop.test", 0, 443);
	struct net_dialed answer;
	unsigned busy = 0;

	(void)state;
	gf.dialer.start = start_silent;
	gf_allow("loop.test");
	for (d.header.id = 1; d.header.id <= 300; d.header.id++) {
		gf_tell(&d, sizeof(d));
		while (recv(gf.helper, &answer, sizeof(answer), MSG_DONTWAIT) == sizeof(answer))
			busy += answer.reason == NET_BUSY;
	}
	assert_int_equal(gf.ended, 0);
	assert_true(busy > 0);
	close(silent);
}

static void helper_dies(void **state)
{
	const struct net_header h = {.type = NET_READY};
	char why[VM_WHY_MAX];

	(void)state;
	gf_tell(&h, sizeof(h));
	assert_int_equal(gf.ready, 1);
	shutdown(gf.helper, SHUT_RDWR);
	uv_run(&gf.loop, UV_RUN_NOWAIT);
	assert_int_equal(gf.ended, -EPIPE);
	assert_int_equal(gateway_allow(gf.gw, "a.test", 6, why), -EPIPE);
	assert_int_equal(gateway_ask_stats(gf.gw), -EPIPE);
}

static int set_up_host(void **state)
{
	open_one = listener_open(&gf.opened.port[0]);
	gf.opened.n = 1;
	return open_one < 0 ? -1 : gf_set_up(state);
}

static int tear_down_host(void **state)
{
	close(open_one);
	gf.opened.n = 0;
	return gf_tear_down(state);
}

static int set_up_trusting(void **state)
{
	gf.trusting = true;
	return gf_set_up(state);
}

static int tear_down_trusting(void **state)
{
	gf.trusting = false;
	return gf_tear_down(state);
}

static int set_up_nonsense(void **state)
{
	void *which = *state;
	const int r = gf_set_up(state);

	*state = which;
	return r;
}

int main(void)
{
	static int n[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
#define NONSENSE(i)                                                            \
	{                                                                      \
		"nonsense " #i, nonsense, set_up_nonsense, gf_tear_down, &n[i] \
	}
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(checks_for_itself, gf_set_up, gf_tear_down),
		cmocka_unit_test_setup_teardown(connects, gf_set_up, gf_tear_down),
		cmocka_unit_test_setup_teardown(is_told_one_place, gf_set_up, gf_tear_down),
		cmocka_unit_test_setup_teardown(reaches_the_host, set_up_host, tear_down_host),
		cmocka_unit_test_setup_teardown(goes_by_leave, set_up_host, tear_down_host),
		cmocka_unit_test_setup_teardown(who_asks, gf_set_up, gf_tear_down),
		cmocka_unit_test_setup_teardown(trusts_names, set_up_trusting, tear_down_trusting),
		cmocka_unit_test_setup_teardown(dialer_dies, gf_set_up, gf_tear_down),
		cmocka_unit_test_setup_teardown(port_is_given_up, gf_set_up, gf_tear_down),
		cmocka_unit_test_setup_teardown(dialer_is_stale, gf_set_up, gf_tear_down),
		cmocka_unit_test_setup_teardown(too_many, gf_set_up, gf_tear_down),
		cmocka_unit_test_setup_teardown(helper_dies, gf_set_up, gf_tear_down),
		cmocka_unit_test_setup_teardown(begins, gf_set_up, gf_tear_down),
		NONSENSE(0),
		NONSENSE(1),
		NONSENSE(2),
		NONSENSE(3),
		NONSENSE(4),
		NONSENSE(5),
		NONSENSE(6),
		NONSENSE(7),
		NONSENSE(8),
		NONSENSE(9),
		NONSENSE(10),
		NONSENSE(11),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
