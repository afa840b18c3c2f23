/* SPDX-License-Identifier: Apache-2.0 */
/* QEMU's control connection: replies matched by id, events, and nonsense. */
/* modules: vm/backend/qmp.c vm/base/fdpass.c vm/base/reader.c vm/base/lent.c vm/base/buf.c vm/base/record.c vm/base/fdbag.c */
/* libs: uv jansson */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

#include "vm/backend/qmp.h"

struct seen {
	char event[64];
	unsigned nevents, nlost, nclosed, nreplies;
	int lost;
	char reply[256];
};

static uv_loop_t loop;
static struct qmp q;
static struct seen seen;
static int far;

static void on_event(void *data, const char *name, json_t *details)
{
	struct seen *s = data;

	s->nevents++;
	snprintf(s->event, sizeof(s->event), "%s %s", name,
		 json_is_true(json_object_get(details, "open")) ? "open" : "-");
}

static void on_lost(void *data, int err)
{
	struct seen *s = data;

	s->nlost++;
	s->lost = err;
}

static void on_closed(void *data)
{
	((struct seen *)data)->nclosed++;
}

static const struct qmp_events events = {on_event, on_lost, on_closed};

static void on_reply(void *data, json_t *ret, const char *error)
{
	struct seen *s = data;

	s->nreplies++;
	if (ret)
		snprintf(s->reply, sizeof(s->reply), "%s",
			 json_string_value(json_object_get(ret, "status")) ?: "none");
	else
		snprintf(s->reply, sizeof(s->reply), "error: %s", error);
}

static int setup(void **state)
{
	int pair[2];

	(void)state;
	memset(&q, 0, sizeof(q));
	memset(&seen, 0, sizeof(seen));
	uv_loop_init(&loop);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	far = pair[1];
	qmp_init(&q, &events, &seen);
	assert_int_equal(qmp_open(&q, &loop, pair[0]), 0);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	qmp_close(&q);
	qmp_close(&q);
	for (unsigned i = 0; i < 3; i++)
		uv_run(&loop, UV_RUN_NOWAIT);
	assert_int_equal(seen.nclosed, 1);
	assert_int_equal(uv_loop_close(&loop), 0);
	close(far);
	return 0;
}

static void say(const char *text)
{
	assert_int_equal(send(far, text, strlen(text), 0), (ssize_t)strlen(text));
	for (unsigned i = 0; i < 3; i++)
		uv_run(&loop, UV_RUN_NOWAIT);
}

static void negotiates_at_once(void **state)
{
	char text[256] = "";

	(void)state;
	assert_true(recv(far, text, sizeof(text) - 1, 0) > 0);
	assert_non_null(strstr(text, "\"qmp_capabilities\""));
	assert_int_equal(text[strlen(text) - 1], '\n');
	say("{\"QMP\": {\"version\": {}, \"capabilities\": [\"oob\"]}}\r\n");
	assert_true(q.greeted);
	say("{\"return\": {}, \"id\": 1}\r\n");
	assert_int_equal(q.npending, 0);
	assert_int_equal(seen.nlost, 0);
}

static void replies(void **state)
{
	json_t *args = json_pack("{s:b}", "detach", 1);
	char text[512] = "";

	(void)state;
	assert_int_equal(qmp_execute(&q, "query-status", args, on_reply, &seen), 0);
	assert_int_equal(qmp_execute(&q, "stop", NULL, on_reply, &seen), 0);
	assert_true(recv(far, text, sizeof(text) - 1, 0) > 0);
	assert_non_null(strstr(text, "\"arguments\":{\"detach\":true}"));
	/* In the other order, in pieces, with an event between them. */
	say("{\"error\": {\"class\": \"GenericError\", \"desc\": \"no\"}, \"id\": 3}\r\n{\"ret");
	assert_string_equal(seen.reply, "error: no");
	say("urn\": {\"status\": \"running\"}, \"id\": 2}\n");
	assert_string_equal(seen.reply, "running");
	say("{\"timestamp\": {\"seconds\": 1}, \"event\": \"VSERPORT_CHANGE\", \"data\": "
	    "{\"open\": true, \"id\": \"agent\"}}\r\n");
	assert_string_equal(seen.event, "VSERPORT_CHANGE open");
	assert_int_equal(seen.nreplies, 2);
}

static void nonsense(void **state)
{
	static const char *const lines[] = {
		"{\"return\": {}, \"id\": 77}\n", /* nobody asked */
		"hello\n",
		"[1, 2]\n",
		"{}\n",
		"{\"return\": {}}\n",
		"{\"QMP\": {}, \"QMP\": 3\n",
	};

	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		if (i)
			setup(state);
		say(lines[i]);
		assert_int_equal(seen.nlost, 1);
		assert_int_equal(seen.lost, -EPROTO);
		say("{\"event\": \"X\"}\n"); /* is not heard any more */
		assert_int_equal(seen.nevents, 0);
		assert_int_equal(qmp_execute(&q, "stop", NULL, NULL, NULL), -EPIPE);
		if (i + 1 < sizeof(lines) / sizeof(lines[0]))
			teardown(state);
	}
}

static void endless_line(void **state)
{
	static char many[QMP_LINE_MAX + 1];

	(void)state;
	memset(many, ' ', sizeof(many));
	assert_int_equal(qmp_feed(&q, many, sizeof(many)), -EFBIG);
}

static void too_many(void **state)
{
	(void)state;
	for (unsigned i = 1; i < QMP_PENDING_MAX; i++) /* one is qmp_capabilities */
		assert_int_equal(qmp_execute(&q, "stop", NULL, on_reply, &seen), 0);
	assert_int_equal(qmp_execute(&q, "stop", NULL, on_reply, &seen), -EBUSY);
}

static void goes_away(void **state)
{
	(void)state;
	assert_int_equal(qmp_execute(&q, "quit", NULL, on_reply, &seen), 0);
	shutdown(far, SHUT_RDWR);
	for (unsigned i = 0; i < 3; i++)
		uv_run(&loop, UV_RUN_NOWAIT);
	assert_int_equal(seen.nlost, 1);
	assert_int_equal(seen.lost, 0);
	assert_string_equal(seen.reply, "error: QEMU is gone");
	assert_int_equal(seen.nreplies, 1);
}

/* Another process has read the beginning of a line, and has asked for things: that is no nonsense, but all else is. */
static void follows_another(void **state)
{
	(void)state;
	q.former = q.last_id += 100;
	q.resumed = true;
	say("urn\": {}, \"id\": 2}\n");
	say("{\"return\": {}, \"id\": 90}\n");
	assert_int_equal(seen.nlost, 0);
	assert_int_equal(qmp_execute(&q, "stop", NULL, on_reply, &seen), 0);
	say("{\"error\": {\"desc\": \"no\"}, \"id\": 102}\n");
	assert_string_equal(seen.reply, "error: no");
	say("urn\": {}, \"id\": 2}\n");
	assert_int_equal(seen.lost, -EPROTO);
}

/* What @record tells, in another process. */
static void inherit(struct qmp *heir, const struct buf *record, int fd)
{
	struct fdbag fds = {.owned = true};

	assert_int_equal(fdbag_set(&fds, 1, dup(fd)), 0);
	qmp_init(heir, &events, &seen);
	assert_int_equal(qmp_take(heir, &loop, record_reader(record->data, record->len), &fds), 0);
	fdbag_clear(&fds);
}

/* The process before has died before it wrote down that it had asked for something: its answer is nobody's. */
static void follows_one_that_followed(void **state)
{
	struct buf record = {0};
	struct fdbag lent = {0};
	struct qmp second = {0}, third = {0};
	char text[128];
	uint64_t id;

	(void)state;
	qmp_put(&q, &record, &lent);
	inherit(&second, &record, q.reader.fd);
	assert_int_equal(qmp_execute(&second, "stop", NULL, on_reply, &seen), 0);
	id = second.last_id;
	qmp_close(&second);
	uv_run(&loop, UV_RUN_NOWAIT);
	memset(&seen, 0, sizeof(seen));

	inherit(&third, &record, q.reader.fd);
	qmp_close(&q);
	uv_run(&loop, UV_RUN_NOWAIT);
	assert_int_equal(qmp_execute(&third, "query-status", NULL, on_reply, &seen), 0);
	assert_true(third.last_id > id);
	snprintf(text, sizeof(text),
		 "{\"return\": {}, \"id\": 1}\n{\"return\": {}, \"id\": %llu}\n",
		 (unsigned long long)id);
	say(text);
	assert_int_equal(seen.nreplies, 0);
	assert_int_equal(seen.nlost, 0);
	snprintf(text, sizeof(text), "{\"return\": {\"status\": \"paused\"}, \"id\": %llu}\n",
		 (unsigned long long)third.last_id);
	say(text);
	assert_string_equal(seen.reply, "paused");
	qmp_close(&third);
	for (unsigned i = 0; i < 3; i++)
		uv_run(&loop, UV_RUN_NOWAIT);
	seen.nclosed = 1;
	fdbag_clear(&lent);
	buf_clear(&record);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
		T(negotiates_at_once), T(replies),
		T(nonsense),	       T(endless_line),
		T(too_many),	       T(goes_away),
		T(follows_another),    T(follows_one_that_followed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
