/* SPDX-License-Identifier: Apache-2.0 */
/* File requests: how they are packed and split. */
/* modules: tests/unit/fixture/guest_file_fixture.c tests/unit/fixture/fake_agent.c vm */
/* libs: uv crypto jansson seccomp */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>
#include <cmocka.h>

#include "tests/unit/fixture/guest_file_fixture.h"

/* ---- questions ---- */

static void packs(void **state)
{
	static const struct vm_file reqs[] = {
		{.op = VM_LOOKUP, .node = 3, .name = "n"},
		{.op = VM_MKDIR, .node = 3, .mode = 0755, .name = "n"},
		{.op = VM_SYMLINK, .node = 3, .name = "n", .newname = "t"},
		{.op = VM_LINK, .node = 3, .newparent = 4, .newname = "t"},
		{.op = VM_RENAME,
		 .node = 3,
		 .newparent = 4,
		 .flags = 1,
		 .name = "n",
		 .newname = "t"},
		{.op = VM_CREATE, .node = 3, .flags = O_RDWR, .mode = 0644, .name = "n"},
		{.op = VM_FALLOCATE, .handle = 9, .flags = 1, .offset = 2, .length = 3},
		{.op = VM_SEEK, .handle = 9, .offset = 2, .flags = SEEK_DATA},
		{.op = VM_STATFS},
	};
	static const size_t lengths[] = {13, 17, 18, 21, 30, 21, 28, 20, 0};
	static const enum proto_type types[] = {PROTO_F_LOOKUP,	   PROTO_F_MKDIR,  PROTO_F_SYMLINK,
						PROTO_F_LINK,	   PROTO_F_RENAME, PROTO_F_CREATE,
						PROTO_F_FALLOCATE, PROTO_F_SEEK,   PROTO_F_STATFS};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(reqs); i++) {
		struct fake_frame *f;
		struct answer a;

		assert_int_equal(ask(&reqs[i], &a), 0);
		f = fake_expect(types[i]);
		assert_non_null(f);
		assert_int_equal(f->h.length, lengths[i]);
		answer(f->h.id, ENOENT, NULL, 0);
		until(&a);
		assert_int_equal(a.err, -ENOENT);
		fake_free(f);
	}
}

static void silent_ones(void **state)
{
	const struct vm_file release = {.op = VM_RELEASE, .handle = 7};
	const struct vm_file forget_it = {.op = VM_FORGET, .node = 7, .lookups = 2};
	struct fake_frame *f;

	(void)state;
	assert_int_equal(sandbox_file(s, &release, NULL, NULL), 0);
	assert_int_equal(sandbox_file(s, &forget_it, NULL, NULL), 0);
	f = fake_expect(PROTO_F_RELEASE);
	assert_int_equal(f->h.length, 8);
	fake_free(f);
	f = fake_expect(PROTO_F_FORGET);
	assert_int_equal(f->h.length, 16);
	fake_free(f);
}

static void refuses(void **state)
{
	static char name[PROTO_NAME_MAX + 2], target[PROTO_LINK_MAX + 2];
	struct vm_file req = {.op = VM_LOOKUP, .node = 1, .name = name};
	struct answer a;

	(void)state;
	memset(name, 'x', sizeof(name) - 1);
	memset(target, 'x', sizeof(target) - 1);
	assert_int_equal(ask(&req, &a), -ENAMETOOLONG);
	req = (struct vm_file){.op = VM_SYMLINK, .node = 1, .name = "a", .newname = target};
	assert_int_equal(ask(&req, &a), -ENAMETOOLONG);
	req = (struct vm_file){.op = VM_READ, .handle = 1, .size = MIB + 1};
	assert_int_equal(ask(&req, &a), -EINVAL);
}

/* ---- reads and writes ---- */

static void read_one(void **state)
{
	const struct vm_file req = {.op = VM_READ, .handle = 5, .offset = 100, .size = 4096};
	struct fake_frame *f;
	struct proto_in in;
	struct answer a;

	(void)state;
	assert_int_equal(ask(&req, &a), 0);
	f = fake_expect(PROTO_F_READ);
	in = payload(f);
	assert_int_equal(get_u64(&in), 5);
	assert_int_equal(get_u64(&in), 100);
	assert_int_equal(get_u32(&in), 4096);
	assert_true(get_end(&in));
	answer(f->h.id, 0, "hello", 5);
	until(&a);
	assert_int_equal(a.err, 0);
	assert_int_equal(a.reply.size, 5);
	assert_string_equal(a.data, "hello");
	forget(&a);
	fake_free(f);
}

/* Answers the @n pieces from @first on, which are on their way at once, from the last to the first. */
static void answer_pieces(unsigned first, unsigned n, uint64_t offset)
{
	static char piece[PROTO_DATA_MAX];
	struct fake_frame *f[8];

	for (unsigned i = first; i < first + n; i++) {
		struct proto_in in;

		f[i] = fake_expect(PROTO_F_READ);
		assert_non_null(f[i]);
		in = payload(f[i]);
		assert_int_equal(get_u64(&in), 5);
		assert_int_equal(get_u64(&in), offset + i * PROTO_DATA_MAX);
		assert_int_equal(get_u32(&in), PROTO_DATA_MAX);
	}
	fake_settle();
	assert_false(fake_got(PROTO_F_READ));
	for (unsigned i = first + n; i-- > first;) {
		memset(piece, 'a' + (int)i, sizeof(piece));
		answer(f[i]->h.id, 0, piece, sizeof(piece));
		fake_free(f[i]);
	}
}

static void check_pieces(struct answer *a)
{
	until(a);
	assert_int_equal(a->reply.size, MIB);
	for (unsigned i = 0; i < 8; i++) {
		assert_int_equal(a->data[i * PROTO_DATA_MAX], 'a' + (int)i);
		assert_int_equal(a->data[(i + 1) * PROTO_DATA_MAX - 1], 'a' + (int)i);
	}
	forget(a);
}

/* One piece is sent, and the other seven when that came back full; where the next read goes on, all at once. */
static void read_split(void **state)
{
	const struct vm_file req = {.op = VM_READ, .handle = 5, .size = MIB},
			     next = {.op = VM_READ, .handle = 5, .offset = MIB, .size = MIB};
	struct answer a;

	(void)state;
	assert_int_equal(ask(&req, &a), 0);
	answer_pieces(0, 1, 0);
	answer_pieces(1, 7, 0);
	check_pieces(&a);
	assert_int_equal(ask(&next, &a), 0);
	answer_pieces(0, 8, MIB);
	check_pieces(&a);
	assert_int_equal(ask(&req, &a), 0);
	answer_pieces(0, 1, 0);
	answer_pieces(1, 7, 0);
	check_pieces(&a);
}

/* The sandbox ends between the first piece and the others. */
static void read_cut(void **state)
{
	static char piece[PROTO_DATA_MAX];
	const struct vm_file req = {.op = VM_READ, .handle = 5, .size = MIB};
	struct fake_frame *f;
	struct answer a;

	(void)state;
	assert_int_equal(ask(&req, &a), 0);
	f = fake_expect(PROTO_F_READ);
	answer(f->h.id, 0, piece, sizeof(piece));
	fake_free(f);
	fake_free(fake_expect(PROTO_F_READ));
	fake_down(PROBLEM_QEMU_FAILED, "it ended");
	until(&a);
	assert_int_equal(a.err, -ESTALE);
}

/* What counts is everything up to the first piece that came out short, or failed. */
static void short_and_failed(void **state)
{
	static char piece[PROTO_DATA_MAX];
	static const struct {
		int first, second, third; /* bytes, or -errno */
		int err;
		size_t size;
	} rows[] = {
		{PROTO_DATA_MAX, 10, 0, 0, PROTO_DATA_MAX + 10},
		{PROTO_DATA_MAX, 10, PROTO_DATA_MAX, 0, PROTO_DATA_MAX + 10},
		{PROTO_DATA_MAX, -EIO, PROTO_DATA_MAX, 0, PROTO_DATA_MAX},
		{-EIO, PROTO_DATA_MAX, PROTO_DATA_MAX, -EIO, 0},
		{0, 0, 0, 0, 0},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const struct vm_file req = {.op = VM_READ, .handle = 5, .size = 3 * PROTO_DATA_MAX};
		const int results[] = {rows[i].first, rows[i].second, rows[i].third};
		struct answer a;

		assert_int_equal(ask(&req, &a), 0);
		for (unsigned j = 0; j < 3 && (j == 0 || rows[i].first == PROTO_DATA_MAX); j++) {
			struct fake_frame *f = fake_expect(PROTO_F_READ);

			if (results[j] < 0)
				answer(f->h.id, (uint32_t)-results[j], NULL, 0);
			else
				answer(f->h.id, 0, piece, (size_t)results[j]);
			fake_free(f);
		}
		until(&a);
		assert_int_equal(a.err, rows[i].err);
		assert_int_equal(a.reply.size, rows[i].size);
		forget(&a);
	}
}

static void write_split(void **state)
{
	static char data[PROTO_DATA_MAX + 7];
	struct vm_file req = {
		.op = VM_WRITE, .handle = 5, .offset = 3, .data = data, .size = sizeof(data)};
	static const uint8_t whole[] = {0, 0, 2, 0}, rest[] = {7, 0, 0, 0};
	struct fake_frame *f;
	struct answer a;

	(void)state;
	memset(data, 'w', sizeof(data));
	assert_int_equal(ask(&req, &a), 0);
	memset(data, 'x', sizeof(data)); /* was copied */
	f = fake_expect(PROTO_F_WRITE);
	assert_int_equal(f->h.length, 16 + PROTO_DATA_MAX);
	assert_int_equal(f->payload[16], 'w');
	answer(f->h.id, 0, whole, 4);
	fake_free(f);
	f = fake_expect(PROTO_F_WRITE);
	assert_int_equal(f->h.length, 16 + 7);
	assert_int_equal(f->payload[8], 3);
	assert_int_equal(f->payload[10], 2);
	answer(f->h.id, 0, rest, 4);
	fake_free(f);
	until(&a);
	assert_int_equal(a.reply.size, sizeof(data));
}

/* No more than PROTO_FILES_INFLIGHT are under way; the others follow, in order. */
static void window(void **state)
{
	static struct answer answers[PROTO_FILES_INFLIGHT + 10];
	static uint32_t ids[PROTO_FILES_INFLIGHT + 10];

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(answers); i++) {
		const struct vm_file req = {.op = VM_GETATTR, .node = i};

		assert_int_equal(ask(&req, &answers[i]), 0);
	}
	for (unsigned i = 0; i < PROTO_FILES_INFLIGHT; i++) {
		struct fake_frame *f = fake_expect(PROTO_F_GETATTR);

		ids[i] = f->h.id;
		fake_free(f);
	}
	fake_settle();
	assert_false(fake_got(PROTO_F_GETATTR));
	for (unsigned i = 0; i < ARRAY_SIZE(answers); i++) {
		if (i >= PROTO_FILES_INFLIGHT) {
			struct fake_frame *f = fake_expect(PROTO_F_GETATTR);

			assert_int_equal(f->payload[0] | f->payload[1] << 8, i);
			ids[i] = f->h.id;
			fake_free(f);
		}
		answer(ids[i], EACCES, NULL, 0);
		until(&answers[i]);
	}
}

/* ---- a save ---- */

static void begin_save(void)
{
	in_call = true;
	assert_int_equal(sandbox_save(s, false), 0);
	in_call = false;
}

/* What changes files, and was asked for before, is in what is saved: nothing is stopped, nor read, before it is answered. What
 * changes nothing is not waited for. */
static void saved_behind_changes(void **state)
{
	static const struct vm_file reqs[] = {
		{.op = VM_READ, .handle = 5, .size = 4096},
		{.op = VM_OPEN, .node = 3, .flags = O_RDWR},
		{.op = VM_OPEN, .node = 4, .flags = O_RDWR | O_TRUNC},
		{.op = VM_WRITE, .handle = 5, .data = "abcd", .size = 4},
	};
	static const enum proto_type types[] = {PROTO_F_READ, PROTO_F_OPEN, PROTO_F_OPEN,
						PROTO_F_WRITE};
	static const uint8_t done[8] = {4};
	struct answer a[ARRAY_SIZE(reqs)];
	uint32_t ids[ARRAY_SIZE(reqs)];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(reqs); i++) {
		struct fake_frame *f;

		assert_int_equal(ask(&reqs[i], &a[i]), 0);
		f = fake_expect(types[i]);
		ids[i] = f->h.id;
		fake_free(f);
	}
	begin_save();
	for (size_t i = ARRAY_SIZE(reqs); --i > 1;) {
		fake_settle();
		assert_false(fake_got(PROTO_FREEZE));
		answer(ids[i], 0, done, i == 3 ? 4 : 8);
		until(&a[i]);
		forget(&a[i]);
	}
	fake_free(fake_expect(PROTO_FREEZE));
	for (size_t i = 0; i < 2; i++) {
		answer(ids[i], EIO, NULL, 0);
		until(&a[i]);
	}
}

static bool is_given_up(void *data)
{
	(void)data;
	return s->save.step == SAVE_NONE;
}

/* ... and not for ever. */
static void not_saved_behind_a_change(void **state)
{
	const struct vm_file req = {.op = VM_WRITE, .handle = 5, .data = "abcd", .size = 4};
	struct fake_frame *f;
	struct answer a;

	(void)state;
	assert_int_equal(ask(&req, &a), 0);
	f = fake_expect(PROTO_F_WRITE);
	begin_save();
	s->save.began -= 31000;
	assert_true(fake_spin(is_given_up, NULL));
	assert_false(fake_got(PROTO_FREEZE));
	answer(f->h.id, EIO, NULL, 0);
	fake_free(f);
	until(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(f) \
	cmocka_unit_test_setup_teardown(f, guest_file_fixture_setup, guest_file_fixture_teardown)
		T(packs),
		T(silent_ones),
		T(refuses),
		T(read_one),
		T(read_split),
		T(short_and_failed),
		T(write_split),
		T(window),
		T(read_cut),
		T(saved_behind_changes),
		T(not_saved_behind_a_change),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
