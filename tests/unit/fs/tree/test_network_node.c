/* SPDX-License-Identifier: Apache-2.0 */
/* net/allow, net/refused, ports: what a session shows of its network, and what can be changed there. */
/* modules: tests/unit/fixture/fixture.c */
#include <errno.h>

#include "tests/unit/fixture/fixture.h"

#define SESSION "python/demo"
#define ALLOW	SESSION "/net/allow"
#define REFUSED SESSION "/net/refused"
#define PORTS	SESSION "/ports"

static void test_off(void **state)
{
	struct fixture *fx = *state;

	assert_non_null(strstr(fx_cat(fx, ALLOW), "# echo 'network = on' >> config"));
	assert_int_equal(fx_size(fx, ALLOW), strlen(fx_cat(fx, ALLOW)));
	fx_expect(fx, REFUSED, "");
	fx_expect(fx, PORTS, "");
	assert_int_equal(fx_add(fx, ALLOW, "example.com\n"), -ENETDOWN);
	fx_expect_error(fx, SESSION, "network-off");
	/* What is read can be written. */
	assert_int_equal(fx_put(fx, ALLOW, fx_cat(fx, ALLOW)), 0);
	assert_int_equal(fx_open(fx, REFUSED, O_WRONLY, &(struct file){0}), -EACCES);
	assert_string_equal(fx_ls(fx, SESSION "/net"),
			    "allow refused rules secrets log pending allowed denied learned ");
	assert_false(fake_sandbox());
}

static void test_list(void **state)
{
	struct fixture *fx = *state;

	fx_network(fx, "");
	fx_expect(fx, ALLOW, "");
	assert_int_equal(fx_put(fx, ALLOW, "# mine\nexample.com\n*.Example.org:8443 # both\n\n"),
			 0);
	fx_expect(fx, ALLOW, "example.com\n*.example.org:8443\n");
	assert_non_null(
		strstr(fx_cat(fx, SESSION "/config"), "allow = example.com *.example.org:8443\n"));
	assert_int_equal(fx_add(fx, ALLOW, "10.0.0.1:22\nexample.com\n"), 0);
	fx_expect(fx, ALLOW, "example.com\n*.example.org:8443\n10.0.0.1:22\n");
	assert_int_equal(fx_add(fx, ALLOW, "a..b\n"), -EINVAL);
	fx_expect_error(fx, SESSION, "invalid");
	assert_int_equal(fx_put(fx, ALLOW, "x.org\na b..c\n"), -EINVAL);
	fx_expect(fx, ALLOW, "example.com\n*.example.org:8443\n10.0.0.1:22\n");
	assert_int_equal(fx_put(fx, ALLOW, ""), 0); /* : > allow */
	fx_expect(fx, ALLOW, "");
	assert_int_equal(fx_put(fx, ALLOW, "y.org"), 0);
	assert_int_equal(fx_add(fx, ALLOW, ""), 0);
	fx_expect(fx, ALLOW, "y.org\n");
	assert_int_equal(fx_truncate(fx, ALLOW, 0), 0);
	fx_expect(fx, ALLOW, "");
}

/* A shell flushes before it has written anything; of a block there is more to come, and it may end within a
 * line. */
static void test_writers(void **state)
{
	struct fixture *fx = *state;
	static char block[4096];
	struct file f;

	fx_network(fx, "allow = old.org\n");
	f = fx_opened(fx, ALLOW, O_WRONLY | O_TRUNC);
	assert_int_equal(fx_flush(fx, &f), 0);
	fx_expect(fx, ALLOW, "old.org\n");
	assert_int_equal(fx_write(fx, &f, "one.org\n"), 0);
	assert_int_equal(fx_write(fx, &f, "two.org\n"), 0);
	assert_int_equal(fx_close(fx, &f), 0);
	fx_expect(fx, ALLOW, "one.org\ntwo.org\n");

	snprintf(block, sizeof(block), "a.org\n%*s", (int)sizeof(block) - 7, "\nb.o");
	block[sizeof(block) - 1] = 'r';
	f = fx_opened(fx, ALLOW, O_WRONLY | O_TRUNC);
	assert_int_equal(fx_write_bytes(fx, &f, block, sizeof(block)), 0);
	fx_expect(fx, ALLOW, "one.org\ntwo.org\n");
	assert_int_equal(fx_write(fx, &f, "g\n"), 0);
	assert_int_equal(fx_close(fx, &f), 0);
	fx_expect(fx, ALLOW, "a.org\nb.org\n");

	f = fx_opened(fx, ALLOW, O_WRONLY | O_TRUNC); /* nothing more came */
	memset(block, '\n', sizeof(block));
	memcpy(block, "c.org", sizeof("c.org"));
	block[strlen("c.org")] = '\n';
	assert_int_equal(fx_write_bytes(fx, &f, block, sizeof(block)), 0);
	assert_int_equal(fx_close(fx, &f), 0);
	fx_expect(fx, ALLOW, "c.org\n");
	assert_int_equal(fx_put(fx, ALLOW, "a.org\nb.org\n"), 0);

	/* What was refused does not empty the list. */
	f = fx_opened(fx, ALLOW, O_WRONLY | O_TRUNC);
	assert_int_equal(fx_write(fx, &f, "not a name!\n"), -EINVAL);
	assert_int_equal(fx_close(fx, &f), 0);
	fx_expect(fx, ALLOW, "a.org\nb.org\n");
}

static void test_too_long(void **state)
{
	struct fixture *fx = *state;
	static const char blank[SETTINGS_TEXT_MAX];
	struct file f;

	fx_network(fx, "");
	f = fx_opened(fx, ALLOW, O_WRONLY | O_APPEND);
	assert_int_equal(fx_write_bytes(fx, &f, blank, sizeof(blank)), 0);
	assert_int_equal(fx_write(fx, &f, "a.org\n"), -EFBIG);
	fx_expect_error(fx, "python/demo", "too-long");
	fx_release(fx, &f);
}

/* What sed -i, vim and the like do. */
static void test_renamed(void **state)
{
	struct fixture *fx = *state;

	fx_network(fx, "allow = old.org\n");
	assert_int_equal(fx_put(fx, SESSION "/net/sedXY", "new.org\n"), 0);
	assert_string_equal(
		fx_ls(fx, SESSION "/net"),
		"allow refused rules secrets log pending allowed denied learned sedXY ");
	assert_false(fx_exists(fx, SESSION "/sedXY"));
	assert_int_equal(fx_rename(fx, SESSION "/net/sedXY", ALLOW, 0), 0);
	fx_expect(fx, ALLOW, "new.org\n");
	assert_string_equal(fx_ls(fx, SESSION "/net"),
			    "allow refused rules secrets log pending allowed denied learned ");
	assert_int_equal(fx_put(fx, SESSION "/list", "a..b\n"), 0);
	assert_int_equal(fx_rename(fx, SESSION "/list", ALLOW, 0), -EINVAL);
	assert_int_equal(fx_put(fx, SESSION "/list", "from.above.org\n"), 0);
	assert_int_equal(fx_rename(fx, SESSION "/list", REFUSED, 0), -EPERM);
	assert_int_equal(fx_rename(fx, SESSION "/list", ALLOW, 0), 0);
	fx_expect(fx, ALLOW, "from.above.org\n");
	assert_int_equal(fx_put(fx, SESSION "/net/in", "x = 1\n"),
			 0); /* a name like any other there */
	fx_expect(fx, SESSION "/in", "");
	assert_int_equal(fx_rename(fx, SESSION "/net/in", SESSION "/net/b", 0), 0);
	assert_int_equal(fx_rename(fx, SESSION "/net/b", SESSION "/b", 0), 0);
	fx_expect(fx, SESSION "/b", "x = 1\n");
	assert_int_equal(fx_unlink(fx, ALLOW), 0); /* rm -r */
	assert_int_equal(fx_rmdir(fx, SESSION "/net"), 0);
	assert_true(fx_exists(fx, ALLOW));
	assert_int_equal(fx_mkdir(fx, SESSION "/net/sub"), -EPERM);
}

static void test_live(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s;

	fx_network(fx, "allow = old.org\n");
	s = fx_ready(fx);
	assert_true(s->network);
	assert_string_equal(s->allow, "old.org");
	assert_int_equal(fx_put(fx, ALLOW, "new.org\n"), 0);
	assert_string_equal(s->allow, "new.org");
	assert_int_equal(fx_add(fx, SESSION "/config", "allow = by.config\n"), 0);
	assert_string_equal(s->allow, "by.config");
	assert_int_equal(fx_put(fx, ALLOW, ""), 0);
	assert_string_equal(s->allow, "");
	assert_int_equal(fx_add(fx, SESSION "/config", "network = off\n"), -EBUSY);
	fx_expect_error(fx, SESSION, "frozen");
}

static void test_live_off(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = fx_ready(fx);

	assert_false(s->network);
	assert_int_equal(fx_add(fx, SESSION "/config", "network = on\n"), -EBUSY);
	assert_int_equal(fx_add(fx, SESSION "/config", "ports = 80\n"), -EBUSY);
	fx_expect_error(fx, SESSION, "frozen");
	assert_null(strstr(fx_cat(fx, SESSION "/config"), "ports = 80"));
}

static void test_ports(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s;

	assert_int_equal(fx_put(fx, SESSION "/config", "ports = 8080 3000:80\n"), 0);
	fx_expect(fx, PORTS, "");
	s = fx_ready(fx);
	assert_true(s->network); /* an interface, but no way out */
	assert_string_equal(s->allow, "");
	fx_expect(fx, PORTS,
		  "8080 48080 http://127.0.0.1:48080/\n80 3000 http://127.0.0.1:3000/\n");
	assert_int_equal(fx_size(fx, PORTS), strlen(fx_cat(fx, PORTS)));
	/* Live: the port of this machine moves from one to the other. */
	assert_int_equal(fx_add(fx, SESSION "/config", "ports = 3000:81 90\n"), 0);
	fake_forward(s);
	fx_expect(fx, PORTS, "81 3000 http://127.0.0.1:3000/\n90 40090 http://127.0.0.1:40090/\n");
	assert_non_null(strstr(fx_cat(fx, SESSION "/config"), "ports = 3000:81 90\n"));
	assert_int_equal(fx_put(fx, SESSION "/config", ""), 0);
	assert_int_equal(fx_put(fx, SESSION "/config", "# nothing\n"), 0);
	fx_expect(fx, PORTS, "");
}

static void test_taken_port(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s;

	assert_int_equal(fx_put(fx, SESSION "/config", "ports = 8080\n"), 0);
	s = fx_ready(fx);
	fake_faults.taken = 3000;
	assert_int_equal(fx_add(fx, SESSION "/config", "ports = 8080 3000:80\n"), 0);
	fake_forward(s);
	fx_expect_error(fx, SESSION, "port-taken");
	assert_non_null(strstr(fx_cat(fx, SESSION "/config"), "ports = 8080\n"));
	fx_expect(fx, PORTS, "8080 48080 http://127.0.0.1:48080/\n");
	/* The answer comes when the session is gone. */
	assert_int_equal(fx_add(fx, SESSION "/config", "ports = 8080 3000:80\n"), 0);
	assert_int_equal(fx_rmdir(fx, SESSION), 0);
}

static void test_denied(void **state)
{
	struct fixture *fx = *state;
	struct sandbox_denied lost = {.time_ms = 1700000000999,
				      .lost = 7,
				      .name = "10.0.0.1",
				      .reason = "private address"};
	struct sandbox *s;

	fx_network(fx, "");
	s = fx_ready(fx);
	fake_denied(s, "evil.org", 443, "name not allowed");
	s->events->denied(s->data, &lost);
	fx_expect(fx, REFUSED,
		  "2023-11-14T22:13:20.123Z evil.org 443 name not allowed\n"
		  "# 7 more, too many at a time\n"
		  "2023-11-14T22:13:20.999Z 10.0.0.1 - private address\n");
	assert_int_equal(fx_size(fx, REFUSED), strlen(fx_cat(fx, REFUSED)));
	assert_non_null(strstr(fx_cat(fx, "metrics"), "xsbxfs_net_denied_total 9\n"));
	assert_non_null(strstr(fx_cat(fx, SESSION "/status.json"), "\"denied\": 9"));
	s->traffic = (struct sandbox_traffic){.bytes_in = 1u << 20, .connections = 3};
	assert_non_null(strstr(fx_cat(fx, SESSION "/status.json"), "\"bytes_in\": 1048576"));
}

static unsigned count(const char *text, const char *part)
{
	unsigned n = 0;

	while ((text = strstr(text, part))) {
		n++;
		text += strlen(part);
	}
	return n;
}

/* Neither the list nor the events grow without bounds. */
static void test_flood(void **state)
{
	struct fixture *fx = *state;
	struct file f = fx_opened(fx, "events", O_RDONLY);
	struct sandbox *s;
	struct req *req;

	fx_network(fx, "");
	s = fx_ready(fx);
	for (unsigned i = 0; i < NETLOG_KEPT + 44; i++)
		fake_denied(s, "evil.org", (uint16_t)(i + 1), "name not allowed");
	assert_int_equal(count(fx_cat(fx, REFUSED), "evil.org"), NETLOG_KEPT);
	assert_int_equal(strncmp(fx_cat(fx, REFUSED), "# 44 older ones were dropped\n", 29), 0);
	assert_non_null(strstr(fx_cat(fx, REFUSED), "evil.org 300 name"));
	req = fx_read(fx, &f, 1 << 20, 0);
	assert_int_equal(req->kind, ANSWER_BUF);
	assert_int_equal(count(req->data, "\"event\":\"denied\""), 20);
	clock_advance(5000);
	fake_denied(s, "evil.org", 1, "name not allowed");
	req = fx_read(fx, &f, 1 << 20, 0);
	assert_int_equal(req->kind, ANSWER_BUF);
	assert_non_null(strstr(req->data, "\"unreported\":280"));
	fx_close(fx, &f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		fx_test(test_off),	fx_test(test_list),    fx_test(test_writers),
		fx_test(test_too_long), fx_test(test_renamed), fx_test(test_live),
		fx_test(test_live_off), fx_test(test_ports),   fx_test(test_taken_port),
		fx_test(test_denied),	fx_test(test_flood),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
