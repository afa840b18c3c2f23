/* SPDX-License-Identifier: Apache-2.0 */
/* net/allow, net/denied, ports: what a session shows of its network, and what can be changed there. */
/* modules: tests/unit/fixture/fixture.c */
#include <errno.h>

#include "tests/unit/fixture/fixture.h"

#define SESSION "python/demo"
#define ALLOW	SESSION "/net/allow"
#define DENIED	SESSION "/net/denied"
#define PORTS	SESSION "/ports"

static void turn_on(struct bed *b, const char *more)
{
	char text[512];

	snprintf(text, sizeof(text), "network = on\n%s", more);
	assert_int_equal(bed_put(b, SESSION "/config", text), 0);
}

static void test_off(void **state)
{
	struct bed *b = *state;

	assert_non_null(strstr(bed_cat(b, ALLOW), "# echo 'network = on' >> config"));
	assert_int_equal(bed_size(b, ALLOW), strlen(bed_cat(b, ALLOW)));
	bed_expect(b, DENIED, "");
	bed_expect(b, PORTS, "");
	assert_int_equal(bed_add(b, ALLOW, "example.com\n"), -ENETDOWN);
	bed_expect_error(b, SESSION, "network-off");
	/* What is read can be written. */
	assert_int_equal(bed_put(b, ALLOW, bed_cat(b, ALLOW)), 0);
	assert_int_equal(bed_open(b, DENIED, O_WRONLY, &(struct file){0}), -EACCES);
	assert_string_equal(bed_ls(b, SESSION "/net"), "allow denied ");
	assert_false(fake_sandbox());
}

static void test_list(void **state)
{
	struct bed *b = *state;

	turn_on(b, "");
	bed_expect(b, ALLOW, "");
	assert_int_equal(bed_put(b, ALLOW, "# mine\nexample.com\n*.Example.org:8443 # both\n\n"),
			 0);
	bed_expect(b, ALLOW, "example.com\n*.example.org:8443\n");
	assert_non_null(
		strstr(bed_cat(b, SESSION "/config"), "allow = example.com *.example.org:8443\n"));
	assert_int_equal(bed_add(b, ALLOW, "10.0.0.1:22\nexample.com\n"), 0);
	bed_expect(b, ALLOW, "example.com\n*.example.org:8443\n10.0.0.1:22\n");
	assert_int_equal(bed_add(b, ALLOW, "a..b\n"), -EINVAL);
	bed_expect_error(b, SESSION, "invalid");
	assert_int_equal(bed_put(b, ALLOW, "x.org\na b..c\n"), -EINVAL);
	bed_expect(b, ALLOW, "example.com\n*.example.org:8443\n10.0.0.1:22\n");
	assert_int_equal(bed_put(b, ALLOW, ""), 0); /* : > allow */
	bed_expect(b, ALLOW, "");
	assert_int_equal(bed_put(b, ALLOW, "y.org"), 0);
	assert_int_equal(bed_add(b, ALLOW, ""), 0);
	bed_expect(b, ALLOW, "y.org\n");
	assert_int_equal(bed_truncate(b, ALLOW, 0), 0);
	bed_expect(b, ALLOW, "");
}

/* A shell flushes before it has written anything; of a block there is more to come, and it may end within a
 * line. */
static void test_writers(void **state)
{
	struct bed *b = *state;
	static char block[4096];
	struct file f;

	turn_on(b, "allow = old.org\n");
	f = bed_opened(b, ALLOW, O_WRONLY | O_TRUNC);
	assert_int_equal(bed_flush(b, &f), 0);
	bed_expect(b, ALLOW, "old.org\n");
	assert_int_equal(bed_write(b, &f, "one.org\n"), 0);
	assert_int_equal(bed_write(b, &f, "two.org\n"), 0);
	assert_int_equal(bed_close(b, &f), 0);
	bed_expect(b, ALLOW, "one.org\ntwo.org\n");

	snprintf(block, sizeof(block), "a.org\n%*s", (int)sizeof(block) - 7, "\nb.o");
	block[sizeof(block) - 1] = 'r';
	f = bed_opened(b, ALLOW, O_WRONLY | O_TRUNC);
	assert_int_equal(bed_write_bytes(b, &f, block, sizeof(block)), 0);
	bed_expect(b, ALLOW, "one.org\ntwo.org\n");
	assert_int_equal(bed_write(b, &f, "g\n"), 0);
	assert_int_equal(bed_close(b, &f), 0);
	bed_expect(b, ALLOW, "a.org\nb.org\n");

	f = bed_opened(b, ALLOW, O_WRONLY | O_TRUNC); /* nothing more came */
	memset(block, '\n', sizeof(block));
	memcpy(block, "c.org", sizeof("c.org"));
	block[strlen("c.org")] = '\n';
	assert_int_equal(bed_write_bytes(b, &f, block, sizeof(block)), 0);
	assert_int_equal(bed_close(b, &f), 0);
	bed_expect(b, ALLOW, "c.org\n");
	assert_int_equal(bed_put(b, ALLOW, "a.org\nb.org\n"), 0);

	/* What was refused does not empty the list. */
	f = bed_opened(b, ALLOW, O_WRONLY | O_TRUNC);
	assert_int_equal(bed_write(b, &f, "not a name!\n"), -EINVAL);
	assert_int_equal(bed_close(b, &f), 0);
	bed_expect(b, ALLOW, "a.org\nb.org\n");
}

/* What sed -i, vim and the like do. */
static void test_renamed(void **state)
{
	struct bed *b = *state;

	turn_on(b, "allow = old.org\n");
	assert_int_equal(bed_put(b, SESSION "/net/sedXY", "new.org\n"), 0);
	assert_string_equal(bed_ls(b, SESSION "/net"), "allow denied sedXY ");
	assert_false(bed_exists(b, SESSION "/sedXY"));
	assert_int_equal(bed_rename(b, SESSION "/net/sedXY", ALLOW, 0), 0);
	bed_expect(b, ALLOW, "new.org\n");
	assert_string_equal(bed_ls(b, SESSION "/net"), "allow denied ");
	assert_int_equal(bed_put(b, SESSION "/list", "a..b\n"), 0);
	assert_int_equal(bed_rename(b, SESSION "/list", ALLOW, 0), -EINVAL);
	assert_int_equal(bed_put(b, SESSION "/list", "from.above.org\n"), 0);
	assert_int_equal(bed_rename(b, SESSION "/list", DENIED, 0), -EPERM);
	assert_int_equal(bed_rename(b, SESSION "/list", ALLOW, 0), 0);
	bed_expect(b, ALLOW, "from.above.org\n");
	assert_int_equal(bed_put(b, SESSION "/net/in", "x = 1\n"),
			 0); /* a name like any other there */
	bed_expect(b, SESSION "/in", "");
	assert_int_equal(bed_rename(b, SESSION "/net/in", SESSION "/net/b", 0), 0);
	assert_int_equal(bed_rename(b, SESSION "/net/b", SESSION "/b", 0), 0);
	bed_expect(b, SESSION "/b", "x = 1\n");
	assert_int_equal(bed_unlink(b, ALLOW), 0); /* rm -r */
	assert_int_equal(bed_rmdir(b, SESSION "/net"), 0);
	assert_true(bed_exists(b, ALLOW));
	assert_int_equal(bed_mkdir(b, SESSION "/net/sub"), -EPERM);
}

static void test_live(void **state)
{
	struct bed *b = *state;
	struct sandbox *s;

	turn_on(b, "allow = old.org\n");
	s = bed_ready(b);
	assert_true(s->network);
	assert_string_equal(s->allow, "old.org");
	assert_int_equal(bed_put(b, ALLOW, "new.org\n"), 0);
	assert_string_equal(s->allow, "new.org");
	assert_int_equal(bed_add(b, SESSION "/config", "allow = by.config\n"), 0);
	assert_string_equal(s->allow, "by.config");
	assert_int_equal(bed_put(b, ALLOW, ""), 0);
	assert_string_equal(s->allow, "");
	assert_int_equal(bed_add(b, SESSION "/config", "network = off\n"), -EBUSY);
	bed_expect_error(b, SESSION, "frozen");
}

static void test_live_off(void **state)
{
	struct bed *b = *state;
	struct sandbox *s = bed_ready(b);

	assert_false(s->network);
	assert_int_equal(bed_add(b, SESSION "/config", "network = on\n"), -EBUSY);
	assert_int_equal(bed_add(b, SESSION "/config", "ports = 80\n"), -EBUSY);
	bed_expect_error(b, SESSION, "frozen");
	assert_null(strstr(bed_cat(b, SESSION "/config"), "ports = 80"));
}

static void test_ports(void **state)
{
	struct bed *b = *state;
	struct sandbox *s;

	assert_int_equal(bed_put(b, SESSION "/config", "ports = 8080 3000:80\n"), 0);
	bed_expect(b, PORTS, "");
	s = bed_ready(b);
	assert_true(s->network); /* an interface, but no way out */
	assert_string_equal(s->allow, "");
	bed_expect(b, PORTS,
		   "8080 48080 http://127.0.0.1:48080/\n80 3000 http://127.0.0.1:3000/\n");
	assert_int_equal(bed_size(b, PORTS), strlen(bed_cat(b, PORTS)));
	/* Live: the port of this machine moves from one to the other. */
	assert_int_equal(bed_add(b, SESSION "/config", "ports = 3000:81 90\n"), 0);
	fake_forward(s);
	bed_expect(b, PORTS, "81 3000 http://127.0.0.1:3000/\n90 40090 http://127.0.0.1:40090/\n");
	assert_non_null(strstr(bed_cat(b, SESSION "/config"), "ports = 3000:81 90\n"));
	assert_int_equal(bed_put(b, SESSION "/config", ""), 0);
	assert_int_equal(bed_put(b, SESSION "/config", "# nothing\n"), 0);
	bed_expect(b, PORTS, "");
}

static void test_taken_port(void **state)
{
	struct bed *b = *state;
	struct sandbox *s;

	assert_int_equal(bed_put(b, SESSION "/config", "ports = 8080\n"), 0);
	s = bed_ready(b);
	fake_faults.taken = 3000;
	assert_int_equal(bed_add(b, SESSION "/config", "ports = 8080 3000:80\n"), 0);
	fake_forward(s);
	bed_expect_error(b, SESSION, "port-taken");
	assert_non_null(strstr(bed_cat(b, SESSION "/config"), "ports = 8080\n"));
	bed_expect(b, PORTS, "8080 48080 http://127.0.0.1:48080/\n");
	/* The answer comes when the session is gone. */
	assert_int_equal(bed_add(b, SESSION "/config", "ports = 8080 3000:80\n"), 0);
	assert_int_equal(bed_rmdir(b, SESSION), 0);
}

static void test_denied(void **state)
{
	struct bed *b = *state;
	struct sandbox_denied lost = {.time_ms = 1700000000999,
				      .lost = 7,
				      .name = "10.0.0.1",
				      .reason = "private address"};
	struct sandbox *s;

	turn_on(b, "");
	s = bed_ready(b);
	fake_denied(s, "evil.org", 443, "name not allowed");
	s->events->denied(s->data, &lost);
	bed_expect(b, DENIED,
		   "2023-11-14T22:13:20.123Z evil.org 443 name not allowed\n"
		   "# 7 more, too many at a time\n"
		   "2023-11-14T22:13:20.999Z 10.0.0.1 - private address\n");
	assert_int_equal(bed_size(b, DENIED), strlen(bed_cat(b, DENIED)));
	assert_non_null(strstr(bed_cat(b, "metrics"), "xsbxfs_net_denied_total 9\n"));
	assert_non_null(strstr(bed_cat(b, SESSION "/status.json"), "\"denied\": 9"));
	s->traffic = (struct sandbox_traffic){.bytes_in = 1u << 20, .connections = 3};
	assert_non_null(strstr(bed_cat(b, SESSION "/status.json"), "\"bytes_in\": 1048576"));
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
	struct bed *b = *state;
	struct file f = bed_opened(b, "events", O_RDONLY);
	struct sandbox *s;
	struct req *req;

	turn_on(b, "");
	s = bed_ready(b);
	for (unsigned i = 0; i < NETLOG_KEPT + 44; i++)
		fake_denied(s, "evil.org", (uint16_t)(i + 1), "name not allowed");
	assert_int_equal(count(bed_cat(b, DENIED), "evil.org"), NETLOG_KEPT);
	assert_int_equal(strncmp(bed_cat(b, DENIED), "# 44 older ones were dropped\n", 29), 0);
	assert_non_null(strstr(bed_cat(b, DENIED), "evil.org 300 name"));
	req = bed_read(b, &f, 1 << 20, 0);
	assert_int_equal(req->kind, ANSWER_BUF);
	assert_int_equal(count(req->data, "\"event\":\"denied\""), 20);
	clock_advance(5000);
	fake_denied(s, "evil.org", 1, "name not allowed");
	req = bed_read(b, &f, 1 << 20, 0);
	assert_int_equal(req->kind, ANSWER_BUF);
	assert_non_null(strstr(req->data, "\"unreported\":280"));
	bed_close(b, &f);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, bed_up, bed_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_off),	   TEST(test_list),	TEST(test_writers), TEST(test_renamed),
		TEST(test_live),   TEST(test_live_off), TEST(test_ports),   TEST(test_taken_port),
		TEST(test_denied), TEST(test_flood),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
