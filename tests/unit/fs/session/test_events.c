/* SPDX-License-Identifier: Apache-2.0 */
/* The `events` node: its lines, its ring, its waiting readers. */
/* modules: tests/unit/fixture/fixture.c */
#include <errno.h>
#include <jansson.h>
#include <poll.h>
#include <stdio.h>

#include <fuse_lowlevel.h>

#include "tests/unit/fixture/fixture.h"
#include "fs/tree/nodes.h"
#include "fs/fuse/ops.h"

#define TOP "python/demo/"

/* Reads what there is, up to the point where a read would wait. */
static char *drain(struct fixture *fx, struct file *f, size_t size)
{
	struct buf text = {0};
	struct req *r;
	char *all;

	while ((r = fx_read(fx, f, size, O_NONBLOCK))->kind == ANSWER_BUF) {
		assert_true(r->size > 0 && r->size <= size);
		buf_append(&text, r->data, r->size);
		f->offset += r->size;
	}
	assert_error(r, -EAGAIN);
	all = strdup(buf_str(&text));
	buf_clear(&text);
	return all;
}

static unsigned count_lines(const char *text)
{
	unsigned n = 0;

	for (; *text; text++)
		n += *text == '\n';
	return n;
}

static void test_a_run(void **state)
{
	static const char *const expected[] = {
		"session new", "run queued",	  "session starting", "session idle",
		"run running", "session running", "run done",	      "session idle",
	};
	struct fixture *fx = *state;
	struct file f;
	char *text, *save = NULL;
	unsigned seen = 0;

	fake_exit(fx_run(fx, "x"), VM_DONE, 3);
	f = fx_opened(fx, "events", O_RDONLY);
	text = drain(fx, &f, 65536);
	for (char *p = strtok_r(text, "\n", &save); p; p = strtok_r(NULL, "\n", &save)) {
		json_t *o = json_loads(p, 0, NULL);
		char is[64];

		assert_non_null(o);
		assert_string_equal(json_string_value(json_object_get(o, "session")),
				    "python/demo");
		assert_true(json_real_value(json_object_get(o, "time")) > 1e9);
		snprintf(is, sizeof(is), "%s %s", json_string_value(json_object_get(o, "event")),
			 json_string_value(json_object_get(o, "state")));
		for (unsigned i = 0; i < ARRAY_SIZE(expected); i++)
			if (!(seen & 1u << i) && !strcmp(is, expected[i])) {
				seen |= 1u << i;
				break;
			}
		if (!strcmp(is, "run done"))
			assert_int_equal(json_integer_value(json_object_get(o, "exit_code")), 3);
		json_decref(o);
	}
	assert_int_equal(seen, (1u << ARRAY_SIZE(expected)) - 1);
	free(text);
	fx_close(fx, &f);
}

/* A session's own has what concerns it, and ends with it. */
static void test_of_a_session(void **state)
{
	struct fixture *fx = *state;
	struct file f, old;
	struct req *r;
	char *text;

	assert_int_equal(fx_mkdir(fx, "python/other"), 0);
	fake_exit(fx_run(fx, "x"), VM_DONE, 3);
	assert_int_equal(fx_put(fx, "python/other/in", "y"), 0);
	f = fx_opened(fx, TOP "events", O_RDONLY);
	text = drain(fx, &f, 100);
	assert_int_equal(count_lines(text), 8);
	assert_null(strstr(text, "other"));
	assert_int_equal(strlen(text), fx_size(fx, TOP "events"));
	f.offset = 10;
	r = fx_read(fx, &f, 20, 0);
	assert_int_equal(r->kind, ANSWER_BUF);
	assert_memory_equal(r->data, text + 10, 20);
	f.offset = strlen(text);
	free(text);
	r = fx_read(fx, &f, 1000, 0);
	assert_int_equal(r->kind, ANSWER_NONE_YET);
	assert_int_equal(fx_put(fx, "python/other/in", "z"), 0); /* does not concern it */
	assert_int_equal(r->kind, ANSWER_NONE_YET);
	old = fx_opened(fx, "python/other/events", O_RDONLY);
	assert_int_equal(fx_rmdir(fx, "python/other"), 0);
	assert_int_equal(fx_mkdir(fx, "python/other"), 0);
	assert_non_null(strstr(fx_cat(fx, "python/other/status.json"), "\"state\": \"new\""));
	assert_int_equal(fx_rmdir(fx, "python/demo"), 0);
	assert_int_equal(r->kind, ANSWER_BUF);
	assert_non_null(strstr(r->data, "removed"));
	f.offset += r->size;
	r = fx_read(fx, &f, 1000, 0);
	assert_int_equal(r->kind, ANSWER_BUF);
	assert_int_equal(r->size, 0);
	fx_close(fx, &f);
	fx_close(fx, &old);
	/* One of the same name has none of the earlier one's. */
	f = fx_opened(fx, "python/other/events", O_RDONLY);
	text = drain(fx, &f, 65536);
	assert_int_equal(count_lines(text), 1);
	free(text);
	fx_close(fx, &f);
}

static void test_readers_wait_for_the_next_line(void **state)
{
	struct fixture *fx = *state;
	struct file f = fx_opened(fx, "events", O_RDONLY), g = fx_opened(fx, "events", O_RDONLY);
	struct pollwait *pw = pollwait_new();
	struct req *r, *q;

	free(drain(fx, &f, 65536));
	free(drain(fx, &g, 65536));
	assert_int_equal(fx_poll(fx, &f, pw)->number, 0);
	r = fx_read(fx, &f, 65536, 0);
	q = fx_read(fx, &g, 65536, 0);
	assert_waits(r);
	fx_mkdir(fx, "raw/x");
	assert_int_equal(count_lines(r->data), 1);
	assert_non_null(strstr(r->data, "\"session\":\"raw/x\""));
	assert_string_equal(r->data, q->data); /* everybody gets every line */
	assert_true(pw->notified);
	f.offset += r->size;
	fx_mkdir(fx, "raw/y");
	assert_int_equal(fx_poll(fx, &f, NULL)->number, POLLIN | POLLRDNORM);
	r = fx_read(fx, &f, 5, 0); /* in pieces */
	assert_int_equal(r->size, 5);
	f.offset += 5;
	assert_int_equal(fx_poll(fx, &f, NULL)->number, POLLIN | POLLRDNORM);
	free(drain(fx, &f, 5));
	r = fx_read(fx, &f, 5, 0);
	req_interrupt(r);
	assert_error(r, -EINTR);
	fx_close(fx, &f);
	fx_close(fx, &g);
}

/* A program that reads everything gets past it: after a while without news the file ends. */
static void test_end_of_file_when_idle(void **state)
{
	struct fixture *fx = *state;
	struct file f = fx_opened(fx, "events", O_RDONLY);
	struct req *r;

	free(drain(fx, &f, 65536));
	r = fx_read(fx, &f, 100, 0);
	clock_advance(EVENTS_IDLE_S * 1000 - 1);
	assert_waits(r);
	clock_advance(1);
	assert_bytes(r, "");
	r = fx_read(fx, &f, 65536, 0); /* and starts over */
	clock_advance(20000);
	fx_mkdir(fx, "raw/x");
	assert_int_equal(count_lines(r->data), 1);
	f.offset += r->size;
	r = fx_read(fx, &f, 65536, 0);
	clock_advance(20000);
	assert_waits(r);
	clock_advance(10000);
	assert_bytes(r, "");
	fx_close(fx, &f);
}

static uint64_t end_of(struct fixture *fx, const struct file *f)
{
	struct fuse_file_info fi = {.fh = f->fh};
	struct req *r = req_new(0);

	ops.getattr((fuse_req_t)r, f->ino, &fi);
	assert_int_equal(r->kind, ANSWER_ATTR);
	(void)fx;
	return (uint64_t)r->st.st_size;
}

static void test_ring(void **state)
{
	struct fixture *fx = *state;
	struct file slow = fx_opened(fx, "events", O_RDONLY), f;
	char *text, words[32];

	for (unsigned i = 0; i < 3 * EVENTS_KEPT; i++) {
		snprintf(words, sizeof(words), "number %u.", i);
		events_add(&fx->fs->events, NULL, "test", words);
	}
	f = fx_opened(fx, "events", O_RDONLY);
	assert_int_equal(fx_size(fx, "events"), events_size(fx->fs, NULL));
	text = drain(fx, &f, 100);
	assert_int_equal(strlen(text), end_of(fx, &f));
	assert_int_equal(count_lines(text), EVENTS_KEPT);
	assert_non_null(strstr(text, "\"words\":\"number 2000.\""));
	assert_non_null(strstr(text, "\"words\":\"number 2999.\""));
	free(text);
	text = drain(fx, &slow, 65536); /* goes on with the oldest there is */
	assert_int_equal(count_lines(text), EVENTS_KEPT);
	free(text);
	fx_close(fx, &f);
	fx_close(fx, &slow);
}

/* Who seeks to the end gets what comes then, and who reads back from there gets the lines before. */
static void test_seek(void **state)
{
	struct fixture *fx = *state;
	struct file f = fx_opened(fx, "events", O_RDONLY), late;
	char *all = drain(fx, &f, 65536), *last;
	uint64_t end = end_of(fx, &f), before;

	assert_int_equal(end, strlen(all));
	f.offset = end - 10;
	last = drain(fx, &f, 3);
	assert_string_equal(last, all + end - 10);
	free(last);
	free(all);
	assert_int_equal(f.offset, end);
	for (unsigned i = 0; i < 2 * EVENTS_KEPT; i++) {
		before = (uint64_t)fx_size(fx, "events");
		events_add(&fx->fs->events, NULL, "test", "more");
		assert_true((uint64_t)fx_size(fx, "events") >
			    before); /* as long as it is followed */
	}
	late = fx_opened(fx, "events", O_RDONLY);
	late.offset = end_of(fx, &late);
	assert_error(fx_read(fx, &late, 100, O_NONBLOCK), -EAGAIN);
	events_add(&fx->fs->events, NULL, "test", "latest");
	last = drain(fx, &late, 100);
	assert_int_equal(count_lines(last), 1);
	assert_non_null(strstr(last, "latest"));
	free(last);
	all = drain(fx, &f, 65536); /* the oldest are gone, the others are whole */
	assert_int_equal(count_lines(all), EVENTS_KEPT);
	assert_int_equal(all[0], '{');
	assert_int_equal(end_of(fx, &f), f.offset);
	free(all);
	fx_close(fx, &late);
	fx_close(fx, &f);
}

/* While nobody looks no line is written: what a run waits for has no text to make. */
static void test_written_when_read(void **state)
{
	struct fixture *fx = *state;
	struct events *ev = &fx->fs->events;
	uint64_t bytes;
	struct file f;
	char *text;

	fake_exit(fx_run(fx, "x"), VM_DONE, 0);
	assert_int_equal(ev->written, 0);
	assert_int_equal(ev->bytes, 0);
	bytes = (uint64_t)fx_size(fx, "events");
	assert_true(bytes > 0 && ev->written == ev->next);
	fake_exit(fx_run(fx, "y"), VM_DONE, 0);
	assert_int_equal(ev->bytes, bytes);
	f = fx_opened(fx, "events", O_RDONLY);
	assert_int_equal(ev->written, ev->next);
	events_add(ev, NULL, "test", "at once");
	assert_int_equal(ev->written, ev->next);
	text = drain(fx, &f, 65536);
	assert_int_equal(strlen(text), ev->bytes);
	free(text);
	fx_close(fx, &f);
	events_add(ev, NULL, "test", "later");
	assert_int_equal(ev->written + 1, ev->next);
	/* What nobody has seen before it was too old never becomes a line. */
	bytes = ev->bytes;
	for (unsigned i = 0; i < EVENTS_KEPT + 5; i++)
		events_add(ev, NULL, "test", "x");
	events_write(ev);
	assert_int_equal(ev->bytes - bytes, fx_size(fx, "events"));
}

static void test_words_of_any_bytes(void **state)
{
	struct fixture *fx = *state;
	struct file f = fx_opened(fx, "events", O_RDONLY);
	char *text;

	free(drain(fx, &f, 65536));
	events_add(&fx->fs->events, NULL, "test", "a \"quoted\"\nline\x01");
	events_add(&fx->fs->events, NULL, "test", "\xff\xfe");
	text = drain(fx, &f, 65536);
	assert_int_equal(count_lines(text), 2);
	free(text);
	fx_close(fx, &f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		fx_test(test_a_run),
		fx_test(test_of_a_session),
		fx_test(test_readers_wait_for_the_next_line),
		fx_test(test_end_of_file_when_idle),
		fx_test(test_ring),
		fx_test(test_seek),
		fx_test(test_written_when_read),
		fx_test(test_words_of_any_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
