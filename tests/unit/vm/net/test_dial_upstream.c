/* SPDX-License-Identifier: Apache-2.0 */
/* Connections by an upstream proxy: what it is asked, what it answers, and what it is not asked for. */
/* modules: vm/net/dial/server.c vm/net/dial/dials.c vm/net/dial/upstream.c vm/net/dial/local.c vm/base/upstream.c vm/base/address.c vm/base/packets.c vm/base/lent.c vm/base/fdpass.c tests/unit/fixture/listener.c */
/* libs: uv http_parser */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/unit/fixture/listener.h"
#include "vm/base/fdpass.h"
#include "vm/base/net_reason.h"
#include "vm/net/dial/message.h"
#include "vm/net/dial/server.h"
#include "vm/base/util.h"

static uv_loop_t loop;
static struct dial_server *server;
static struct upstream_proxy proxy;
static int daemon_end, listener, tunnel = -1;

static int on_resolve(void *data, const char *name,
		      union dial_address ret_addresses[static DIAL_ADDRESSES_MAX])
{
	(void)data;
	if (strcmp(name, "proxy.test") != 0)
		return 0;
	ret_addresses[0].in =
		(struct sockaddr_in){.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	return 1;
}

static void on_ended(void *data, int err)
{
	(void)data;
	(void)err;
	dial_server_close(server);
}

static int set_up(void **state)
{
	static struct dial_config cfg = {
		.resolve = on_resolve, .ended = on_ended, .upstream = &proxy};
	int sv[2];

	(void)state;
	proxy = (struct upstream_proxy){.host = "proxy.test"};
	listener = listener_open(&proxy.port);
	assert_true(listener >= 0);
	fcntl(listener, F_SETFL, O_NONBLOCK);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sv), 0);
	daemon_end = sv[0];
	uv_loop_init(&loop);
	return dial_server_new(&loop, sv[1], &cfg, &server);
}

static int tear_down(void **state)
{
	(void)state;
	close(daemon_end);
	close(listener);
	uv_run(&loop, UV_RUN_DEFAULT);
	return uv_loop_close(&loop);
}

/* Runs the loop for some time. */
static void pass(void)
{
	uv_run(&loop, UV_RUN_NOWAIT);
	usleep(200);
}

static void ask_sparing(const char *name, uint32_t address, uint16_t port, uint32_t spared)
{
	struct {
		struct dial_connect msg;
		uint32_t spared;
	} m = {{.header = {DIAL_CONNECT, 7},
		.owner = 1,
		.user = 1,
		.address = address,
		.port = port},
	       spared};

	snprintf(m.msg.name, sizeof(m.msg.name), "%s", name);
	assert_true(send(daemon_end, &m, sizeof(m.msg) + (spared ? sizeof(spared) : 0), 0) > 0);
}

static void ask(const char *name, uint32_t address, uint16_t port)
{
	ask_sparing(name, address, port, 0);
}

/* Return: what the daemon is told; with NET_OK there is a tunnel. */
static int told(void)
{
	struct dial_done done = {0};
	ssize_t n = -EAGAIN;
	size_t nfds = 0;

	tunnel = -1;
	for (int i = 0; i < 20000 && n == -EAGAIN; i++) {
		pass();
		n = fdpass_receive(daemon_end, &done, sizeof(done), &tunnel, 1, &nfds,
				   MSG_DONTWAIT);
	}
	assert_int_equal(n, sizeof(done));
	assert_int_equal(done.header.id, 7);
	assert_int_equal(tunnel >= 0, done.result == NET_OK);
	return done.result;
}

/* A connection to the proxy; it asks for that. */
static int proxy_asked(const char *want)
{
	char got[600];
	ssize_t n = -1;
	int fd = -1;

	for (int i = 0; i < 20000 && fd < 0; i++) {
		pass();
		fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
	}
	assert_true(fd >= 0);
	for (int i = 0; i < 20000 && n < 0; i++) {
		pass();
		n = recv(fd, got, sizeof(got) - 1, 0);
	}
	assert_true(n > 0);
	got[n] = '\0';
	assert_string_equal(got, want);
	return fd;
}

static void nobody_asks(void)
{
	int fd;

	pass();
	fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
	assert_int_equal(fd, -1);
}

static void say(int fd, const char *text)
{
	assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
	for (int i = 0; i < 5; i++)
		pass();
}

static void goes_by_the_proxy(void **state)
{
	const char answer[] =
		"HTTP/1.1 200 Connection established\r\nContent-Length: 3\r\n\r\nbanner";
	char got[20] = "";
	int fd;

	(void)state;
	ask("b.test", 0, 443);
	fd = proxy_asked("CONNECT b.test:443 HTTP/1.1\r\nHost: b.test:443\r\n\r\n");
	for (const char *p = answer; *p; p++) {
		assert_int_equal(send(fd, p, 1, MSG_NOSIGNAL), 1);
		pass();
	}
	assert_int_equal(told(), NET_OK);
	/* What is behind its answer comes through the tunnel. */
	for (size_t n = 0; n < strlen("banner");) {
		const ssize_t r = recv(tunnel, got + n, sizeof(got) - 1 - n, MSG_DONTWAIT);

		pass();
		assert_true(r > 0 || errno == EAGAIN);
		n += r > 0 ? (size_t)r : 0;
	}
	assert_string_equal(got, "banner");
	close(tunnel);
	close(fd);
}

static void one_piece(void **state)
{
	char got[20] = "";
	int fd;

	(void)state;
	ask("", htonl(0x5db8d822), 80);
	fd = proxy_asked("CONNECT 93.184.216.34:80 HTTP/1.1\r\nHost: 93.184.216.34:80\r\n\r\n");
	say(fd, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.0 299 Yes\r\n\r\nbanner");
	assert_int_equal(told(), NET_OK);
	assert_int_equal(recv(tunnel, got, sizeof(got) - 1, 0), strlen("banner"));
	assert_string_equal(got, "banner");
	close(tunnel);
	close(fd);
}

static void answer_so(const char *text, bool cut, int want)
{
	int fd;

	ask("b.test", 0, 22);
	fd = proxy_asked("CONNECT b.test:22 HTTP/1.1\r\nHost: b.test:22\r\n\r\n");
	say(fd, text);
	if (cut)
		shutdown(fd, SHUT_WR);
	assert_int_equal(told(), want);
	close(fd);
}

/* It says no more, and waits: what was said is enough. */
static void answered(const char *text, int want)
{
	answer_so(text, false, want);
}

static void answered_and_cut(const char *text, int want)
{
	answer_so(text, true, want);
}

static void refused(void **state)
{
	char *longest = malloc(70000);

	(void)state;
	assert_non_null(longest);
	longest[69999] = '\0';
	memset(longest, 'a', 69999);
	memcpy(longest, "HTTP/1.1 200 OK\r\nA: ", 20);
	answered("HTTP/1.1 403 Forbidden\r\nContent-Length: 5\r\n\r\nwords", NET_UPSTREAM);
	answered("HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", NET_UPSTREAM);
	answered("HTTP/1.1 302 Found\r\nLocation: http://login.test/\r\n\r\n", NET_UPSTREAM);
	answered("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n", NET_UPSTREAM);
	answered("HTTP/1.1 502 Bad Gateway\r\n\r\n", NET_UNREACHABLE);
	answered("HTTP/1.1 504 Gateway Timeout\r\n\r\n", NET_UNREACHABLE);
	answered("SSH-2.0-OpenSSH\r\n", NET_UPSTREAM);
	answered(longest, NET_UPSTREAM);
	answered_and_cut("", NET_UPSTREAM);
	answered_and_cut("HTTP/1.1 200 cut", NET_UPSTREAM);
	free(longest);
}

/* It would reach its own host and network by these. */
static void is_not_asked(void **state)
{
	static const char *const near[] = {"localhost",
					   "a.localhost",
					   "printer",
					   "127.0.0.1",
					   "0x7f.1",
					   "2130706433",
					   "0",
					   "0.0.0.0",
					   "10.1",
					   "192.168.1.1",
					   "169.254.169.254",
					   "127.0.0.08",
					   "10.0.0.256",
					   "localhost.localdomain",
					   "localhost4.localdomain4",
					   "localhost6.localdomain6"};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(near); i++) {
		ask(near[i], 0, 80);
		assert_int_equal(told(), NET_PRIVATE);
		nobody_asks();
	}
	ask("", htonl(INADDR_LOOPBACK), 80);
	assert_int_equal(told(), NET_PRIVATE);
	nobody_asks();
}

/* By its own port it would be had whatever it goes to, addresses that are refused here among them: who is connected to that asks it
 * himself. Which other names and addresses it has is not known here. */
static void is_no_way_to_itself(void **state)
{
	struct dial_connect trusted = {
		.header = {DIAL_CONNECT, 7}, .owner = 1, .user = 1, .anywhere = 1};
	char want[100];
	int fd;

	(void)state;
	ask("proxy.test", 0, proxy.port);
	assert_int_equal(told(), NET_PRIVATE);
	ask("its.other.name.test", 0, proxy.port);
	assert_int_equal(told(), NET_PRIVATE);
	ask("93.184.216.34", htonl(0x5db8d822), proxy.port);
	assert_int_equal(told(), NET_PRIVATE);
	ask("0x5db8d822", 0, proxy.port);
	assert_int_equal(told(), NET_PRIVATE);
	nobody_asks();
	/* The administrator's lists name whom they like; other ports are as any. */
	trusted.port = proxy.port;
	snprintf(trusted.name, sizeof(trusted.name), "a.test");
	assert_true(send(daemon_end, &trusted, sizeof(trusted), 0) > 0);
	snprintf(want, sizeof(want), "CONNECT a.test:%u HTTP/1.1\r\nHost: a.test:%u\r\n\r\n",
		 proxy.port, proxy.port);
	fd = proxy_asked(want);
	say(fd, "HTTP/1.1 403 Forbidden\r\n\r\n");
	assert_int_equal(told(), NET_UPSTREAM);
	close(fd);
	ask("proxy.test", 0, 443);
	fd = proxy_asked("CONNECT proxy.test:443 HTTP/1.1\r\nHost: proxy.test:443\r\n\r\n");
	say(fd, "HTTP/1.1 403 Forbidden\r\n\r\n");
	assert_int_equal(told(), NET_UPSTREAM);
	close(fd);
	/* At a port of the web it is known by what it is called here. */
	snprintf(proxy.host, sizeof(proxy.host), "93.184.216.34");
	proxy.port = 80;
	ask("93.184.216.34", htonl(0x5db8d822), 80);
	assert_int_equal(told(), NET_PRIVATE);
}

/* What the administrator's list or the host itself permits is no business of the proxy's. */
static void spared(void **state)
{
	uint16_t port = 0;
	const int other = listener_open(&port);

	(void)state;
	ask_sparing("host.internal", htonl(INADDR_LOOPBACK), port, htonl(INADDR_LOOPBACK));
	assert_int_equal(told(), NET_OK);
	nobody_asks();
	close(tunnel);
	close(other);
}

/* Return: does this process have a network of its own now, where the loopback device has that address as well? */
static bool own_network(uint32_t address)
{
	struct ifreq r = {.ifr_name = "lo:1"}, up = {.ifr_name = "lo"};
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr = {address}};
	_cleanup_close_ int fd = -1;

	if (unshare((geteuid() ? CLONE_NEWUSER : 0) | CLONE_NEWNET) < 0)
		return false;
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	memcpy(&r.ifr_addr, &in, sizeof(in));
	up.ifr_flags = IFF_UP | IFF_LOOPBACK | IFF_RUNNING;
	return fd >= 0 && ioctl(fd, SIOCSIFFLAGS, &up) == 0 && ioctl(fd, SIOCSIFADDR, &r) == 0;
}

/* Public addresses of this machine itself, which the proxy may be on: it would be asked for what is refused without it. */
static void this_machine(void **state)
{
	const uint32_t own = htonl(0x5db8d822);
	const struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = htons(8080)};
	int fd, served;

	if (!own_network(own))
		skip();
	set_up(state);
	served = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(served, (const struct sockaddr *)&any, sizeof(any)), 0);
	assert_int_equal(listen(served, 5), 0);
	ask("93.184.216.34", own, 8080);
	assert_int_equal(told(), NET_PRIVATE);
	ask("0x5db8d822", 0, 8080);
	assert_int_equal(told(), NET_PRIVATE);
	ask_sparing("93.184.216.34", own, 8080, own);
	assert_int_equal(told(), NET_OK);
	close(tunnel);
	nobody_asks();
	ask("93.184.216.35", htonl(0x5db8d823), 80); /* somebody else's */
	fd = proxy_asked("CONNECT 93.184.216.35:80 HTTP/1.1\r\nHost: 93.184.216.35:80\r\n\r\n");
	close(fd);
	close(served);
	tear_down(state);
}

static void numbers_are_addresses(void **state)
{
	int fd;

	(void)state;
	ask("1.1", 0, 443);
	fd = proxy_asked("CONNECT 1.0.0.1:443 HTTP/1.1\r\nHost: 1.0.0.1:443\r\n\r\n");
	say(fd, "HTTP/1.1 200 OK\r\n\r\n");
	assert_int_equal(told(), NET_OK);
	close(tunnel);
	close(fd);
}

static void is_not_there(void **state)
{
	(void)state;
	close(listener);
	ask("b.test", 0, 443);
	assert_int_equal(told(), NET_UNREACHABLE);
	listener = -1;
}

/* One that is an address is not looked up: resolvers have none of a family of which this machine has but loopback. */
static void by_number(void **state)
{
	int fd;

	(void)state;
	snprintf(proxy.host, sizeof(proxy.host), "127.0.0.1");
	ask("b.test", 0, 443);
	fd = proxy_asked("CONNECT b.test:443 HTTP/1.1\r\nHost: b.test:443\r\n\r\n");
	say(fd, "HTTP/1.1 200 OK\r\n\r\n");
	assert_int_equal(told(), NET_OK);
	close(tunnel);
	close(fd);
}

/* Nothing is known of the name that was asked for. */
static void has_no_address(void **state)
{
	(void)state;
	snprintf(proxy.host, sizeof(proxy.host), "gone.test");
	ask("b.test", 0, 443);
	assert_int_equal(told(), NET_UNREACHABLE);
}

static void urls(void **state)
{
	static const char *const bad[] = {"",
					  "proxy.test:3128",
					  "https://proxy.test:3128",
					  "http://",
					  "http://:3128",
					  "http://u:p@proxy.test:3128",
					  "http://proxy.test:",
					  "http://proxy.test:0",
					  "http://proxy.test:65536",
					  "http://proxy.test:3128/x",
					  "http://proxy test",
					  "http://proxy.test:31 28",
					  "http://proxy.test\r\n"};
	struct upstream_proxy p;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_int_equal(upstream_parse(bad[i], &p), -EINVAL);
	assert_int_equal(upstream_parse("http://proxy.test:3128/", &p), 0);
	assert_string_equal(p.host, "proxy.test");
	assert_int_equal(p.port, 3128);
	assert_int_equal(upstream_parse("http://10.0.0.1", &p), 0);
	assert_int_equal(p.port, 80);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(goes_by_the_proxy, set_up, tear_down),
		cmocka_unit_test_setup_teardown(one_piece, set_up, tear_down),
		cmocka_unit_test_setup_teardown(refused, set_up, tear_down),
		cmocka_unit_test_setup_teardown(is_not_asked, set_up, tear_down),
		cmocka_unit_test_setup_teardown(is_no_way_to_itself, set_up, tear_down),
		cmocka_unit_test_setup_teardown(spared, set_up, tear_down),
		cmocka_unit_test_setup_teardown(numbers_are_addresses, set_up, tear_down),
		cmocka_unit_test_setup_teardown(is_not_there, set_up, tear_down),
		cmocka_unit_test_setup_teardown(by_number, set_up, tear_down),
		cmocka_unit_test_setup_teardown(has_no_address, set_up, tear_down),
		cmocka_unit_test(urls),
		cmocka_unit_test(
			this_machine), /* the last: this process has another network then */
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
