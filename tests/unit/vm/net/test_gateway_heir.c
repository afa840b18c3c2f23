/* SPDX-License-Identifier: Apache-2.0 */
/* A gateway that another daemon goes on with, at its end or at any moment: what the filter has said counts once. */
/* modules: vm/net/gateway.c vm/net/gateway_policy.c vm/net/leave.c vm/base/egress.c vm/base/rules.c vm/base/place.c vm/base/http_path.c vm/base/secret_use.c vm/base/words.c vm/net/allow_check.c vm/net/dialer.c vm/base/packets.c vm/base/lent.c vm/base/fdpass.c vm/net/dial/server.c vm/net/dial/dials.c vm/net/dial/upstream.c vm/net/dial/local.c vm/base/allow.c vm/base/address.c vm/base/net_reason.c tests/unit/fixture/listener.c tests/unit/fixture/gateway_fixture.c vm/base/record.c vm/base/fdbag.c vm/base/buf.c vm/base/turn.c vm/base/blackbox.c vm/base/estate.c vm/base/estate_file.c vm/base/io.c vm/base/estate_items.c vm/base/estate_load.c vm/base/estate_tidy.c vm/base/memory.c */
/* libs: uv http_parser */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/unit/fixture/gateway_fixture.h"
#include "tests/unit/fixture/listener.h"
#include "vm/base/estate.h"
#include "vm/base/fdbag.h"
#include "vm/base/record.h"
#include "vm/base/turn.h"

/* Another daemon has the gateway, of what this record says; what lay in @copies it has taken out. */
static void inherit(const struct buf *record, struct fdbag *copies)
{
	const struct gateway_config cfg = gf_config();
	const struct record_reader fields = record_reader(record->data, record->len);

	gateway_close(gf.gw, NULL, NULL);
	gf.gw = NULL;
	assert_int_equal(gateway_take(&gf.loop, &fields, copies, &cfg, &gf.gw), 0);
}

static void take_over(struct buf *ret_record, struct fdbag *ret_copies)
{
	struct fdbag fds = {0};

	gateway_put(gf.gw, ret_record, &fds);
	assert_int_equal(fds.n, 1);
	fdbag_put(ret_copies, fcntl(fds.fd[0], F_DUPFD_CLOEXEC, 0));
	fdbag_clear(&fds);
	inherit(ret_record, ret_copies);
}

/* Another daemon goes on with the helper, at a moment when a request has not been answered, and another not been read. Both
 * are made again, and answered once; what the helper is to do is said again. */
static void goes_on(void **state)
{
	const struct net_header former = {NET_RESYNCED, 0}, resynced = {NET_RESYNCED, 1};
	const struct net_header early = {NET_HANG_UP, 7};
	const struct gateway_config cfg = gf_config();
	struct fdbag copies = {.owned = true};
	struct record_reader fields;
	struct gateway *next = NULL;
	struct buf record = {0};
	char list[100], why[VM_WHY_MAX];
	struct net_dial d;
	uint16_t port = 0;
	const int listener = listener_open(&port);

	(void)state;
	assert_true(listener >= 0);
	snprintf(list, sizeof(list), "127.0.0.1:%u", port);
	gf_allow(list);
	d = gf_request("127.0.0.1", htonl(INADDR_LOOPBACK), port);
	assert_int_equal(send(gf.helper, &d, sizeof(d), 0), sizeof(d));
	uv_run(&gf.loop, UV_RUN_NOWAIT);
	take_over(&record, &copies);
	assert_int_equal(send(gf.helper, &d, sizeof(d), 0), sizeof(d));
	gf_tell(&early, sizeof(early));
	gf_hears_nothing();
	assert_int_equal(gateway_resync(gf.gw, &port, 1), 0);
	assert_int_equal(gateway_allow(gf.gw, list, strlen(list), why), 0);
	assert_int_equal(gateway_forward(gf.gw, port, listener), 0);
	gf_hears(NET_RESYNC, sizeof(struct net_resync));
	gf_hears(NET_ALLOW, sizeof(struct net_header) + strlen(list));
	gf_hears(NET_FORWARD, sizeof(struct net_header));
	gf_hears_nothing();
	gf_tell(&former, sizeof(former)); /* the answer to another */
	gf_tell(&d, sizeof(d));
	gf_hears_nothing();
	gf_tell(&resynced, sizeof(resynced));
	assert_int_equal(gf_ask("127.0.0.1", htonl(INADDR_LOOPBACK), port), NET_OK);
	gf_hears_nothing();
	assert_int_equal(gf_ask("a.test", 0, 443), NET_NAME);
	assert_int_equal(gateway_unforward(gf.gw, port), 0);
	fields = record_reader(record.data, record.len);
	assert_int_equal(gateway_take(&gf.loop, &fields, &copies, &cfg, &next), -EBADMSG);
	/* It is said once. */
	assert_int_equal(gf.ended, 0);
	gf_tell(&resynced, sizeof(resynced));
	assert_int_equal(gf.ended, -EPROTO);
	buf_clear(&record);
	fdbag_clear(&copies);
	close(listener);
}

static void handed_over(void)
{
	const uint16_t port = 0;
	struct fdbag copies = {.owned = true};
	struct buf record = {0};

	take_over(&record, &copies);
	assert_int_equal(gateway_resync(gf.gw, &port, 1), 0);
	gf_hears(NET_RESYNC, sizeof(struct net_resync));
	buf_clear(&record);
	fdbag_clear(&copies);
}

/* The helper is told this, in a message of that kind. */
static void is_told(uint32_t type, const char *allow, const char *rules)
{
	const struct net_policy policy = {.rules = rules};
	char why[VM_WHY_MAX];

	assert_int_equal(gateway_policy(gf.gw, allow, &policy, why), 0);
	gf_hears(type, type == NET_ALLOW ? sizeof(struct net_header) + strlen(allow)
					 : sizeof(struct net_policy_message) + strlen(allow) +
						   strlen(rules) + 4);
	gf_hears_nothing();
}

/* A helper that has rules is told when there are none any more, by whichever daemon: a bare list leaves it those it has. */
static void empties_rules(void **state)
{
	(void)state;
	is_told(NET_ALLOW, "a.test", "");
	handed_over();
	is_told(NET_ALLOW, "a.test", "");
	is_told(NET_POLICY, "a.test", "deny GET a.test/x");
	handed_over();
	is_told(NET_POLICY, "a.test", "");
	handed_over();
	handed_over(); /* before it was told anything */
	is_told(NET_POLICY, "a.test b.test", "");
	assert_int_equal(gf.ended, 0);
}

/* The daemon of before knew nothing but lists, and its helper neither: it is told no rules, in words. */
static void of_lists_alone(void **state)
{
	const struct net_policy policy = {.rules = "deny GET a.test/x"};
	struct fdbag fds = {0}, copies = {.owned = true};
	struct buf all = {0}, record = {0};
	char why[VM_WHY_MAX] = "";

	(void)state;
	gateway_put(gf.gw, &all, &fds);
	record_u64(&record, 1 /* the descriptor */,
		   fdbag_put(&copies, fcntl(fds.fd[0], F_DUPFD_CLOEXEC, 0)));
	inherit(&record, &copies);
	assert_int_equal(gateway_policy(gf.gw, "a.test", &policy, why), -EOPNOTSUPP);
	assert_non_null(strstr(why, "of a version before"));
	is_told(NET_ALLOW, "a.test", "");
	buf_clear(&all);
	buf_clear(&record);
	fdbag_clear(&fds);
	fdbag_clear(&copies);
}

static void wants(uint32_t id, const char *host)
{
	struct net_asked m = {.header = {NET_ASKED, id}, .port = 22, .scheme = "tcp"};

	snprintf(m.host, sizeof(m.host), "%s", host);
	gf_tell(&m, sizeof(m));
}

static void may_ask(uint32_t resynced)
{
	const struct net_header h = {NET_RESYNCED, resynced};
	const struct net_policy policy = {.ask = true};
	char why[VM_WHY_MAX];

	assert_int_equal(gateway_policy(gf.gw, "", &policy, why), 0);
	gf_hears(NET_POLICY, sizeof(struct net_policy_message) + 4);
	if (resynced)
		gf_tell(&h, sizeof(h));
}

static void decide(uint32_t id)
{
	gateway_decide(gf.gw, id, true);
	gf_hears(NET_DECIDED, sizeof(struct net_decided));
}

/* Somebody is asked by one daemon, and answers the next: that is leave for what he was shown, and for nothing that the filter says
 * under the same number behind his back. */
static void leave_of_the_former(void **state)
{
	(void)state;
	may_ask(0);
	wants(5, "shown.test");
	wants(6, "early.test");
	handed_over();
	may_ask(1);
	decide(6); /* before the filter has asked again */
	wants(5, "other.test");
	decide(5);
	assert_int_equal(gf_ask("other.test", 0, 22), NET_NAME);
	assert_int_equal(gf_ask("shown.test", 0, 22), NET_UNRESOLVED);
	assert_int_equal(gf_ask("early.test", 0, 22), NET_UNRESOLVED);
	assert_int_equal(gf.ended, 0);
}

/* ---- a daemon that dies between two instructions ---- */

static struct turn end_of_turn, *turn;
static struct buf written;
static struct fdbag lent;
static int written_down; /* how often */
static bool dies;	 /* behind the next commit */

static int write_down(void *data, struct estate *e)
{
	(void)data;
	(void)e;
	written.len = 0;
	fdbag_clear(&lent);
	if (gf.gw)
		gateway_put(gf.gw, &written, &lent);
	written_down++;
	return 0;
}

/* What it still had to say and to take out of its socket, it does not. */
static void on_committed(void *data)
{
	(void)data;
	if (!dies || !gf.gw)
		return;
	dies = false;
	lent.fd[0] = fcntl(lent.fd[0], F_DUPFD_CLOEXEC, 0);
	lent.owned = true;
	gateway_close(gf.gw, NULL, NULL);
	gf.gw = NULL;
}

static const struct turn_ops turn_ops = {.write = write_down, .committed = on_committed};

/* The next one, of the record that this one has left. */
static void go_on(void)
{
	struct gateway_config cfg = gf_config();
	const struct record_reader fields = record_reader(written.data, written.len);
	const uint16_t port = 0;

	cfg.turn = &turn;
	assert_null(gf.gw);
	/* An heir's turns begin when all is loaded. */
	turn = NULL;
	assert_int_equal(gateway_take(&gf.loop, &fields, &lent, &cfg, &gf.gw), 0);
	turn = &end_of_turn;
	fdbag_clear(&lent);
	lent.owned = false;
	assert_int_equal(gateway_resync(gf.gw, &port, 1), 0);
}

static void deny(uint32_t number)
{
	const struct net_denied m = {
		.header = {NET_DENIED, number}, .reason = NET_NAME, .name = "a.test"};

	gf_tell(&m, sizeof(m));
}

/* What was handled comes again, because it was not taken out of the socket, and does nothing. */
static void dies_before_it_takes_out(void **state)
{
	struct gateway_config cfg = gf_config();
	const struct net_header is_ready = {.type = NET_READY}, first = {NET_RESYNCED, 1},
				second = {NET_RESYNCED, 2};
	const struct net_dial d = gf_request("a.test", 0, 443);
	struct estate *estate;
	int sv[2];

	(void)state;
	cfg.turn = &turn;
	gateway_close(gf.gw, NULL, NULL);
	gf_settle();
	close(gf.helper);
	assert_int_equal(estate_new(&estate), 0);
	turn_start(&end_of_turn, &gf.loop, estate, &turn_ops, NULL);
	turn = &end_of_turn;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sv), 0);
	gf.helper = sv[1];
	assert_int_equal(gateway_new(&gf.loop, sv[0], &cfg, &gf.gw), 0);
	gf_tell(&is_ready, sizeof(is_ready));
	assert_int_equal(gateway_go(gf.gw), 0);
	assert_int_equal(recv(gf.helper, &sv, sizeof(sv), MSG_DONTWAIT), -1); /* not yet */
	gf_settle();
	gf_hears(NET_GO, sizeof(is_ready));
	deny(1);
	assert_int_equal(gf.denied, 1);

	dies = true;
	deny(2);
	assert_int_equal(gf.denied, 2);
	assert_null(gf.gw);
	gf_hears_nothing();
	go_on();
	gf_settle();
	gf_hears(NET_RESYNC, sizeof(struct net_resync));
	assert_int_equal(gf.denied, 2);
	deny(3);
	assert_int_equal(gf.denied, 3);

	/* The answer that one has handled is not that to the next. */
	dies = true;
	gf_tell(&first, sizeof(first));
	assert_null(gf.gw);
	go_on();
	gf_settle();
	gf_hears(NET_RESYNC, sizeof(struct net_resync));
	gf_tell(&d, sizeof(d));
	gf_hears_nothing();
	gf_tell(&second, sizeof(second));
	assert_int_equal(gf_ask("a.test", 0, 443), NET_NAME);
	assert_int_equal(gf.ended, 0);
	assert_true(written_down > 5);
	turn_close(&end_of_turn);
	gf_settle();
	estate_free(estate);
	buf_clear(&written);
	fdbag_clear(&lent);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(goes_on, gf_set_up, gf_tear_down),
		cmocka_unit_test_setup_teardown(empties_rules, gf_set_up, gf_tear_down),
		cmocka_unit_test_setup_teardown(of_lists_alone, gf_set_up, gf_tear_down),
		cmocka_unit_test_setup_teardown(leave_of_the_former, gf_set_up, gf_tear_down),
		cmocka_unit_test_setup_teardown(dies_before_it_takes_out, gf_set_up, gf_tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
