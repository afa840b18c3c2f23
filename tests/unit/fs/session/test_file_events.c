/* SPDX-License-Identifier: Apache-2.0 */
/* The lines of files.events: who gets which, and what is said of those that are lost. */
/* modules: tests/unit/fixture/fixture.c */
#include <errno.h>
#include <poll.h>

#include "tests/unit/fixture/fixture.h"

#define TOP  "python/demo/"
#define NODE TOP "files.events"

/* The value of a key in a line, for as long as nothing else is asked. */
static const char *value(const char *line, const char *key)
{
	static char text[256];
	char pattern[64];
	const char *at;
	size_t n;

	snprintf(pattern, sizeof(pattern), "\"%s\":\"", key);
	at = strstr(line, pattern);
	if (!at)
		return "";
	at += strlen(pattern);
	n = strcspn(at, "\"");
	snprintf(text, sizeof(text), "%.*s", (int)n, at);
	return text;
}

/* Reads all that there is, which begins with a line of this kind about this path. */
static const char *expect_line(struct fixture *fx, struct file *f, const char *kind,
			       const char *path)
{
	const struct req *req = fx_read(fx, f, 1 << 20, 0);

	f->offset += req->size;
	assert_int_equal(req->kind, ANSWER_BUF);
	assert_true(req->size > 1);
	assert_int_equal(req->data[req->size - 1], '\n');
	assert_string_equal(value(req->data, "kind"), kind);
	assert_string_equal(value(req->data, "path"), path);
	return req->data;
}

static void test_without_a_sandbox(void **state)
{
	struct fixture *fx = *state;
	struct file f = fx_opened(fx, NODE, O_RDONLY);
	struct sandbox *s;

	expect_line(fx, &f, "watching", "");
	assert_int_equal(fake_count(), 0);
	s = fx_run(fx, "1");
	assert_true(s->watched);
	fake_change(s, PROTO_CHANGE_WATCHING, "", "");
	assert_error(fx_read(fx, &f, 100, O_NONBLOCK), -EAGAIN);
	fake_change(s, PROTO_CHANGE_CREATED, "a/b", "");
	expect_line(fx, &f, "created", "a/b");
	fx_close(fx, &f);
	assert_false(s->watched);
	assert_int_equal(s->nwatches, 2);
}

static void test_of_a_running_one(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = fx_run(fx, "1");
	struct file f = fx_opened(fx, NODE, O_RDONLY);
	struct req *req = fx_read(fx, &f, 1 << 20, 0);
	struct file late;

	assert_true(s->watched);
	assert_waits(req);
	fake_change(s, PROTO_CHANGE_CREATED, "early", "");
	assert_waits(req);
	fake_change(s, PROTO_CHANGE_WATCHING, "", "");
	assert_int_equal(req->kind, ANSWER_BUF);
	assert_string_equal(value(req->data, "kind"), "watching");
	f.offset += req->size;
	late = fx_opened(fx, NODE, O_RDONLY);
	expect_line(fx, &late, "watching", "");
	fake_change(s, PROTO_CHANGE_RENAMED, "new", "old");
	assert_string_equal(value(expect_line(fx, &f, "renamed", "new"), "from"), "old");
	expect_line(fx, &late, "renamed", "new");
	fx_close(fx, &f);
	assert_true(s->watched);
	fx_close(fx, &late);
	assert_false(s->watched);
}

static void test_many_lines(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = fx_run(fx, "1");
	struct file f = fx_opened(fx, NODE, O_RDONLY);
	const char *text, *end;
	uint64_t before;
	struct req *req;

	fake_change(s, PROTO_CHANGE_WATCHING, "", "");
	assert_bytes(fx_read(fx, &f, 3, 0), "{\"s");
	f.offset += 3;
	for (int i = 0; i < 10000; i++)
		fake_change(s, PROTO_CHANGE_MODIFIED, "one", "");
	/* The rest of the first line, then what is kept. */
	req = fx_read(fx, &f, 1 << 20, 0);
	assert_int_equal(req->kind, ANSWER_BUF);
	text = req->data;
	assert_string_equal(value(text, "kind"), "watching");
	end = strchr(text, '\n');
	assert_string_equal(value(end + 1, "kind"), "overflow");
	f.offset += req->size;
	before = f.offset;
	expect_line(fx, &f, "modified", "one");
	assert_in_range(f.offset - before, 1, FILE_EVENTS_KEPT + FILE_EVENTS_MORE + 1000);
	fake_change(s, PROTO_CHANGE_DELETED, "two", "");
	expect_line(fx, &f, "deleted", "two");
	fx_close(fx, &f);
}

/* However many have it open and don't read, they cost the memory of one, and each is told that something was lost. */
static void test_many_readers(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = fx_run(fx, "1");
	struct session *demo = fx_demo(fx);
	struct file all[200], reads;
	uint64_t own = 0;

	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		all[i] = fx_opened(fx, NODE, O_RDONLY);
	reads = fx_opened(fx, NODE, O_RDONLY);
	fake_change(s, PROTO_CHANGE_WATCHING, "", "");
	expect_line(fx, &reads, "watching", "");
	for (int i = 0; i < 20000; i++) {
		fake_change(s, PROTO_CHANGE_CREATED, "one", "");
		expect_line(fx, &reads, "created", "one");
	}
	for (const struct handle *h = TAILQ_FIRST(&demo->file_events.readers); h;
	     h = TAILQ_NEXT(h, input_link))
		own += h->text.len;
	assert_int_equal(own, demo->file_events.own);
	assert_true(own + demo->file_events.log.len < 1 << 20);
	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		expect_line(fx, &all[i], "overflow", "");
		expect_line(fx, &all[i], "created", "one");
		assert_error(fx_read(fx, &all[i], 100, O_NONBLOCK), -EAGAIN);
		fx_close(fx, &all[i]);
	}
	fx_close(fx, &reads);
	assert_int_equal(demo->file_events.own + demo->file_events.log.len, 0);
}

/* Each of them reads the beginning of another line, which is told to its end whatever is lost behind it. */
static void test_begun_lines(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = fx_run(fx, "1");
	struct file f[3];
	char path[32];

	for (size_t i = 0; i < ARRAY_SIZE(f); i++)
		f[i] = fx_opened(fx, NODE, O_RDONLY);
	fake_change(s, PROTO_CHANGE_WATCHING, "", "");
	for (size_t i = 0; i < ARRAY_SIZE(f); i++) {
		expect_line(fx, &f[i], "watching", "");
		snprintf(path, sizeof(path), "file%zu", i);
		fake_change(s, PROTO_CHANGE_CREATED, path, "");
	}
	for (size_t i = 0; i < ARRAY_SIZE(f); i++) {
		/* Up to the i-th, and 5 bytes of it. */
		for (size_t n = 0; n < i; f[i].offset++)
			n += fx_read(fx, &f[i], 1, 0)->data[0] == '\n';
		f[i].offset += fx_read(fx, &f[i], 5, 0)->size;
	}
	for (int i = 0; i < 30000; i++)
		fake_change(s, PROTO_CHANGE_MODIFIED, "one", "");
	for (size_t i = 0; i < ARRAY_SIZE(f); i++) {
		const struct req *req = fx_read(fx, &f[i], 1 << 20, 0);

		snprintf(path, sizeof(path), "file%zu", i);
		assert_string_equal(value(req->data, "path"), path);
		assert_string_equal(value(strchr(req->data, '\n') + 1, "kind"), "overflow");
		f[i].offset += req->size;
		expect_line(fx, &f[i], "modified", "one");
		fx_close(fx, &f[i]);
	}
}

/* What it can't watch it says before it is watching. */
static void test_blind(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = fx_run(fx, "1");
	struct file f = fx_opened(fx, NODE, O_RDONLY), late;
	const char *text;

	fake_change(s, PROTO_CHANGE_OVERFLOW, "secret", "");
	fake_change(s, PROTO_CHANGE_WATCHING, "", "");
	text = expect_line(fx, &f, "overflow", "secret");
	assert_string_equal(value(strchr(text, '\n') + 1, "kind"), "watching");
	assert_int_equal(fx_put(fx, TOP "ctl", "close\n"), 0);
	expect_line(fx, &f, "overflow", "");
	fx_close(fx, &f);

	assert_int_equal(fx_put(fx, TOP "ctl", "reset\n"), 0);
	s = fx_run(fx, "1");
	f = fx_opened(fx, NODE, O_RDONLY);
	for (int i = 0; i < 10000; i++)
		fake_change(s, PROTO_CHANGE_OVERFLOW, "secret", "");
	late = fx_opened(fx, NODE, O_RDONLY);
	fake_change(s, PROTO_CHANGE_WATCHING, "", "");
	text = expect_line(fx, &f, "overflow", ""); /* too many: anywhere */
	assert_string_equal(value(strchr(text, '\n') + 1, "kind"), "watching");
	expect_line(fx, &late, "overflow", "");
	fx_close(fx, &f);
	fx_close(fx, &late);
}

static void test_cannot_watch(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = fx_run(fx, "1");
	struct file f = fx_opened(fx, NODE, O_RDONLY);
	struct file again;

	fake_change(s, PROTO_CHANGE_FAILED, "Too many open files", "");
	assert_string_equal(value(expect_line(fx, &f, "failed", ""), "reason"),
			    "Too many open files");
	assert_error(fx_read(fx, &f, 100, 0), -EIO);
	again = fx_opened(fx, NODE, O_RDONLY);
	assert_int_equal(s->nwatches, 2);
	fake_change(s, PROTO_CHANGE_WATCHING, "", "");
	expect_line(fx, &again, "watching", "");
	fx_close(fx, &f);
	fx_close(fx, &again);
}

static void test_the_end_of_a_sandbox(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = fx_run(fx, "1");
	struct file f = fx_opened(fx, NODE, O_RDONLY);
	struct file unbound = fx_opened(fx, NODE, O_RDONLY);
	struct stat st;
	const char *text;

	fake_change(s, PROTO_CHANGE_WATCHING, "", "");
	expect_line(fx, &f, "watching", "");
	assert_int_equal(fx_put(fx, TOP "ctl", "close\n"), 0);
	text = expect_line(fx, &f, "overflow", "");
	assert_null(strstr(text, "watching")); /* it was watching before */
	expect_line(fx, &unbound, "watching", "");
	expect_line(fx, &unbound, "overflow", "");
	assert_int_equal(fx_stat_ino(fx, f.ino, &st), 0);
	assert_int_equal(st.st_size, f.offset);
	assert_int_equal(fx_rmdir(fx, "python/demo"), 0);
	assert_bytes(fx_read(fx, &f, 100, 0), "");
	fx_close(fx, &f);
	fx_close(fx, &unbound);
}

/* tail(1) asks for the size, goes to the end, or reads a part before it. */
/* All of files/ is another, and nobody else says so. */
static void test_restored_while_asleep(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = fx_idle(fx);
	struct file f;

	fx_checkpoint(fx, s, "c");
	fx_put(fx, TOP "ctl", "sleep\n");
	fx_saved(s);
	fx_expect(fx, TOP "state", "asleep\n");
	f = fx_opened(fx, NODE, O_RDONLY);
	expect_line(fx, &f, "watching", "");
	assert_int_equal(fx_put(fx, TOP "ctl", "restore c\n"), 0);
	expect_line(fx, &f, "overflow", "");
	fx_close(fx, &f);
}

static void test_another_while_waking(void **state)
{
	static const char *const verbs[] = {"restore c\n", "close\n"};
	struct fixture *fx = *state;

	for (unsigned i = 0; i < 2; i++) {
		struct sandbox *s = fx_idle(fx);
		struct file f;

		if (i == 0)
			fx_checkpoint(fx, s, "c");
		fx_put(fx, TOP "ctl", "sleep\n");
		fx_saved(s);
		f = fx_opened(fx, NODE, O_RDONLY);
		expect_line(fx, &f, "watching", "");
		assert_int_equal(fx_put(fx, TOP "ctl", "wake\n"), 0);
		fx_expect(fx, TOP "state", "starting\n");
		assert_int_equal(fx_put(fx, TOP "ctl", verbs[i]), 0);
		expect_line(fx, &f, "overflow", "");
		fx_close(fx, &f);
		fx_put(fx, TOP "ctl", "reset\n");
	}
}

static void test_sizes(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = fx_run(fx, "1");
	struct file first = fx_opened(fx, NODE, O_RDONLY), second;
	struct stat one, two;

	fake_change(s, PROTO_CHANGE_WATCHING, "", "");
	fake_change(s, PROTO_CHANGE_CREATED, "a", "");
	expect_line(fx, &first, "watching", "");
	expect_line(fx, &first, "created", "a");
	second = fx_opened(fx, NODE, O_RDONLY);
	expect_line(fx, &second, "watching", "");
	assert_int_equal(fx_stat_ino(fx, first.ino, &one), 0);
	assert_int_equal(fx_stat_ino(fx, second.ino, &two), 0);
	assert_int_equal(one.st_size, first.offset);
	assert_int_equal(two.st_size, second.offset);
	assert_int_equal(one.st_ino, two.st_ino);
	assert_int_equal(fx_size(fx, NODE), 0);
	fx_close(fx, &first);
	fx_close(fx, &second);
	assert_int_equal(fx_put(fx, TOP "ctl", "reset\n"), 0);
}

/* Told of one byte, for there was no line yet, it goes on behind it. */
static void test_before_the_first(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = fx_run(fx, "1");
	struct file f = fx_opened(fx, NODE, O_RDONLY);
	struct stat st;

	assert_int_equal(fx_stat_ino(fx, f.ino, &st), 0);
	assert_int_equal(st.st_size, 1);
	fake_change(s, PROTO_CHANGE_WATCHING, "", "");
	f.offset = 1;
	expect_line(fx, &f, "watching", "");
	fake_change(s, PROTO_CHANGE_CREATED, "a", "");
	expect_line(fx, &f, "created", "a");
	fx_close(fx, &f);
}

/* Likewise if it waits there, and has nothing before it. */
static void test_waits_behind_the_first(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = fx_run(fx, "1");
	struct file f = fx_opened(fx, NODE, O_RDONLY);
	struct req *req;

	f.offset = 1;
	req = fx_read(fx, &f, 1000, 0);
	assert_waits(req);
	fake_change(s, PROTO_CHANGE_WATCHING, "", "");
	assert_int_equal(req->kind, ANSWER_BUF);
	assert_non_null(strstr(req->data, "watching"));
	assert_int_equal(*req->data, '{');
	fx_close(fx, &f);
}

/* Shells read more than a line, and go back; tail(1) begins where another open ends. */
static void test_offsets(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = fx_run(fx, "1");
	struct file f = fx_opened(fx, NODE, O_RDONLY), late;
	struct req *req;

	fake_change(s, PROTO_CHANGE_WATCHING, "", "");
	fake_change(s, PROTO_CHANGE_CREATED, "a", "");
	req = fx_read(fx, &f, 4096, 0);
	f.offset = (uint64_t)(strchr(req->data, '\n') + 1 - req->data);
	expect_line(fx, &f, "created", "a");
	late = fx_opened(fx, NODE, O_RDONLY);
	late.offset = f.offset + 1000;
	req = fx_read(fx, &late, 4096, 0);
	assert_waits(req);
	for (int i = 0; i < 10000; i++) {
		fake_change(s, PROTO_CHANGE_WRITTEN, "again and again", "");
		expect_line(fx, &f, "written", "again and again");
	}
	assert_int_equal(req->kind, ANSWER_BUF);
	assert_string_equal(value(req->data, "path"), "again and again");
	f.offset = 0; /* long gone: the oldest that there is */
	assert_int_equal(fx_read(fx, &f, 4096, 0)->kind, ANSWER_BUF);
	fx_close(fx, &f);
	fx_close(fx, &late);
}

static void test_poll(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = fx_run(fx, "1");
	struct file f = fx_opened(fx, NODE, O_RDONLY);
	struct pollwait *pw = pollwait_new();

	assert_int_equal(fx_poll(fx, &f, pw)->number, 0);
	fake_change(s, PROTO_CHANGE_WATCHING, "", "");
	assert_true(pw->notified);
	assert_int_equal(fx_poll(fx, &f, NULL)->number, POLLIN | POLLRDNORM);
	fx_close(fx, &f);
}

static void test_names(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = fx_run(fx, "1");
	struct file f = fx_opened(fx, NODE, O_RDONLY);
	const char *line;

	fake_change(s, PROTO_CHANGE_WATCHING, "", "");
	expect_line(fx, &f, "watching", "");
	fake_change(s, PROTO_CHANGE_RENAMED, "\xff\xfe", "a\nb");
	line = expect_line(fx, &f, "renamed", "");
	assert_string_equal(value(line, "path_hex"), "fffe");
	assert_string_equal(value(line, "from"), "a\\nb");
	fx_close(fx, &f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		fx_test(test_without_a_sandbox),
		fx_test(test_of_a_running_one),
		fx_test(test_many_lines),
		fx_test(test_many_readers),
		fx_test(test_begun_lines),
		fx_test(test_blind),
		fx_test(test_cannot_watch),
		fx_test(test_the_end_of_a_sandbox),
		fx_test(test_poll),
		fx_test(test_waits_behind_the_first),
		fx_test(test_offsets),
		fx_test(test_restored_while_asleep),
		fx_test(test_another_while_waking),
		fx_test(test_sizes),
		fx_test(test_before_the_first),
		fx_test(test_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
