/* SPDX-License-Identifier: Apache-2.0 */
/* Files of a sandbox saved and put back, with the agent played by the test: what it may say, and what not. */
/* modules: tests/unit/fixture/sandbox_fixture.c tests/unit/fixture/fake_agent.c vm */
/* libs: uv crypto jansson seccomp */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <cmocka.h>

#include "agent/pack_record.h"
#include "tests/unit/fixture/sandbox_fixture.h"
#include "vm/checkpoint/pack_maker.h"
#include "vm/checkpoint/saved.h"
#include "vm/guest/internal.h"

/* What open_sandbox() may store: files, and targets of links that nobody counts. */
#define FILES ((192ull << 20) * 2 / 5 + 192 * 341 * 128)

static uint8_t bytes[1u << 20];
static struct proto_out out;

static void records(void)
{
	out = (struct proto_out){bytes, 0, sizeof(bytes), false};
	pack_record_put(
		&out, &(struct pack_record){.kind = PACK_DIR, .name = "", .mode = S_IFDIR | 0755});
	pack_record_put(&out, &(struct pack_record){.kind = PACK_FILE,
						    .name = "f",
						    .name_len = 1,
						    .mode = S_IFREG | 0644,
						    .size = 5});
	pack_data_begin(&out, 0, 5);
	put_bytes(&out, "hello", 5);
	pack_record_put(&out, &(struct pack_record){.kind = PACK_UP});
}

static bool with_memory;

static int call_save(void)
{
	int r;

	in_call = true;
	r = sandbox_save(seen[0].s, with_memory);
	in_call = false;
	return r;
}

static void send_u32(enum proto_type type, uint8_t flags, uint32_t id, uint32_t n)
{
	uint8_t wire[4];
	struct proto_out o = {wire, 0, sizeof(wire), false};

	put_u32(&o, n);
	fake_send(type, flags, id, wire, o.len);
}

static void send_end(enum proto_type type, uint32_t id, int err, const char *path)
{
	uint8_t wire[600];
	struct proto_out o = {wire, 0, sizeof(wire), false};

	put_u32(&o, (uint32_t)err);
	if (type == PROTO_PACKED) {
		put_u32(&o, 1);
		put_u32(&o, 2);
	}
	put_str(&o, proto_cstr(path));
	fake_send(type, PROTO_F_EOF, id, wire, o.len);
}

/* Up to the question for its files. Return: its id. */
static uint32_t begin_save(void)
{
	struct fake_frame *f;
	struct proto_in in;
	uint32_t id;

	assert_int_equal(call_save(), 0);
	assert_int_equal(call_save(), -EBUSY);
	f = fake_expect(PROTO_FREEZE);
	assert_non_null(f);
	fake_free(f);
	send_u32(PROTO_FROZEN, 0, 0, 0);
	f = fake_expect(PROTO_PACK);
	assert_non_null(f);
	in = payload(f);
	assert_int_equal(get_u64(&in), FILES);
	assert_int_equal(get_u32(&in), 192 * 341 + 1);
	assert_true(get_end(&in));
	id = f->h.id;
	fake_free(f);
	return id;
}

static bool has_answered(void *data)
{
	return ((struct seen *)data)->nsaved > 0;
}

static void until_answered(void)
{
	assert_true(fake_spin(has_answered, &seen[0]));
	assert_int_equal(seen[0].nsaved, 1);
	seen[0].nsaved = 0;
}

static void expect(enum proto_freeze how)
{
	struct fake_frame *f = fake_expect(PROTO_FREEZE);

	assert_non_null(f);
	assert_int_equal(f->payload[0], how);
	fake_free(f);
}

/* It goes on. */
static void expect_thaw(void)
{
	expect(PROTO_THAW);
}

/* ... and the agent says whether anything has run before. */
static void check(uint32_t answer)
{
	expect(PROTO_THAW_CHECKED);
	send_u32(PROTO_FROZEN, 0, 0, answer);
}

static void send_files(uint32_t id)
{
	records();
	fake_send(PROTO_PACKED, 0, id, bytes, out.len);
	send_end(PROTO_PACKED, id, 0, "");
}

static struct saved *save(void)
{
	send_files(begin_save());
	check(0);
	until_answered();
	return seen[0].saved;
}

static void saves(void **state)
{
	struct saved *saved;
	uint32_t e;
	char text[6];

	(void)state;
	open_ready(&seen[0], 0);
	saved = save();
	assert_non_null(saved);
	assert_int_equal(pack_lookup(saved->pack, PACK_ROOT, "f", &e), 0);
	assert_int_equal(pack_pread(saved->pack, e, text, 6, 0), 5);
	assert_memory_equal(text, "hello", 5);
	assert_int_equal(pack_flaws(saved->pack).changed, 1);
	assert_int_equal(pack_flaws(saved->pack).left_out, 2);
	saved_unref(saved);
	run_one(&seen[0], 1);
	assert_int_equal(call_save(), -EBUSY);
	close_it(&seen[0]);
}

static void says_why_not(void **state)
{
	(void)state;
	open_ready(&seen[0], 0);
	send_end(PROTO_PACKED, begin_save(), EACCES, "dir/na\x1bme");
	until_answered();
	expect_thaw();
	assert_null(seen[0].saved);
	assert_int_equal(seen[0].not_saved.code, PROBLEM_NOT_SAVED);
	assert_string_equal(seen[0].not_saved.cause,
			    "its files could not be read: dir/na?me: Permission denied");
	/* Once more. */
	saved_unref(save());
	close_it(&seen[0]);
}

static void expect_freeze(uint32_t answer)
{
	struct fake_frame *f = fake_expect(PROTO_FREEZE);

	assert_non_null(f);
	assert_int_not_equal(f->payload[0], 0);
	fake_free(f);
	send_u32(PROTO_FROZEN, 0, 0, answer);
}

/* A busy host is not taken for the end; and where it is, that is said. */
static void tries_again(void **state)
{
	struct sandbox_run run = a_run(1);
	struct fake_frame *f;

	(void)state;
	open_ready(&seen[0], 0);
	assert_int_equal(call_save(), 0);
	expect_freeze(EBUSY);
	fake_settle();
	assert_int_equal(seen[0].nsaved, 0);
	assert_int_equal(call_run(&seen[0], &run), -EBUSY);
	assert_int_equal(call_save(), -EBUSY);
	expect_freeze(EBUSY);
	expect_freeze(0);
	f = fake_expect(PROTO_PACK);
	records();
	fake_send(PROTO_PACKED, 0, f->h.id, bytes, out.len);
	send_end(PROTO_PACKED, f->h.id, 0, "");
	fake_free(f);
	check(0);
	until_answered();
	assert_non_null(seen[0].saved);
	saved_unref(seen[0].saved);
	/* Nobody wants it any more. */
	assert_int_equal(call_save(), 0);
	expect_freeze(EBUSY);
	fake_settle();
	in_call = true;
	assert_int_equal(sandbox_reset(seen[0].s), 0);
	in_call = false;
	fake_free(fake_expect(PROTO_RESET));
	send_ready("1");
	until(&seen[0], SANDBOX_READY);
	/* It takes too long. */
	assert_int_equal(call_save(), 0);
	seen[0].s->save.began -= 31000;
	expect_freeze(EBUSY);
	until_answered();
	assert_null(seen[0].saved);
	assert_int_equal(seen[0].not_saved.code, PROBLEM_NOT_SAVED);
	assert_non_null(strstr(seen[0].not_saved.cause, "could not be stopped within 31 s: "));
	assert_non_null(strstr(seen[0].not_saved.cause, " with a load of "));
	/* Its end comes first. */
	assert_int_equal(call_save(), 0);
	expect_freeze(EBUSY);
	fake_settle();
	close_it(&seen[0]);
}

/* Nothing of one that was given up becomes part of the next. */
static void is_reset(void **state)
{
	uint32_t first, second;

	(void)state;
	open_ready(&seen[0], 0);
	first = begin_save();
	records();
	in_call = true;
	assert_int_equal(sandbox_reset(seen[0].s), 0);
	in_call = false;
	fake_free(fake_expect(PROTO_RESET));
	fake_send(PROTO_PACKED, 0, first, bytes, out.len);
	send_ready("1");
	until(&seen[0], SANDBOX_READY);
	second = begin_save();
	assert_int_not_equal(first, second);
	send_end(PROTO_PACKED, first, 0, "");
	fake_settle();
	assert_int_equal(seen[0].nsaved, 0);
	fake_send(PROTO_PACKED, 0, second, bytes, out.len);
	send_end(PROTO_PACKED, second, 0, "");
	check(0);
	until_answered();
	saved_unref(seen[0].saved);
	(void)begin_save();
	close_it(&seen[0]);
	assert_int_equal(seen[0].nsaved, 0);
}

/* What makes no sense ends it. */
static void until_lost(void)
{
	until_closed(&seen[0]);
	assert_int_equal(seen[0].problem.code, PROBLEM_AGENT_PROTOCOL);
	assert_int_equal(seen[0].nsaved, 0);
	memset(&seen[0], 0, sizeof(seen[0]));
}

static void believes_nothing(void **state)
{
	uint32_t id;

	(void)state;
	open_ready(&seen[0], 0);
	fake_send(PROTO_PACKED, 0, 1, NULL, 0); /* nobody asked */
	until_lost();
	open_ready(&seen[0], 0);
	id = begin_save();
	fake_send(PROTO_PACKED, 0, id + 1, NULL, 0);
	until_lost();
	open_ready(&seen[0], 0);
	fake_send(PROTO_PACKED, 0, begin_save(), "xxxxxxxxx", 9);
	until_lost();
	open_ready(&seen[0], 0);
	id = begin_save();
	records();
	fake_send(PROTO_PACKED, 0, id, bytes, out.len - 1); /* half a record */
	until_lost();
	open_ready(&seen[0], 0);
	send_end(PROTO_PACKED, begin_save(), 0, ""); /* it is not whole */
	until_lost();
	open_ready(&seen[0], 0);
	send_end(PROTO_PACKED, begin_save(), 5000, "");
	until_lost();
	open_ready(&seen[0], 0);
	fake_send(PROTO_PACKED, PROTO_F_EOF, begin_save(), "x", 1);
	until_lost();
}

static void is_bounded(void **state)
{
	const size_t part = 100000;
	uint32_t id;

	(void)state;
	open_ready(&seen[0], 0);
	id = begin_save();
	out = (struct proto_out){bytes, 0, sizeof(bytes), false};
	pack_record_put(
		&out, &(struct pack_record){.kind = PACK_DIR, .name = "", .mode = S_IFDIR | 0755});
	pack_record_put(&out, &(struct pack_record){.kind = PACK_FILE,
						    .name = "f",
						    .name_len = 1,
						    .mode = S_IFREG | 0644,
						    .size = INT64_MAX});
	fake_send(PROTO_PACKED, 0, id, bytes, out.len);
	for (uint64_t at = 0; at < FILES + part && !seen[0].nclosed; at += part) {
		out.len = 0;
		pack_data_begin(&out, at, part);
		fake_send(PROTO_PACKED, 0, id, bytes, out.len + part);
		if (at % (part * 8) == 0)
			fake_settle();
	}
	until_lost();
}

static void falls_silent(void **state)
{
	struct guest *g;

	(void)state;
	open_ready(&seen[0], 0);
	(void)begin_save();
	g = seen[0].s->guest;
	for (unsigned i = 0; i < 24; i++)
		assert_true(pack_check(g));
	in_call = true;
	assert_false(pack_check(g));
	in_call = false;
	until_closed(&seen[0]);
	assert_int_equal(seen[0].problem.code, PROBLEM_AGENT_SILENT);
}

/* ---- putting back ---- */

static struct saved *a_large_one(size_t size)
{
	const size_t part = 100000;
	struct pack_maker *m;
	struct pack *p;
	size_t used;

	assert_int_equal(pack_maker_new(&(struct pack_limits){1u << 30, 10}, &m), 0);
	out = (struct proto_out){bytes, 0, sizeof(bytes), false};
	pack_record_put(
		&out, &(struct pack_record){.kind = PACK_DIR, .name = "", .mode = S_IFDIR | 0755});
	pack_record_put(&out, &(struct pack_record){.kind = PACK_FILE,
						    .name = "f",
						    .name_len = 1,
						    .mode = S_IFREG | 0644,
						    .size = size});
	for (size_t at = 0; at < size; at += part) {
		pack_data_begin(&out, at, part);
		assert_int_equal(pack_maker_add(m, bytes, out.len + part, &used), 0);
		assert_int_equal(used, out.len + part);
		out.len = 0;
	}
	pack_record_put(&out, &(struct pack_record){.kind = PACK_UP});
	assert_int_equal(pack_maker_add(m, bytes, out.len, &used), 0);
	assert_int_equal(pack_maker_end(m, &(struct pack_flaws){0}, &p), 0);
	return saved_new(p, NULL);
}

/* Up to the first frame. Return: its id. */
static uint32_t begin_fill(struct saved *from)
{
	struct fake_frame *f;
	uint32_t id;

	seen[0].from = from;
	open_sandbox(&seen[0], 0);
	until(&seen[0], SANDBOX_STARTING);
	fake_boot();
	f = fake_expect(PROTO_UNPACK);
	assert_non_null(f);
	assert_int_equal(f->h.flags, PROTO_F_FIRST);
	assert_int_equal(f->h.length, 0);
	id = f->h.id;
	fake_free(f);
	return id;
}

/* Takes @n bytes. Return: whether they were the last ones. */
static bool take(uint32_t id, size_t n)
{
	bool last = false;

	while (n) {
		struct fake_frame *f = fake_expect(PROTO_UNPACK);

		assert_non_null(f);
		assert_false(last);
		assert_int_equal(f->h.id, id);
		assert_true(f->h.length <= n && f->h.length <= PROTO_DATA_MAX);
		n -= f->h.length;
		last = f->h.flags & PROTO_F_EOF;
		fake_free(f);
	}
	fake_settle();
	assert_false(fake_got(PROTO_UNPACK));
	return last;
}

static void puts_back(void **state)
{
	struct saved *saved = a_large_one(1000000);
	const uint64_t size = pack_records_size(saved->pack);
	uint32_t id = begin_fill(saved);

	(void)state;
	fake_settle();
	assert_false(fake_got(PROTO_UNPACK)); /* not before it is granted */
	send_u32(PROTO_UNPACKED, 0, id, 1000);
	assert_false(take(id, 1000));
	send_u32(PROTO_UNPACKED, 0, id, PROTO_UNPACK_WINDOW);
	assert_false(take(id, PROTO_UNPACK_WINDOW));
	assert_int_equal(seen[0].nstates, 1); /* it is STARTING */
	send_u32(PROTO_UNPACKED, 0, id, PROTO_UNPACK_WINDOW);
	assert_true(take(id, size - 1000 - PROTO_UNPACK_WINDOW));
	send_end(PROTO_UNPACKED, id, 0, "");
	until(&seen[0], SANDBOX_READY);
	run_one(&seen[0], 1);
	close_it(&seen[0]);
	/* Its end comes first. */
	memset(&seen[0], 0, sizeof(seen[0]));
	id = begin_fill(saved);
	send_u32(PROTO_UNPACKED, 0, id, PROTO_UNPACK_WINDOW);
	saved_unref(saved);
	close_it(&seen[0]);
}

static void can_not_be_put_back(void **state)
{
	struct saved *saved = a_large_one(1000000);

	(void)state;
	send_end(PROTO_UNPACKED, begin_fill(saved), ENOSPC, "f");
	until_closed(&seen[0]);
	assert_int_equal(seen[0].problem.code, PROBLEM_NOT_RESTORED);
	assert_string_equal(seen[0].problem.cause,
			    "its files could not be put back: f: No space left on device");
	saved_unref(saved);
}

static void believes_nothing_of_that_either(void **state)
{
	struct saved *saved = a_large_one(1000000);
	uint32_t id;

	(void)state;
	send_end(PROTO_UNPACKED, begin_fill(saved), 0, ""); /* it has had nothing */
	until_lost();
	send_u32(PROTO_UNPACKED, 0, begin_fill(saved), PROTO_UNPACK_WINDOW + 1);
	until_lost();
	id = begin_fill(saved);
	send_u32(PROTO_UNPACKED, 0, id + 1, 1);
	until_lost();
	fake_send(PROTO_UNPACKED, 0, begin_fill(saved), "x", 1);
	until_lost();
	saved_unref(saved);
	open_ready(&seen[0], 0);
	send_u32(PROTO_UNPACKED, 0, 1, 1);
	until_lost();
}

#define TEST(name) \
	cmocka_unit_test_setup_teardown(name, sandbox_fixture_setup, sandbox_fixture_teardown)

static int call_save_memory(void)
{
	int r;

	with_memory = true;
	r = call_save();
	with_memory = false;
	return r;
}

/* It stands still, and its files are asked for. Return: the id of that. */
static uint32_t expect_pack(void)
{
	struct fake_frame *f;
	uint32_t id;

	expect(PROTO_FREEZE_ALL);
	send_u32(PROTO_FROZEN, 0, 0, 0);
	f = fake_expect(PROTO_PACK);
	assert_non_null(f);
	id = f->h.id;
	fake_free(f);
	return id;
}

static void answer_point(uint32_t id)
{
	static const uint8_t none[4];

	fake_free(fake_expect(PROTO_POINT));
	fake_send(PROTO_POINTED, 0, id, none, sizeof(none));
	fake_settle();
}

static void give_point(void)
{
	fake_agent.point->base = memfd_create("base", MFD_CLOEXEC);
	fake_agent.point->stream = memfd_create("stream", MFD_CLOEXEC);
	fake_pointed(0);
}

static void until_tried_again(void)
{
	while (seen[0].s->save.step == SAVE_AGAIN)
		uv_run(seen[0].s->vm->ctx.loop, UV_RUN_ONCE);
}

/* What is saved with its memory stands still for the files and the copy alone: it runs while that is prepared, and when
 * the machine does again. */
static void stands_still(void **state)
{
	(void)state;
	open_ready(&seen[0], 0);
	assert_int_equal(call_save_memory(), 0);
	fake_prepared();
	send_files(expect_pack());
	answer_point(1);
	assert_int_equal(fake_agent.copies, 1);
	assert_false(fake_got(PROTO_FREEZE));
	fake_runs();
	check(0);
	fake_settle();
	assert_int_equal(seen[0].nsaved, 0);
	give_point();
	assert_int_equal(seen[0].nsaved, 1);
	fake_settle();
	assert_false(fake_got(PROTO_FREEZE)); /* not once more */
	saved_unref(seen[0].saved);
	close_it(&seen[0]);
}

/* The agent can't stop it: what was prepared is not wanted any more, and it is tried again with another one. */
static void not_stopped(void **state)
{
	(void)state;
	open_ready(&seen[0], 0);
	assert_int_equal(call_save_memory(), 0);
	fake_prepared();
	fake_free(fake_expect(PROTO_FREEZE));
	send_u32(PROTO_FROZEN, 0, 0, EBUSY);
	fake_settle();
	assert_int_equal(fake_agent.cancels, 1);
	fake_pointed(-ECANCELED);
	assert_int_equal(seen[0].nsaved, 0);
	assert_int_equal(seen[0].s->save.step, SAVE_AGAIN);
	until_tried_again();
	assert_int_equal(seen[0].s->save.step, SAVE_PREPARE);
	fake_pointed(-ENOSPC);
	assert_int_equal(seen[0].nsaved, 1);
	assert_null(seen[0].saved);
	assert_string_equal(problem_code_str(seen[0].problem.code), "not-saved");
	close_it(&seen[0]);
}

/* Its memory is copied, and the agent says later, or sooner, that a timer has woken something before. */
static void has_run(void **state)
{
	(void)state;
	open_ready(&seen[0], 0);
	assert_int_equal(call_save_memory(), 0);
	for (uint32_t i = 0; i < 5; i++) {
		assert_int_equal(seen[0].nsaved, 0);
		fake_prepared();
		send_files(expect_pack());
		answer_point(i + 1);
		fake_runs();
		if (i % 2)
			check(ECANCELED);
		fake_settle();
		give_point();
		if (i % 2 == 0)
			check(ECANCELED);
		fake_settle();
		until_tried_again();
	}
	assert_int_equal(seen[0].nsaved, 1);
	assert_null(seen[0].saved);
	assert_non_null(strstr(seen[0].not_saved.cause, "ran although it was stopped, 5 times"));
	close_it(&seen[0]);
}

/* Also of files alone, and once is no harm. */
static void has_run_once(void **state)
{
	(void)state;
	open_ready(&seen[0], 0);
	send_files(begin_save());
	check(ECANCELED);
	fake_settle();
	assert_int_equal(seen[0].nsaved, 0);
	send_files(expect_pack());
	check(0);
	until_answered();
	saved_unref(seen[0].saved);
	close_it(&seen[0]);
}

/* Whoever asks right behind one that has failed waits until that is put away. */
static void failed_just_now(void **state)
{
	uint32_t id;

	(void)state;
	open_ready(&seen[0], 0);
	with_memory = true;
	assert_int_equal(call_save(), 0);
	fake_prepared();
	id = expect_pack();
	send_end(PROTO_PACKED, id, ENAMETOOLONG, "deep");
	until_answered();
	expect_thaw();
	assert_int_equal(fake_agent.cancels, 1);
	assert_int_equal(call_save(), 0);
	assert_int_equal(seen[0].s->save.step, SAVE_AGAIN);
	fake_pointed(-ECANCELED);
	until_tried_again();
	assert_int_equal(seen[0].s->save.step, SAVE_PREPARE);
	with_memory = false;
	fake_prepared();
	fake_pointed(-ENOSPC);
	assert_int_equal(seen[0].nsaved, 1);
	close_it(&seen[0]);
}

/* Whoever asks before the agent of a clone has answered the greeting waits for that: it is READY all the same. */
static void greeted_just_now(void **state)
{
	(void)state;
	open_ready(&seen[0], 0);
	handshake_again(seen[0].s->guest);
	assert_int_equal(call_save_memory(), 0);
	assert_int_equal(seen[0].s->save.step, SAVE_AGAIN);
	fake_boot();
	send_ready("Fake 1.1");
	until_tried_again();
	assert_int_equal(seen[0].s->save.step, SAVE_PREPARE);
	fake_prepared();
	fake_pointed(-ENOSPC);
	assert_int_equal(seen[0].nsaved, 1);
	close_it(&seen[0]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(saves),
		TEST(says_why_not),
		TEST(tries_again),
		TEST(is_reset),
		TEST(believes_nothing),
		TEST(is_bounded),
		TEST(falls_silent),
		TEST(puts_back),
		TEST(can_not_be_put_back),
		TEST(believes_nothing_of_that_either),
		TEST(stands_still),
		TEST(not_stopped),
		TEST(has_run),
		TEST(has_run_once),
		TEST(failed_just_now),
		TEST(greeted_just_now),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
