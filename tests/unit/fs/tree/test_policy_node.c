/* SPDX-License-Identifier: Apache-2.0 */
/* net/rules, net/secrets, net/pending, net/allowed, net/denied, net/log: what a network may be used for, and was. */
/* modules: tests/unit/fixture/fixture.c */
#include <errno.h>

#include "tests/unit/fixture/fixture.h"
#include "vm/base/secret_list.h"
#include "vm/base/util.h"

#define SESSION "python/demo"
#define NET	SESSION "/net/"
#define RULES	NET "rules"
#define SECRETS NET "secrets"

/* ---- rules, secrets ---- */

static void test_rules(void **state)
{
	struct fixture *fx = *state;

	assert_int_equal(fx_add(fx, RULES, "deny * example.com\n"), -ENETDOWN);
	fx_expect_error(fx, SESSION, "network-off");
	fx_network(fx, "");
	fx_expect(fx, RULES, "");
	assert_int_equal(fx_put(fx, RULES,
				"# mine\nallow get,HEAD  api.Example.com/v1/*\n"
				"deny\t* *.example.com # all else\n\n"),
			 0);
	fx_expect(fx, RULES, "allow GET,HEAD api.Example.com/v1/*\ndeny * *.example.com\n");
	assert_int_equal(fx_size(fx, RULES), strlen(fx_cat(fx, RULES)));
	fx_expect_in(fx, SESSION "/config",
		     "\nrules = allow GET,HEAD api.Example.com/v1/* deny * *.example.com\n");
	assert_int_equal(fx_add(fx, RULES, "ask * x.org\n"), 0);
	assert_int_equal(fx_add(fx, RULES, "permit * x.org\n"), -EINVAL);
	fx_expect_error(fx, SESSION, "invalid");
	fx_expect_in(fx, SESSION "/error", "rule 4: permit: a rule begins with");
	assert_int_equal(fx_put(fx, RULES, "allow * x.org\nallow\n"), -EINVAL);
	fx_expect(fx, RULES,
		  "allow GET,HEAD api.Example.com/v1/*\ndeny * *.example.com\nask * x.org\n");
	/* What is read can be written, here and in `config`. */
	assert_int_equal(fx_put(fx, RULES, fx_cat(fx, RULES)), 0);
	assert_int_equal(fx_put(fx, SESSION "/config", fx_cat(fx, SESSION "/config")), 0);
	fx_expect(fx, RULES,
		  "allow GET,HEAD api.Example.com/v1/*\ndeny * *.example.com\nask * x.org\n");
	assert_int_equal(fx_put(fx, RULES, ""), 0);
	fx_expect(fx, RULES, "");
	assert_int_equal(fx_put(fx, RULES, "deny * a"), 0);
	assert_int_equal(fx_truncate(fx, RULES, 0), 0);
	fx_expect(fx, RULES, "");
	/* A text that turns the network off takes them along. */
	assert_int_equal(fx_put(fx, RULES, "deny * a"), 0);
	assert_int_equal(fx_add(fx, SESSION "/config", "network = off"), 0);
	fx_expect(fx, RULES, "");
}

/* Rules that deny may name anything; others only what the administrator allows. */
static void test_permitted(void **state)
{
	struct fixture *fx = *state;

	free(fx->conf.limits.max_allow);
	fx->conf.limits.max_allow = strdup("*.example.com:443 example.org");
	fx_network(fx, "");
	assert_int_equal(fx_put(fx, RULES, "deny * *"), 0);
	assert_int_equal(fx_put(fx, RULES, "allow GET api.example.com:443/x"), 0);
	assert_int_equal(fx_put(fx, RULES, "allow GET api.example.com/x"), -EINVAL);
	fx_expect_error(fx, SESSION, "not-allowed");
	fx_expect_in(fx, SESSION "/error",
		     "rules: the administrator does not allow \"api.example.com\"");
	assert_int_equal(fx_put(fx, RULES, "ask POST example.net"), -EINVAL);
	assert_int_equal(fx_put(fx, RULES, "ask * *"), -EINVAL);
	assert_int_equal(fx_put(fx, RULES, "ask POST example.org/a"), 0);
	fx_expect(fx, RULES, "ask POST example.org/a\n");
}

static void add_secret(struct fixture *fx, const char *name, const char *hosts, const char *users)
{
	struct vm_secrets *list = &fx->conf.vm.secrets;
	char why[128];
	size_t i;

	assert_int_equal(secret_list_add(list, name, strlen(name), &i, why), 0);
	assert_int_equal(secret_list_set(list, i, "from", "file /etc/token", false, why), 0);
	assert_int_equal(secret_list_set(list, i, "hosts", hosts, false, why), 0);
	if (users)
		assert_int_equal(secret_list_set(list, i, "users", users, false, why), 0);
}

static void test_secrets(void **state)
{
	struct fixture *fx = *state;

	fx->fs->uid = fx_demo(fx)->uid; /* who mounts */
	add_secret(fx, "token", "api.example.com *.example.org:8443", NULL);
	add_secret(fx, "others", "api.example.com", "4242");
	fx_network(fx, "");
	assert_int_equal(fx_put(fx, SECRETS, "api.example.com/v1* bearer token # x\n"), 0);
	fx_expect(fx, SECRETS, "api.example.com/v1* bearer token\n");
	assert_int_equal(fx_add(fx, SECRETS, "a.example.org:8443 header X-Key token"), 0);
	assert_int_equal(fx_add(fx, SECRETS, "a.example.org header X-Key token"), -EINVAL);
	fx_expect_in(fx, SESSION "/error", "secrets: token may not be sent to a.example.org:443");
	assert_int_equal(fx_add(fx, SECRETS, "host.internal:80 bearer token"), -EINVAL);
	assert_int_equal(fx_add(fx, SECRETS, "api.example.com bearer nothing"), -EINVAL);
	fx_expect_in(fx, SESSION "/error", "there is no secret \"nothing\" for you");
	assert_int_equal(fx_add(fx, SECRETS, "api.example.com bearer others"), -EINVAL);
	fx_expect_error(fx, SESSION, "not-allowed");
	fx_expect(fx, SECRETS,
		  "api.example.com/v1* bearer token\na.example.org:8443 header X-Key token\n");
	/* What a file of one's own has is known when it is read. */
	assert_int_equal(fx_add(fx, SESSION "/config", "secrets_file = relative"), -EINVAL);
	assert_int_equal(fx_add(fx, SESSION "/config", "secrets_file = /home/me/secrets"), 0);
	assert_int_equal(fx_add(fx, SECRETS, "api.example.com bearer mine"), 0);
	assert_int_equal(fx_add(fx, SESSION "/config", "secrets_file ="), -EINVAL);
	secret_list_fini(&fx->conf.vm.secrets);
}

/* All of it goes to the sandbox, at its start and whenever it changes. */
static void test_applied(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s;

	fx->conf.limits.first_rules = strdup("deny * bad.test");
	fx_network(
		fx,
		"allow = example.com\nrules = deny POST example.com\nnet_bytes = 64M\nask = yes\n");
	s = fx_run(fx, "x");
	assert_string_equal(s->rules, "deny POST example.com");
	assert_string_equal(s->first, "deny * bad.test");
	assert_true(s->policy.ask);
	assert_int_equal(s->policy.ask_s, 120);
	assert_int_equal(s->policy.most.bytes, 64u << 20);
	assert_int_equal(s->npolicies, 0);
	assert_int_equal(fx_put(fx, RULES, "deny * example.com"), 0);
	assert_string_equal(s->rules, "deny * example.com");
	assert_string_equal(s->allow, "example.com");
	assert_int_equal(s->npolicies, 1);
	assert_int_equal(fx_put(fx, RULES, "deny  *  example.com"), 0);
	assert_int_equal(s->npolicies, 1);
	assert_int_equal(fx_add(fx, SESSION "/config",
				"ask = no\nask_s = 5\nnet_requests = 10\nnet_connections = 7\n"
				"net_rate = 1M\nnet_bytes = 0\n"),
			 0);
	assert_int_equal(s->npolicies, 2);
	assert_false(s->policy.ask);
	assert_int_equal(s->policy.ask_s, 5);
	assert_int_equal(s->policy.most.requests, 10);
	assert_int_equal(s->policy.most.connections, 7);
	assert_int_equal(s->policy.most.bytes, 0);
	assert_int_equal(s->policy.rate, 1u << 20);
	fx_expect_in(fx, SESSION "/config", "\nnet_rate = 1M\n");
	fx_expect_in(fx, SESSION "/status.json", "\"net_rate\": 1048576");
	assert_int_equal(fx_add(fx, SESSION "/config", "timeout_s = 5"), 0);
	assert_int_equal(s->npolicies, 2);
}

static void test_limits(void **state)
{
	struct fixture *fx = *state;

	fx->conf.limits.max_net_bytes = 1u << 30;
	fx->conf.limits.max_net_requests = 100;
	fx_network(fx, "net_bytes = 512M\nnet_requests = 100\n");
	assert_int_equal(fx_add(fx, SESSION "/config", "net_bytes = 2G"), -EINVAL);
	fx_expect_error(fx, SESSION, "limit");
	fx_expect_in(fx, SESSION "/error",
		     "net_bytes: 2G is more than the administrator allows, which is 1G");
	assert_int_equal(fx_add(fx, SESSION "/config", "net_bytes = 0"), -EINVAL);
	assert_int_equal(fx_add(fx, SESSION "/config", "net_requests = 101"), -EINVAL);
	assert_int_equal(fx_add(fx, SESSION "/config", "net_requests = 1K"), -EINVAL);
	assert_int_equal(fx_add(fx, SESSION "/config", "net_connections = 1000000000"), 0);
}

/* ---- questions ---- */

/* These words are in the lines of `events`. Return: how often. */
static unsigned told(struct fixture *fx, const char *words)
{
	struct file f = fx_opened(fx, "events", O_RDONLY);
	struct req *req = fx_read(fx, &f, 1 << 20, 0);
	unsigned n = 0;

	assert_int_equal(req->kind, ANSWER_BUF);
	for (const char *at = req->data; (at = strstr(at, words)); at++)
		n++;
	fx_close(fx, &f);
	return n;
}

static struct sandbox *asking(struct fixture *fx)
{
	struct sandbox *s;

	fx_network(fx, "ask = yes\n");
	s = fx_run(fx, "x");
	fx_demo(fx)->active->started =
		(struct timespec){1700000000, 0}; /* before what the fake tells of */
	return s;
}

static void test_question(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = asking(fx);

	assert_string_equal(fx_ls(fx, SESSION "/net"),
			    "allow refused rules secrets log pending allowed denied learned ");
	assert_string_equal(fx_ls(fx, NET "pending"), "");
	fake_asks(s, 70, "POST", "https", "api.example.com", 443, "/v1/x?key=1", 0);
	fake_asks(s, 71, "", "tcp", "example.com", 22, "", 0);
	assert_string_equal(fx_ls(fx, NET "pending"), "1 2 ");
	assert_string_equal(fx_ls(fx, NET "pending/1"), "who what why until decision status.json ");
	fx_expect(fx, NET "pending/1/who", "run 1\n");
	fx_expect(fx, NET "pending/1/what", "POST https://api.example.com/v1/x?key=1\n");
	fx_expect(fx, NET "pending/2/what", "tcp example.com 22\n");
	fx_expect(fx, NET "pending/1/why",
		  "neither net/allow nor a rule allows it, and ask = yes\n");
	fx_expect(fx, NET "pending/1/until", "2023-11-14T22:15:20Z\n");
	fx_expect(fx, NET "pending/1/decision", "once\n");
	fx_expect_in(fx, NET "pending/1/status.json", "\"state\": \"pending\"");
	assert_false(fx_exists(fx, NET "pending/1/decided"));
	assert_false(fx_exists(fx, NET "allowed/1"));
	assert_false(fx_exists(fx, NET "pending/01"));
	assert_true(told(fx, "{\"event\":\"asked\",\"number\":1,\"what\":\"POST "
			     "https://api.example.com/v1/x?key=1\",\"who\":[\"run 1\"]"));
	fx_expect_in(fx, SESSION "/status.json", "\"pending\": 2");

	assert_int_equal(fx_rename(fx, NET "pending/1", NET "allowed/1", 0), 0);
	assert_int_equal(s->ndecided, 1);
	assert_int_equal(s->decided[0].id, 70);
	assert_true(s->decided[0].allowed);
	assert_int_equal(fx_rename(fx, NET "pending/2", NET "denied/2", 1 /* NOREPLACE */), 0);
	assert_int_equal(s->decided[1].id, 71);
	assert_false(s->decided[1].allowed);
	assert_string_equal(fx_ls(fx, NET "pending"), "");
	assert_string_equal(fx_ls(fx, NET "allowed"), "1 ");
	assert_string_equal(fx_ls(fx, NET "denied"), "2 ");
	fx_expect_in(fx, NET "allowed/1/decided", " allowed once, by uid ");
	assert_true(told(fx, "\"state\":\"denied\",\"decided\":\"denied once, by uid "));
	fx_expect(fx, RULES, "");
	assert_int_equal(s->npolicies, 0);

	/* It was decided. */
	assert_int_equal(fx_rename(fx, NET "denied/2", NET "allowed/2", 0), -EPERM);
	fx_expect_in(fx, SESSION "/error", "it was decided already");
	assert_int_equal(fx_put(fx, NET "denied/2/decision", "always\n"), -EPERM);
	assert_int_equal(fx_rmdir(fx, NET "denied/2"), 0);
	assert_string_equal(fx_ls(fx, NET "denied"), "");
	assert_int_equal(s->ndecided, 2);
}

static void test_wrong_moves(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = asking(fx);

	fake_asks(s, 5, "GET", "http", "example.com", 80, "/", 0);
	assert_int_equal(fx_rename(fx, NET "pending/1", NET "allowed/x", 0), -EINVAL);
	fx_expect_in(fx, SESSION "/error", "what is asked keeps its number");
	assert_int_equal(fx_rename(fx, NET "pending/1", NET "pending/2", 0), -EINVAL);
	assert_int_equal(fx_rename(fx, NET "pending/1", NET "1", 0), -EXDEV);
	assert_int_equal(fx_rename(fx, NET "pending/7", NET "allowed/7", 0), -ENOENT);
	assert_int_equal(fx_rename(fx, NET "pending/1", NET "pending/1", 0), 0);
	assert_int_equal(fx_mkdir(fx, NET "pending/9"), -EPERM);
	assert_int_equal(fx_put(fx, NET "pending/1/decision", "never\n"), -EINVAL);
	fx_expect_in(fx, SESSION "/error", "Write once or always.");
	assert_int_equal(s->ndecided, 0);
	/* Who removes the question answers it. */
	assert_int_equal(fx_rmdir(fx, NET "pending/1"), 0);
	assert_int_equal(s->ndecided, 1);
	assert_false(s->decided[0].allowed);
	assert_string_equal(fx_ls(fx, NET "denied"), "");
}

static void test_always(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = asking(fx);

	assert_int_equal(fx_put(fx, RULES, "ask * *.test"), 0);
	fake_asks(s, 1, "POST", "https", "api.test", 443, "/v1/a*b?q=/../", 1);
	fx_expect(fx, NET "pending/1/why", "rule 1 of net/rules asks: ask * *.test\n");
	assert_int_equal(fx_put(fx, NET "pending/1/decision", "always\n"), 0);
	fx_expect(fx, NET "pending/1/decision", "always\n");
	assert_int_equal(fx_rename(fx, NET "pending/1", NET "allowed/1", 0), 0);
	fx_expect(fx, RULES, "allow POST api.test:443/v1/a%2Ab\nask * *.test\n");
	assert_string_equal(s->rules, "allow POST api.test:443/v1/a%2Ab ask * *.test");
	assert_true(s->decided[0].allowed);
	fx_expect_in(fx, NET "allowed/1/decided", " allowed for good, by uid ");

	fake_asks(s, 2, "", "tcp", "git.test", 22, "", 2);
	assert_int_equal(fx_put(fx, NET "pending/2/decision", "always"), 0);
	assert_int_equal(fx_rename(fx, NET "pending/2", NET "denied/2", 0), 0);
	fx_expect(fx, RULES,
		  "deny * git.test:22\nallow POST api.test:443/v1/a%2Ab\nask * *.test\n");
	assert_false(s->decided[1].allowed);

	/* No rule can be made of what servers read in different ways; once it can be decided. */
	fake_asks(s, 3, "GET", "http", "api.test", 80, "/a;b", 2);
	assert_int_equal(fx_put(fx, NET "pending/3/decision", "always\n"), -EINVAL);
	fx_expect_in(fx, SESSION "/error", "no rule can name this path alone");
	fx_expect(fx, NET "pending/3/decision", "once\n");
	/* The administrator's permission is asked for a rule as for any. */
	free(fx->conf.limits.max_allow);
	fx->conf.limits.max_allow = strdup("*.test");
	fake_asks(s, 4, "GET", "http", "other.org", 80, "/", 0);
	assert_int_equal(fx_put(fx, NET "pending/4/decision", "always\n"), 0);
	assert_int_equal(fx_rename(fx, NET "pending/4", NET "allowed/4", 0), -EINVAL);
	fx_expect_error(fx, SESSION, "not-allowed");
	assert_string_equal(fx_ls(fx, NET "pending"), "3 4 ");
	assert_int_equal(s->ndecided, 2);
}

/* Nobody gets further than the administrator lets him by being asked; but where he has asked himself. */
static void test_beyond(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = asking(fx);

	free(fx->conf.limits.max_allow);
	fx->conf.limits.max_allow = strdup("*.test");
	fake_asks(s, 1, "GET", "http", "other.org", 80, "/", 0);
	fake_asks(s, 2, "", "tcp", "git.test", 22, "", 0);
	assert_int_equal(fx_rename(fx, NET "pending/1", NET "allowed/1", 0), -EINVAL);
	fx_expect_error(fx, SESSION, "not-allowed");
	assert_int_equal(fx_rename(fx, NET "pending/2", NET "allowed/2", 0), -EINVAL);
	assert_string_equal(fx_ls(fx, NET "pending"), "1 2 ");
	assert_int_equal(s->ndecided, 0);
	assert_int_equal(fx_rename(fx, NET "pending/1", NET "denied/1", 0), 0);
	fake_asks(s, 3, "GET", "http", "web.test", 80, "/", 0);
	fake_asks(s, 4, "GET", "http", "other.org", 80, "/", SANDBOX_RULE_FIRST | 1);
	assert_int_equal(fx_rename(fx, NET "pending/3", NET "allowed/3", 0), 0);
	assert_int_equal(fx_rename(fx, NET "pending/4", NET "allowed/4", 0), 0);
	assert_int_equal(s->ndecided, 3);
}

static void test_unasked(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = asking(fx);

	for (uint32_t i = 1; i <= 4; i++)
		fake_asks(s, i, "GET", "https", "api.test", 443, "/v1", 0);
	fake_asks_no_more(s, 1, SANDBOX_UNASKED_LATE);
	fake_asks_no_more(s, 1, SANDBOX_UNASKED_LATE);
	fake_asks_no_more(s, 9, SANDBOX_UNASKED_GONE);
	fake_asks_no_more(s, 2, SANDBOX_UNASKED_GONE);
	assert_int_equal(fx_put(fx, RULES, "allow GET api.test"), 0);
	fake_asks_no_more(s, 3, SANDBOX_UNASKED_RULES);
	assert_string_equal(fx_ls(fx, NET "pending"), "4 ");
	assert_string_equal(fx_ls(fx, NET "denied"), "1 2 ");
	assert_string_equal(fx_ls(fx, NET "allowed"), "3 ");
	fx_expect_in(fx, NET "denied/1/decided", "denied, for nobody decided in time\n");
	fx_expect_in(fx, NET "denied/2/decided", "the program gave up\n");
	fx_expect_in(fx, NET "allowed/3/decided", "what net/rules or net/allow say now\n");
	assert_int_equal(s->ndecided, 0);
	/* Nobody is asked any more: that is none. */
	fake_asks(s, 5, "GET", "https", "other.test", 443, "/", 0);
	assert_int_equal(fx_add(fx, SESSION "/config", "ask = no"), 0);
	fake_asks_no_more(s, 5, SANDBOX_UNASKED_RULES);
	fx_expect_in(fx, NET "denied/5/decided", "denied by what net/rules or net/allow say now\n");
	/* With the sandbox goes what waits in it. */
	assert_int_equal(fx_put(fx, SESSION "/ctl", "close"), 0);
	fx_expect_in(fx, NET "denied/4/decided", "the sandbox is gone\n");
	assert_string_equal(fx_ls(fx, NET "pending"), "");
	assert_int_equal(fx_rename(fx, NET "denied/4", NET "allowed/4", 0), -EPERM);
}

/* A sandbox that asks without end takes neither memory nor all lines of `events`. */
static void test_many(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = asking(fx);
	char name[64];

	for (uint32_t i = 1; i <= QUESTIONS_OPEN_MAX + 5; i++)
		fake_asks(s, i, "GET", "https", "api.test", 443, "/v1", 0);
	assert_int_equal(fx_demo(fx)->questions.n[QUESTION_OPEN], QUESTIONS_OPEN_MAX);
	assert_int_equal(s->ndecided, 5);
	assert_false(s->decided[0].allowed);
	assert_in_range(told(fx, "\"event\":\"asked\""), 20, 100);
	for (unsigned i = 1; i <= QUESTIONS_KEPT + 3; i++)
		fake_asks_no_more(s, i, SANDBOX_UNASKED_LATE);
	assert_int_equal(fx_demo(fx)->questions.n[QUESTION_DENIED], QUESTIONS_KEPT);
	assert_false(fx_exists(fx, NET "denied/3"));
	snprintf(name, sizeof(name), NET "denied/%u", QUESTIONS_KEPT + 3);
	assert_true(fx_exists(fx, name));
	/* All of it can be removed. */
	assert_int_equal(fx_rmdir(fx, SESSION), 0);
}

/* Texts of the sandbox's end nowhere else. */
static void test_hostile(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = asking(fx);

	fake_asks(s, 1, "GET", "https", "api.test", 443, "/\"} \x1b[31m\nr\xc3\xa9", 0);
	fx_expect(fx, NET "pending/1/what", "GET https://api.test/\"}%20%1B[31m%0Ar%C3%A9\n");
	fx_expect_in(fx, NET "pending/1/status.json", "/\\\"}%20%1B[31m%0Ar%C3%A9");
	assert_int_equal(fx_put(fx, NET "pending/1/decision", "always"), -EINVAL);
	fake_asks(s, 2, "GET x", "https", "api.test", 443, "/", 0);
	assert_int_equal(fx_put(fx, NET "pending/2/decision", "always"), -EINVAL);
	fake_asks(s, 3, "GET", "https", "* deny * b", 443, "/", 0);
	assert_int_equal(fx_put(fx, NET "pending/3/decision", "always"), -EINVAL);
	fake_asks(s, 4, "GET", "https", "api.test/x #", 443, "/", 0);
	assert_int_equal(fx_put(fx, NET "pending/4/decision", "always"), -EINVAL);
	fake_asks(s, 5, "GET,PUT", "https", "api.test", 443, "/", 0);
	assert_int_equal(fx_put(fx, NET "pending/5/decision", "always"), -EINVAL);
	fake_asks(s, 6, "*", "https", "api.test", 443, "/", 0);
	assert_int_equal(fx_put(fx, NET "pending/6/decision", "always"), -EINVAL);
	fx_expect(fx, RULES, "");
}

/* ---- net/log ---- */

static unsigned count(const char *text, const char *word)
{
	unsigned n = 0;

	while ((text = strstr(text, word))) {
		text++;
		n++;
	}
	return n;
}

static void log_one(struct sandbox *s, const char *path, uint32_t lost)
{
	struct sandbox_logged what = fake_request(path);

	what.lost = lost;
	fake_logged(s, &what);
}

static void test_log(void **state)
{
	static const char line[] =
		"{\"time\":1700000000.123,\"took_ms\":41,\"who\":\"run 1\",\"name\":\"api.test\","
		"\"port\":443,\"method\":\"GET\",\"scheme\":\"https\",\"version\":\"2\","
		"\"path\":\"/a\",\"status\":200,\"bytes_in\":5,\"bytes_out\":6,\"refused\":false,"
		"\"rule\":3,\"secret\":\"token\",\"reason\":null}\n";
	const struct sandbox_logged tcp = {.method = "",
					   .scheme = "tcp",
					   .version = "",
					   .host = "x\xff\"",
					   .port = 22,
					   .path = "",
					   .refused = true,
					   .rule = SANDBOX_RULE_FIRST | 2,
					   .secret = "",
					   .reason = "deny"};
	struct fixture *fx = *state;
	struct sandbox *s = asking(fx);

	fx_expect(fx, NET "log", "");
	log_one(s, "/a", 0);
	fx_expect(fx, NET "log", line);
	assert_int_equal(fx_size(fx, NET "log"), sizeof(line) - 1);
	fake_logged(s, &tcp);
	fx_expect_in(fx, NET "log", "\"method\":null,\"scheme\":\"tcp\"");
	fx_expect_in(fx, NET "log", "\"refused\":true,\"first_rule\":2,");
	fx_expect_in(fx, SESSION "/status.json", "\"requests\": {\n        \"used\": 1");
	assert_int_equal(fx_size(fx, NET "log"), strlen(fx_cat(fx, NET "log")));
	log_one(s, "/b", 7);
	assert_int_equal(strncmp(fx_cat(fx, NET "log"), "{\"dropped\":7}", 13), 0);
	assert_int_equal(fx_size(fx, NET "log"), strlen(fx_cat(fx, NET "log")));
}

static void log_at(struct sandbox *s, int64_t ms)
{
	struct sandbox_logged what = fake_request("/late");

	what.time_ms = ms;
	fake_logged(s, &what);
}

/* What is told of late is whose it was then; what a job has left behind is the job's. */
static void test_log_whose(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = asking(fx);
	const int64_t later = (int64_t)(time(NULL) + 60) * 1000;
	struct fake_job *j;

	fake_exit(s, VM_DONE, 0);
	log_one(s, "/a", 0);
	fx_expect_in(fx, NET "log", "1700000000.123,\"took_ms\":41,\"who\":\"run 1\"");
	log_at(s, 1699999999999);
	fx_expect_in(fx, NET "log", "1699999999.999,\"took_ms\":41,\"who\":null");
	log_at(s, later);
	fx_expect_in(fx, NET "log", ".0,\"took_ms\":41,\"who\":null");
	j = fx_job(fx, "build");
	log_at(s, later + 1000);
	fake_job_exit(s, j, VM_DONE, 0);
	log_at(s, later + 2000);
	assert_int_equal(count(fx_cat(fx, NET "log"), "\"who\":\"job build\""), 2);
	fake_job_gone(s, j);
	log_at(s, later + 3000);
	assert_int_equal(count(fx_cat(fx, NET "log"), "\"who\":\"job build\""), 2);
}

/* What tail -f does, while the oldest lines go: the file never gets shorter, and what is new is there. */
static void test_log_follows(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = asking(fx);
	static char path[900];
	int64_t size = 0;
	struct file f;
	struct req *req;
	uint64_t at;

	memset(path, 'p', sizeof(path) - 1);
	path[0] = '/';
	log_one(s, "/first", 0);
	f = fx_opened(fx, NET "log", O_RDONLY);
	at = (uint64_t)fx_size(fx, NET "log");
	for (unsigned i = 0; i < 3000; i++) {
		const int64_t now = fx_size(fx, NET "log");

		assert_true(now >= size);
		size = now;
		log_one(s, i % 7 ? "/short" : path, 0);
		f.offset = at;
		req = fx_read(fx, &f, 65536, 0);
		assert_true(req->kind == ANSWER_BUF && req->size > 0);
		assert_memory_equal(req->data, "{\"time\"", 7);
		assert_int_equal(req->data[req->size - 1], '\n');
		at += req->size;
	}
	assert_int_equal(fx_demo(fx)->connlog.n, CONNLOG_LINES);
	assert_int_equal(fx_size(fx, NET "log"), strlen(fx_cat(fx, NET "log")));
	assert_int_equal(strncmp(fx_cat(fx, NET "log"), "{\"dropped\":1977}", 16), 0);
	/* What is not there any more is no end of file. */
	f.offset = 10;
	req = fx_read(fx, &f, 100, 0);
	assert_int_equal(req->err, -EIO);
	fx_release(fx, &f);
}

/* What it has used counts for the sandboxes that follow. */
static void test_used(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = asking(fx);

	s->traffic = (struct sandbox_traffic){.bytes_in = 100, .bytes_out = 50, .connections = 3};
	log_one(s, "/a", 0);
	log_one(s, "/b", 0);
	s->traffic.bytes_in = 200;
	assert_int_equal(fx_put(fx, SESSION "/ctl", "reset"), 0);
	fake_settle();
	if (fake_sandbox() == s)
		assert_int_equal(fx_put(fx, SESSION "/ctl", "close"), 0);
	assert_int_equal(fx_put(fx, SESSION "/ctl", "reset"), 0);
	s = fx_run(fx, "y");
	assert_int_equal(s->policy.used.bytes, 250);
	assert_int_equal(s->policy.used.requests, 2);
	assert_int_equal(s->policy.used.connections, 3);
}

/* What the filter has counted is counted once, be it seen while it goes on or at its end. */
static void test_used_at_once(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = asking(fx);

	s->traffic.requests = 2;
	fx_expect_in(fx, SESSION "/status.json", "\"requests\": {\n        \"used\": 2");
	log_one(s, "/a", 0);
	log_one(s, "/b", 0);
	fx_expect_in(fx, SESSION "/status.json", "\"requests\": {\n        \"used\": 2");
	s->traffic.requests = 3;
	fx_expect_in(fx, SESSION "/status.json", "\"requests\": {\n        \"used\": 3");
}

/* Whatever was refused for a budget says in `error` which that is, as long as there is one. */
static void test_used_up(void **state)
{
	static const struct sandbox_denied spent = {
		.name = "api.test", .port = 443, .reason = "the budget is used up", .spent = true};
	struct fixture *fx = *state;
	struct sandbox *s = asking(fx);

	s->traffic = (struct sandbox_traffic){.bytes_in = 5000, .requests = 9};
	s->events->denied(s->data, &spent);
	fx_expect(fx, SESSION "/error", "");
	assert_int_equal(fx_add(fx, SESSION "/config", "net_bytes = 64K\nnet_requests = 10\n"), 0);
	s->events->denied(s->data, &spent);
	fx_expect_error(fx, SESSION, "net-budget");
	fx_expect_in(fx, SESSION "/error", "net_requests is used up, which is 10");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		fx_test(test_rules),	    fx_test(test_permitted),   fx_test(test_secrets),
		fx_test(test_applied),	    fx_test(test_limits),      fx_test(test_question),
		fx_test(test_beyond),	    fx_test(test_wrong_moves), fx_test(test_always),
		fx_test(test_unasked),	    fx_test(test_many),	       fx_test(test_hostile),
		fx_test(test_log),	    fx_test(test_log_follows), fx_test(test_used),
		fx_test(test_used_at_once), fx_test(test_used_up),     fx_test(test_log_whose),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
