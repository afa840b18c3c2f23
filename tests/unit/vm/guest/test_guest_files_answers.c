/* SPDX-License-Identifier: Apache-2.0 */
/* File requests: what is believed of their answers. */
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

/* ---- what is believed ---- */

static void attr_is_tamed(void **state)
{
	const struct proto_entry entry = {
		.node = 9,
		.attr = {.ino = 1,
			 .mode = S_IFREG | S_ISUID | S_ISGID | S_ISVTX | 0755 | 1u << 30,
			 .size = UINT64_MAX,
			 .blocks = UINT64_MAX,
			 .mtime = -5,
			 .mtime_ns = 4000000000u},
	};
	const struct vm_file req = {.op = VM_LOOKUP, .node = 1, .name = "x"};
	uint8_t bytes[128];
	struct proto_out o = {bytes, 0, sizeof(bytes), false};
	struct fake_frame *f;
	struct answer a;

	(void)state;
	proto_entry_pack(&o, &entry);
	assert_int_equal(ask(&req, &a), 0);
	f = fake_expect(PROTO_F_LOOKUP);
	answer(f->h.id, 0, bytes, o.len);
	fake_free(f);
	until(&a);
	assert_int_equal(a.err, 0);
	assert_int_equal(a.reply.node, 9);
	assert_int_equal(a.reply.attr.mode, S_IFREG | S_ISVTX | 0755);
	assert_true(a.reply.attr.size <= INT64_MAX);
	assert_true(a.reply.attr.blocks <= INT64_MAX / 512);
	assert_int_equal(a.reply.attr.mtime.tv_sec, -5);
	assert_true(a.reply.attr.mtime.tv_nsec < 1000000000);
}

static void lookup_error(const struct proto_entry *entry, uint32_t err, int expected)
{
	const struct vm_file req = {.op = VM_LOOKUP, .node = 1, .name = "x"};
	uint8_t bytes[128];
	struct proto_out o = {bytes, 0, sizeof(bytes), false};
	struct fake_frame *f;
	struct answer a;

	if (entry)
		proto_entry_pack(&o, entry);
	assert_int_equal(ask(&req, &a), 0);
	f = fake_expect(PROTO_F_LOOKUP);
	answer(f->h.id, err, bytes, o.len);
	fake_free(f);
	until(&a);
	assert_int_equal(a.err, expected);
}

static void odd_entries(void **state)
{
	const struct proto_entry no_node = {.node = 0, .attr = {.mode = S_IFREG}};
	const struct proto_entry no_type = {.node = 5, .attr = {.mode = 0130000}};

	(void)state;
	lookup_error(&no_node, 0, -EIO);
	lookup_error(&no_type, 0, -EIO);
	lookup_error(NULL, ENOTDIR, -ENOTDIR);
	lookup_error(NULL, 512, -EIO); /* ERESTARTSYS would confuse the kernel */
	lookup_error(NULL, ENOSYS,
		     -EIO); /* it would never ask for the like again, of any session */
	lookup_error(NULL, 0x80000000u, -EIO);
}

static void made(const struct vm_file *req, enum proto_type type, uint32_t mode, int expected)
{
	const struct proto_entry entry = {.node = 5, .attr = {.mode = mode}};
	uint8_t bytes[128];
	struct proto_out o = {bytes, 0, sizeof(bytes), false};
	struct fake_frame *f;
	struct answer a;

	proto_entry_pack(&o, &entry);
	if (req->op == VM_CREATE)
		put_u64(&o, 6);
	assert_int_equal(ask(req, &a), 0);
	f = fake_expect(type);
	answer(f->h.id, 0, bytes, o.len);
	fake_free(f);
	until(&a);
	assert_int_equal(a.err, expected);
}

/* The kernel would count no lookup then, nor the handle as open. */
static void other_than_was_made(void **state)
{
	const struct vm_file file = {.op = VM_CREATE, .node = 1, .name = "x"};
	const struct vm_file dir = {.op = VM_MKDIR, .node = 1, .name = "x"};
	const struct vm_file link = {.op = VM_SYMLINK, .node = 1, .name = "x", .newname = "y"};

	(void)state;
	made(&file, PROTO_F_CREATE, S_IFREG, 0);
	made(&file, PROTO_F_CREATE, S_IFDIR, -EIO);
	made(&file, PROTO_F_CREATE, S_IFIFO, -EIO);
	made(&dir, PROTO_F_MKDIR, S_IFDIR, 0);
	made(&dir, PROTO_F_MKDIR, S_IFREG, -EIO);
	made(&link, PROTO_F_SYMLINK, S_IFLNK, 0);
	made(&link, PROTO_F_SYMLINK, S_IFDIR, -EIO);
}

static void add_dirent(struct proto_out *o, const char *name, size_t len, uint32_t type)
{
	const struct proto_dirent d = {1, 2, type, {name, (uint32_t)len}};

	proto_dirent_pack(o, &d);
}

static void directory(void **state)
{
	const struct vm_file req = {.op = VM_READDIR, .handle = 2, .size = 4096};
	uint8_t bytes[4096];
	struct proto_out o = {bytes, 0, sizeof(bytes), false};
	struct fake_frame *f;
	struct answer a;

	(void)state;
	add_dirent(&o, "good", 4, S_IFREG);
	add_dirent(&o, "../etc/passwd", 13, S_IFREG);
	add_dirent(&o, "..", 2, S_IFDIR);
	add_dirent(&o, ".", 1, S_IFDIR);
	add_dirent(&o, "", 0, S_IFREG);
	add_dirent(&o, "a\0b", 3, S_IFREG);
	add_dirent(&o, "odd type", 8, 0170000);
	add_dirent(&o, "\xff\n", 2, S_IFLNK);
	assert_int_equal(ask(&req, &a), 0);
	f = fake_expect(PROTO_F_READDIR);
	answer(f->h.id, 0, bytes, o.len);
	fake_free(f);
	until(&a);
	assert_int_equal(a.err, 0);
	assert_int_equal(a.reply.nentries, 2);
	assert_string_equal(a.names, "good,\xff\n,");
}

/* Who wrote it: any words, as long as they can be shown. */
static void origin_is(const char *text, size_t len, int err)
{
	const struct vm_file req = {.op = VM_ORIGIN, .node = 7};
	uint8_t bytes[PROTO_ORIGIN_MAX + 8];
	struct proto_out o = {bytes, 0, sizeof(bytes), false};
	struct answer a;
	struct fake_frame *f;

	put_str(&o, (struct proto_str){text, (uint32_t)len});
	assert_int_equal(ask(&req, &a), 0);
	f = fake_expect(PROTO_F_ORIGIN);
	answer(f->h.id, 0, bytes, o.len);
	fake_free(f);
	until(&a);
	assert_int_equal(a.err, err);
	if (err == 0)
		assert_int_equal(a.reply.size, len);
	free(a.data);
}

static void origins(void **state)
{
	(void)state;
	origin_is("run 7 of demo:5 or client", 25, 0);
	origin_is("", 0, 0);
	origin_is("run\n7", 5, -EIO);
	origin_is("run\0007", 5, -EIO);
	origin_is("\x9b", 1, -EIO);
}

/* Answers that no honest agent gives: the sandbox ends, and with it every request. */
static void violation(const struct vm_file *req, uint32_t id_xor, const void *data, size_t len)
{
	const struct vm_file other = {.op = VM_STATFS};
	struct answer a, b;
	struct fake_frame *f;

	assert_int_equal(ask(req, &a), 0);
	assert_int_equal(ask(&other, &b), 0);
	f = fake_expect(req->op == VM_READ	? PROTO_F_READ
			: req->op == VM_WRITE	? PROTO_F_WRITE
			: req->op == VM_READDIR ? PROTO_F_READDIR
						: PROTO_F_LOOKUP);
	answer(f->h.id ^ id_xor, 0, data, len);
	fake_free(f);
	assert_true(fake_spin(is_true, &closed));
	assert_string_equal(problem_code_str(problem.code), "agent-protocol");
	assert_true(a.there && b.there);
	assert_int_equal(a.err, -ESTALE);
	assert_int_equal(b.err, -ESTALE);
	assert_int_equal(fake_agent.destroyed, 1);
}

static void read_too_much(void **state)
{
	const struct vm_file req = {.op = VM_READ, .handle = 1, .size = 10};

	(void)state;
	violation(&req, 0, "hello world", 11);
}

static void wrote_too_much(void **state)
{
	const struct vm_file req = {.op = VM_WRITE, .handle = 1, .data = "x", .size = 1};

	(void)state;
	violation(&req, 0, "\2\0\0", 4);
}

static void wrong_id(void **state)
{
	const struct vm_file req = {.op = VM_READ, .handle = 1, .size = 10};

	(void)state;
	violation(&req, 0x10000, "x", 1);
}

static void cut_entry(void **state)
{
	const struct vm_file req = {.op = VM_LOOKUP, .node = 1, .name = "x"};

	(void)state;
	violation(&req, 0, "1234567", 7);
}

static void cut_directory(void **state)
{
	const struct vm_file req = {.op = VM_READDIR, .handle = 1, .size = 4096};

	(void)state;
	violation(&req, 0, "\1\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\0\200\0\0\377\0\0\0x", 25);
}

static void long_directory(void **state)
{
	static const uint8_t zeroes[200];
	const struct vm_file req = {.op = VM_READDIR, .handle = 1, .size = 100};

	(void)state;
	violation(&req, 0, zeroes, sizeof(zeroes));
}

/* An agent that reads nothing knows the id of what is on its way: its answer makes no sense. */
static void answer_unread(void **state)
{
	static const uint8_t zeroes[MIB];
	const struct vm_file little = {.op = VM_STATFS, .node = 1};
	const struct vm_file much = {
		.op = VM_WRITE, .handle = 1, .data = zeroes, .size = sizeof(zeroes)};
	struct answer a, b, c;
	struct fake_frame *f;
	uint32_t id;

	(void)state;
	assert_int_equal(ask(&little, &a), 0);
	f = fake_expect(PROTO_F_STATFS);
	id = f->h.id;
	fake_free(f);
	answer(id, EACCES, NULL, 0);
	until(&a);
	assert_int_equal(ask(&much, &b), 0); /* more than the socket takes */
	assert_int_equal(ask(&little, &c), 0);
	answer(id + MIB / PROTO_DATA_MAX, EACCES, NULL,
	       0); /* the slot behind those of its pieces */
	for (unsigned turn = 0; turn < 4; turn++)
		uv_run(&loop, UV_RUN_NOWAIT);
	assert_true(fake_spin(is_true, &closed));
	assert_string_equal(problem_code_str(problem.code), "agent-protocol");
	assert_int_equal(b.err, -ESTALE);
	assert_int_equal(c.err, -ESTALE);
}

/* In flight and waiting alike, each is answered once when the sandbox goes. */
static void all_answered(void **state)
{
	static struct answer answers[PROTO_FILES_INFLIGHT + 50];
	const struct vm_file req = {.op = VM_READ, .handle = 1, .size = MIB};
	struct answer after;

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(answers); i++)
		assert_int_equal(ask(&req, &answers[i]), 0);
	in_call = true;
	sandbox_close(s);
	in_call = false;
	assert_int_equal(ask(&req, &after), -ESTALE);
	assert_true(fake_spin(is_true, &closed));
	for (unsigned i = 0; i < ARRAY_SIZE(answers); i++) {
		assert_true(answers[i].there);
		assert_int_equal(answers[i].err, -ESTALE);
	}
	assert_false(after.there);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(f) \
	cmocka_unit_test_setup_teardown(f, guest_file_fixture_setup, guest_file_fixture_teardown)
		T(attr_is_tamed),	T(origins),	   T(odd_entries),  T(directory),
		T(read_too_much),	T(wrote_too_much), T(wrong_id),	    T(cut_entry),
		T(cut_directory),	T(long_directory), T(all_answered), T(answer_unread),
		T(other_than_was_made),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
