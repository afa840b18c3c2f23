/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon's end of a sandbox's network, and a helper that asks for what it should not. */
/* modules: vm/net/gateway.c vm/net/allow_check.c vm/net/dialer.c vm/base/packets.c vm/base/lent.c vm/base/fdpass.c vm/net/dial/server.c vm/net/dial/local.c vm/base/allow.c vm/base/address.c vm/base/net_reason.c tests/unit/fixture/listener.c vm/base/record.c vm/base/fdbag.c vm/base/buf.c vm/base/turn.c vm/base/estate.c vm/base/estate_file.c vm/base/estate_items.c vm/base/estate_load.c vm/base/estate_tidy.c vm/base/memory.c */
/* libs: uv */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/unit/fixture/listener.h"
#include "vm/net/dial/server.h"
#include "vm/net/dialer.h"
#include "vm/net/gateway.h"
#include "vm/base/estate.h"
#include "vm/base/fdbag.h"
#include "vm/base/net_reason.h"
#include "vm/base/record.h"
#include "vm/base/turn.h"

static uv_loop_t loop;
static struct dialer dialer;
static struct dial_server *servers[4];
static unsigned starts; /* of the dialer's process */
static int bound;	/* what became of a port */
static bool stale;
static struct vm_host_ports opened;
static int open_one = -1; /* who listens there */
static char trusted;	  /* the state of a test whose list is the administrator's */
static struct gateway *gw;
static int helper;
static unsigned ready, denied, called;
static int ended;

static void on_ready(void *data)
{
	(void)data;
	ready++;
}

static void on_denied(void *data, const struct net_denied *what)
{
	(void)data;
	(void)what;
	denied++;
}

static void on_stats(void *data, const struct net_stats *stats)
{
	(void)data;
	(void)stats;
}

static void on_called(void *data)
{
	(void)data;
	called++;
}

static void on_ended(void *data, int err)
{
	(void)data;
	assert_int_equal(ended, 0);
	ended = err;
}

static int on_resolve(void *data, const char *name,
		      union dial_address ret_addresses[static DIAL_ADDRESSES_MAX])
{
	(void)data;
	if (strncmp(name, "loop.", 5) != 0)
		return 0;
	ret_addresses[0].in =
		(struct sockaddr_in){.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	return 1;
}

static void on_server_ended(void *data, int err)
{
	struct dial_server **ended_one = data;

	(void)err;
	dial_server_close(*ended_one);
	*ended_one = NULL;
}

/* What is a process otherwise. */
static int start_server(struct dialer *d)
{
	const struct dial_config cfg = {
		.resolve = on_resolve, .ended = on_server_ended, .data = &servers[starts]};
	int sv[2];

	assert_true(starts < sizeof(servers) / sizeof(servers[0]));
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sv), 0);
	assert_int_equal(dial_server_new(d->loop, sv[1], &cfg, &servers[starts++]), 0);
	return sv[0];
}

static bool is_stale(struct dialer *d)
{
	const bool was = stale;

	(void)d;
	stale = false;
	return was;
}

static void on_port(struct dialer_request *rq, int result, uint16_t port, int *fd)
{
	(void)rq;
	bound = result;
	assert_int_equal(*fd >= 0, result == 0);
	assert_int_equal(port > 0, result == 0);
}

static void on_dialer_closed(struct dialer *d)
{
	(void)d;
}

static int set_up(void **state)
{
	static const struct gateway_events events = {on_ready, on_denied, on_stats, on_ended,
						     on_called};
	struct gateway_config cfg = {.events = &events, .dialer = &dialer, .owner = 1};
	int sv[2];

	ready = denied = 0;
	ended = 0;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sv), 0);
	helper = sv[1];
	uv_loop_init(&loop);
	memset(&dialer, 0, sizeof(dialer));
	starts = 0;
	stale = false;
	cfg.trusted_names = *state == &trusted;
	cfg.host_ports = opened;
	dialer_init(&dialer, &loop);
	dialer.start = start_server;
	dialer.is_stale = is_stale;
	dialer.closed = on_dialer_closed;
	return gateway_new(&loop, sv[0], &cfg, &gw);
}

static int tear_down(void **state)
{
	(void)state;
	gateway_close(gw, NULL, NULL);
	dialer_close(&dialer);
	uv_run(&loop, UV_RUN_DEFAULT);
	close(helper);
	return uv_loop_close(&loop);
}

static void allow(const char *text)
{
	char why[VM_WHY_MAX], in[1000];
	const struct net_header *h = (struct net_header *)in;
	ssize_t n;

	assert_int_equal(gateway_allow(gw, text, strlen(text), why), 0);
	n = recv(helper, in, sizeof(in), 0);
	assert_int_equal(n, sizeof(*h) + strlen(text));
	assert_int_equal(h->type, NET_ALLOW);
	assert_memory_equal(in + sizeof(*h), text, strlen(text));
}

/* Runs the loop until the gateway has nothing more to do. */
static void settle(void)
{
	for (int i = 0; i < 20; i++)
		uv_run(&loop, UV_RUN_NOWAIT);
}

/* Sends it, and waits until that has been taken care of. */
static void tell(const void *msg, size_t len)
{
	assert_int_equal(send(helper, msg, len, 0), len);
	settle();
}

static struct net_dial request(const char *name, uint32_t address, uint16_t port)
{
	struct net_dial d = {{NET_DIAL, 7}, address, port, 0, ""};

	snprintf(d.name, sizeof(d.name), "%s", name);
	return d;
}

/* What it answers to a request; a descriptor, if one comes, is closed. */
static unsigned answered(void)
{
	char room[CMSG_SPACE(sizeof(int))];
	struct net_dialed answer;
	struct iovec iov = {&answer, sizeof(answer)};
	struct msghdr mh = {.msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = room,
			    .msg_controllen = sizeof(room)};
	struct cmsghdr *c;
	int fd = -1;

	assert_int_equal(recvmsg(helper, &mh, 0), sizeof(answer));
	assert_int_equal(answer.header.type, NET_DIALED);
	assert_int_equal(answer.header.id, 7);
	c = CMSG_FIRSTHDR(&mh);
	if (c) {
		memcpy(&fd, CMSG_DATA(c), sizeof(fd));
		close(fd);
	}
	assert_int_equal(fd >= 0, answer.reason == NET_OK);
	return answer.reason;
}

static unsigned ask(const char *name, uint32_t address, uint16_t port)
{
	const struct net_dial d = request(name, address, port);

	tell(&d, sizeof(d));
	return answered();
}

static void checks_for_itself(void **state)
{
	(void)state;
	assert_int_equal(ask("a.test", 0, 443), NET_NAME); /* no list yet */
	allow("a.test loop.test");
	assert_int_equal(ask("b.test", 0, 443), NET_NAME);
	assert_int_equal(ask("a.test", 0, 22), NET_NAME);
	assert_int_equal(ask("a.test", 0, 443), NET_UNRESOLVED);
	assert_int_equal(ask("loop.test", 0, 443), NET_PRIVATE);
	assert_int_equal(ask("127.0.0.1", htonl(INADDR_LOOPBACK), 443), NET_ADDRESS);
	allow("*");
	assert_int_equal(ask("127.0.0.1", htonl(INADDR_LOOPBACK), 443), NET_PRIVATE);
	assert_int_equal(ask("loop.any", 0, 1), NET_PRIVATE);
	assert_int_equal(ended, 0);
}

static void connects(void **state)
{
	char list[100];
	uint16_t port = 0;
	const int listener = listener_open(&port);

	(void)state;
	assert_true(listener >= 0);
	snprintf(list, sizeof(list), "127.0.0.1:%u loop.test:%u", port, port);
	allow(list);
	assert_int_equal(ask("127.0.0.1", htonl(INADDR_LOOPBACK), port), NET_OK);
	assert_int_equal(ask("loop.test", 0, port), NET_OK);
	close(listener);
	assert_int_equal(ask("loop.test", 0, port), NET_UNREACHABLE);
}

/* This machine by its name: at ports that are opened, and only if the list has the name. */
static void reaches_the_host(void **state)
{
	char list[100];
	const uint16_t port = opened.port[0];
	uint16_t shut = 0;
	const int other = listener_open(&shut);

	(void)state;
	assert_true(other >= 0);
	snprintf(list, sizeof(list), "host.internal:%u host.internal:%u", port, shut);
	allow(list);
	assert_int_equal(ask("host.internal", 0, port), NET_OK);
	assert_int_equal(ask("host.internal", 0, shut), NET_PORT);
	allow("* *.internal");
	assert_int_equal(ask("host.internal", 0, port), NET_NAME);
	close(other);
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
	allow(list);
	assert_int_equal(ask("loop.test", 0, port), NET_OK);
	assert_int_equal(ask("loop.test", 0, (uint16_t)(port ^ 1)), NET_NAME);
	allow("*");
	assert_int_equal(ask("loop.test", 0, port), NET_PRIVATE);
	assert_int_equal(ask("127.0.0.1", htonl(INADDR_LOOPBACK), port), NET_PRIVATE);
	close(listener);
}

/* Is this what it is told next? Descriptors that come along are closed. */
static void hears(uint32_t type, size_t len)
{
	char in[1000], room[CMSG_SPACE(sizeof(int))];
	struct iovec iov = {in, sizeof(in)};
	struct msghdr mh = {.msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = room,
			    .msg_controllen = sizeof(room)};
	struct cmsghdr *c;
	int fd;

	assert_int_equal(recvmsg(helper, &mh, MSG_DONTWAIT), len);
	assert_int_equal(((struct net_header *)in)->type, type);
	c = CMSG_FIRSTHDR(&mh);
	assert_int_equal(c != NULL, type == NET_FORWARD);
	if (c) {
		memcpy(&fd, CMSG_DATA(c), sizeof(fd));
		close(fd);
	}
}

static void hears_nothing(void)
{
	char in[100];

	settle();
	assert_int_equal(recv(helper, in, sizeof(in), MSG_DONTWAIT), -1);
}

/* Another daemon goes on with the helper, at a moment when a request has not been answered, and another not been read. Both
 * are made again, and answered once; what the helper is to do is said again. */
static void goes_on(void **state)
{
	static const struct gateway_events events = {on_ready, on_denied, on_stats, on_ended,
						     on_called};
	const struct net_header former = {NET_RESYNCED, 0}, resynced = {NET_RESYNCED, 1};
	const struct net_header early = {NET_HANG_UP, 7};
	struct gateway_config cfg = {.events = &events, .dialer = &dialer, .owner = 1};
	struct fdbag fds = {0}, copies = {.owned = true};
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
	allow(list);
	d = request("127.0.0.1", htonl(INADDR_LOOPBACK), port);
	assert_int_equal(send(helper, &d, sizeof(d), 0), sizeof(d));
	uv_run(&loop, UV_RUN_NOWAIT);
	gateway_put(gw, &record, &fds);
	assert_int_equal(fds.n, 1);
	fdbag_put(&copies, fcntl(fds.fd[0], F_DUPFD_CLOEXEC, 0));
	gateway_close(gw, NULL, NULL);
	fields = record_reader(record.data, record.len);
	assert_int_equal(gateway_take(&loop, &fields, &copies, &cfg, &next), 0);
	gw = next;
	assert_int_equal(send(helper, &d, sizeof(d), 0), sizeof(d));
	tell(&early, sizeof(early));
	hears_nothing();
	assert_int_equal(gateway_resync(gw, &port, 1), 0);
	assert_int_equal(gateway_allow(gw, list, strlen(list), why), 0);
	assert_int_equal(gateway_forward(gw, port, listener), 0);
	hears(NET_RESYNC, sizeof(struct net_resync));
	hears(NET_ALLOW, sizeof(struct net_header) + strlen(list));
	hears(NET_FORWARD, sizeof(struct net_header));
	hears_nothing();
	tell(&former, sizeof(former)); /* the answer to another */
	tell(&d, sizeof(d));
	hears_nothing();
	tell(&resynced, sizeof(resynced));
	assert_int_equal(ask("127.0.0.1", htonl(INADDR_LOOPBACK), port), NET_OK);
	hears_nothing();
	assert_int_equal(ask("a.test", 0, 443), NET_NAME);
	assert_int_equal(gateway_unforward(gw, port), 0);
	assert_int_equal(gateway_take(&loop, &fields, &copies, &cfg, &next), -EBADMSG);
	/* It is said once. */
	assert_int_equal(ended, 0);
	tell(&resynced, sizeof(resynced));
	assert_int_equal(ended, -EPROTO);
	buf_clear(&record);
	fdbag_clear(&fds);
	fdbag_clear(&copies);
	close(listener);
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
	if (gw)
		gateway_put(gw, &written, &lent);
	written_down++;
	return 0;
}

/* What it still had to say and to take out of its socket, it does not. */
static void on_committed(void *data)
{
	(void)data;
	if (!dies || !gw)
		return;
	dies = false;
	lent.fd[0] = fcntl(lent.fd[0], F_DUPFD_CLOEXEC, 0);
	lent.owned = true;
	gateway_close(gw, NULL, NULL);
	gw = NULL;
}

static const struct turn_ops turn_ops = {.write = write_down, .committed = on_committed};

/* The next one, of the record that this one has left. */
static void go_on(void)
{
	static const struct gateway_events events = {on_ready, on_denied, on_stats, on_ended,
						     on_called};
	const struct gateway_config cfg = {
		.events = &events, .dialer = &dialer, .owner = 1, .turn = &turn};
	const struct record_reader fields = record_reader(written.data, written.len);
	const uint16_t port = 0;

	assert_null(gw);
	/* An heir's turns begin when all is loaded. */
	turn = NULL;
	assert_int_equal(gateway_take(&loop, &fields, &lent, &cfg, &gw), 0);
	turn = &end_of_turn;
	fdbag_clear(&lent);
	lent.owned = false;
	assert_int_equal(gateway_resync(gw, &port, 1), 0);
}

static void deny(uint32_t number)
{
	const struct net_denied m = {
		.header = {NET_DENIED, number}, .reason = NET_NAME, .name = "a.test"};

	tell(&m, sizeof(m));
}

/* What was handled comes again, because it was not taken out of the socket, and does nothing. */
static void dies_before_it_takes_out(void **state)
{
	static const struct gateway_events events = {on_ready, on_denied, on_stats, on_ended,
						     on_called};
	const struct gateway_config cfg = {
		.events = &events, .dialer = &dialer, .owner = 1, .turn = &turn};
	const struct net_header is_ready = {.type = NET_READY}, first = {NET_RESYNCED, 1},
				second = {NET_RESYNCED, 2};
	const struct net_dial d = request("a.test", 0, 443);
	struct estate *estate;
	int sv[2];

	(void)state;
	gateway_close(gw, NULL, NULL);
	settle();
	close(helper);
	assert_int_equal(estate_new(&estate), 0);
	turn_start(&end_of_turn, &loop, estate, &turn_ops, NULL);
	turn = &end_of_turn;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sv), 0);
	helper = sv[1];
	assert_int_equal(gateway_new(&loop, sv[0], &cfg, &gw), 0);
	tell(&is_ready, sizeof(is_ready));
	assert_int_equal(gateway_go(gw), 0);
	assert_int_equal(recv(helper, &sv, sizeof(sv), MSG_DONTWAIT), -1); /* not yet */
	settle();
	hears(NET_GO, sizeof(is_ready));
	deny(1);
	assert_int_equal(denied, 1);

	dies = true;
	deny(2);
	assert_int_equal(denied, 2);
	assert_null(gw);
	hears_nothing();
	go_on();
	settle();
	hears(NET_RESYNC, sizeof(struct net_resync));
	assert_int_equal(denied, 2);
	deny(3);
	assert_int_equal(denied, 3);

	/* The answer that one has handled is not that to the next. */
	dies = true;
	tell(&first, sizeof(first));
	assert_null(gw);
	go_on();
	settle();
	hears(NET_RESYNC, sizeof(struct net_resync));
	tell(&d, sizeof(d));
	hears_nothing();
	tell(&second, sizeof(second));
	assert_int_equal(ask("a.test", 0, 443), NET_NAME);
	assert_int_equal(ended, 0);
	assert_true(written_down > 5);
	turn_close(&end_of_turn);
	settle();
	estate_free(estate);
	buf_clear(&written);
	fdbag_clear(&lent);
}

/* It hears that it may go when it is told to be. */
static void begins(void **state)
{
	const struct net_header h = {.type = NET_READY};

	(void)state;
	hears_nothing();
	tell(&h, sizeof(h));
	assert_int_equal(ready, 1);
	hears_nothing();
	assert_int_equal(gateway_go(gw), 0);
	hears(NET_GO, sizeof(h));
}

/* What was asked of a dialer that ended has failed; what comes later is done by the next. */
static void dialer_dies(void **state)
{
	struct dialer_request rq = {.done = on_port};

	(void)state;
	allow("a.test");
	assert_int_equal(ask("a.test", 0, 443), NET_UNRESOLVED);
	assert_int_equal(starts, 1);
	assert_int_equal(dialer_listen(&dialer, &rq, 0), 0);
	dial_server_close(servers[0]);
	settle();
	assert_int_equal(bound, -EPIPE);
	/* Not at once, or a host where it can't run would be kept busy. */
	assert_int_equal(dialer_listen(&dialer, &rq, 0), -EAGAIN);
	assert_int_equal(ask("a.test", 0, 443), NET_UNREACHABLE);
	assert_int_equal(starts, 1);
	dialer.started_at = 0;
	assert_int_equal(dialer_listen(&dialer, &rq, 0), 0);
	settle();
	assert_int_equal(bound, 0);
	assert_int_equal(starts, 2);
	/* One that is given up is not answered. */
	bound = 1;
	assert_int_equal(dialer_listen(&dialer, &rq, 0), 0);
	dialer_cancel(&rq);
	settle();
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
	assert_int_equal(dialer_listen(&dialer, &rq, port), 0);
	settle();
	assert_int_equal(bound, -EADDRINUSE);
	close(listener);
	assert_int_equal(dialer_listen(&dialer, &rq, port), 0);
	dialer_cancel(&rq);
	assert_int_equal(dialer_listen(&dialer, &rq, port), 0);
	settle();
	assert_int_equal(bound, 0);
	port = 0;
	listener = listener_open(&port);
	assert_true(listener >= 0);
	assert_int_equal(dialer_listen(&dialer, &rq, port), 0);
	settle();
	assert_int_equal(bound, -EADDRINUSE);
	close(listener);
}

/* The files that say how names are resolved have changed: another one, and nothing is lost. */
static void dialer_is_stale(void **state)
{
	(void)state;
	allow("a.test");
	assert_int_equal(ask("a.test", 0, 443), NET_UNRESOLVED);
	stale = true;
	assert_int_equal(ask("a.test", 0, 443), NET_UNRESOLVED);
	assert_int_equal(starts, 2);
	assert_int_equal(ask("a.test", 0, 443), NET_UNRESOLVED);
	assert_int_equal(starts, 2);
}

static void nonsense(void **state)
{
	struct net_dial d = request("a.test", 0, 443);
	struct net_denied m = {.header = {.type = NET_DENIED}, .reason = NET_NAME, .name = "x"};
	const struct net_header odd = {.type = NET_ALLOW}, caller = {NET_CALLED, 80};
	const int which = *(int *)*state;

	allow("*");
	tell(&m, sizeof(m));
	assert_int_equal(denied, 1);
	called = 0;
	tell(&caller, sizeof(caller));
	assert_int_equal(called, 1);
	switch (which) {
	case 0: tell("x", 1); break;
	case 1: tell(&odd, sizeof(odd)); break;
	case 2: tell(&d, sizeof(d) - 1); break;
	case 3:
		memset(d.name, 'a', sizeof(d.name));
		tell(&d, sizeof(d));
		break;
	case 4:
		d.name[0] = 'A';
		tell(&d, sizeof(d));
		break;
	case 5:
		d.port = 0;
		tell(&d, sizeof(d));
		break;
	case 6:
		d.name[0] = '\0';
		tell(&d, sizeof(d));
		break;
	case 7:
		m.reason = NET_NREASONS;
		tell(&m, sizeof(m));
		break;
	case 8:
		m.name[0] = '\n';
		tell(&m, sizeof(m));
		break;
	default: fail();
	}
	assert_int_equal(ended, -EPROTO);
	assert_int_equal(denied, 1);
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
	struct net_dial d = request("loop.test", 0, 443);
	struct net_dialed answer;
	unsigned busy = 0;

	(void)state;
	dialer.start = start_silent;
	allow("loop.test");
	for (d.header.id = 1; d.header.id <= 300; d.header.id++) {
		tell(&d, sizeof(d));
		while (recv(helper, &answer, sizeof(answer), MSG_DONTWAIT) == sizeof(answer))
			busy += answer.reason == NET_BUSY;
	}
	assert_int_equal(ended, 0);
	assert_true(busy > 0);
	close(silent);
}

static void helper_dies(void **state)
{
	const struct net_header h = {.type = NET_READY};
	char why[VM_WHY_MAX];

	(void)state;
	tell(&h, sizeof(h));
	assert_int_equal(ready, 1);
	shutdown(helper, SHUT_RDWR);
	uv_run(&loop, UV_RUN_NOWAIT);
	assert_int_equal(ended, -EPIPE);
	assert_int_equal(gateway_allow(gw, "a.test", 6, why), -EPIPE);
	assert_int_equal(gateway_ask_stats(gw), -EPIPE);
}

static int set_up_host(void **state)
{
	open_one = listener_open(&opened.port[0]);
	opened.n = 1;
	return open_one < 0 ? -1 : set_up(state);
}

static int tear_down_host(void **state)
{
	close(open_one);
	opened.n = 0;
	return tear_down(state);
}

static int set_up_nonsense(void **state)
{
	void *which = *state;
	const int r = set_up(state);

	*state = which;
	return r;
}

int main(void)
{
	static int n[] = {0, 1, 2, 3, 4, 5, 6, 7, 8};
#define NONSENSE(i)                                                         \
	{                                                                   \
		"nonsense " #i, nonsense, set_up_nonsense, tear_down, &n[i] \
	}
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(checks_for_itself, set_up, tear_down),
		cmocka_unit_test_setup_teardown(goes_on, set_up, tear_down),
		cmocka_unit_test_setup_teardown(connects, set_up, tear_down),
		cmocka_unit_test_setup_teardown(reaches_the_host, set_up_host, tear_down_host),
		{"trusts_names", trusts_names, set_up, tear_down, &trusted},
		cmocka_unit_test_setup_teardown(dialer_dies, set_up, tear_down),
		cmocka_unit_test_setup_teardown(port_is_given_up, set_up, tear_down),
		cmocka_unit_test_setup_teardown(dialer_is_stale, set_up, tear_down),
		cmocka_unit_test_setup_teardown(too_many, set_up, tear_down),
		cmocka_unit_test_setup_teardown(helper_dies, set_up, tear_down),
		cmocka_unit_test_setup_teardown(begins, set_up, tear_down),
		cmocka_unit_test_setup_teardown(dies_before_it_takes_out, set_up, tear_down),
		NONSENSE(0),
		NONSENSE(1),
		NONSENSE(2),
		NONSENSE(3),
		NONSENSE(4),
		NONSENSE(5),
		NONSENSE(6),
		NONSENSE(7),
		NONSENSE(8),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
