/* SPDX-License-Identifier: Apache-2.0 */
/* Leases on the wire: when one is asked for, what is answered during it without the agent, and what ends it. */
/* modules: tests/unit/fixture/guest_file_fixture.c tests/unit/fixture/fake_agent.c vm */
/* libs: uv crypto jansson seccomp */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <cmocka.h>

#include "tests/unit/fixture/guest_file_fixture.h"
#include "vm/base/util.h"
#include "vm/guest/internal.h"

#define NODE   7u
#define HANDLE 9u

static struct proto_attr attr_of(uint64_t size)
{
	return (struct proto_attr){
		.ino = NODE, .mode = S_IFREG | 0644, .nlink = 1, .size = size, .atime = time(NULL)};
}

static void put_attr(struct proto_out *o, uint64_t size)
{
	const struct proto_attr attr = attr_of(size);

	proto_attr_pack(o, &attr);
}

/* Is it answered at once? Else the agent answers EACCES, from which nothing is learned. */
static bool is_known(const struct vm_file *req, enum proto_type type, struct answer *a)
{
	struct fake_frame *f;

	memset(a, 0, sizeof(*a));
	assert_int_equal(sandbox_file(s, req, on_answer_now, a), 0);
	if (a->there)
		return true;
	f = fake_expect(type);
	assert_non_null(f);
	answer(f->h.id, EACCES, NULL, 0);
	fake_free(f);
	until(a);
	return false;
}

static bool attr_is_known(uint64_t size)
{
	const struct vm_file req = {.op = VM_GETATTR, .node = NODE};
	struct answer a;

	if (!is_known(&req, PROTO_F_GETATTR, &a))
		return false;
	assert_int_equal(a.reply.attr.size, size);
	return true;
}

static void note(uint64_t size)
{
	const struct proto_attr attr = attr_of(size);

	send_noted(NODE, &attr);
	fake_settle();
}

/* The host asks for the attributes: from then on it may be told of them. */
static void ask_attr(uint64_t size)
{
	const struct vm_file req = {.op = VM_GETATTR, .node = NODE};
	uint8_t bytes[128];
	struct proto_out o = {bytes, 0, sizeof(bytes), false};
	struct fake_frame *f;
	struct answer a;

	assert_int_equal(ask(&req, &a), 0);
	f = fake_expect(PROTO_F_GETATTR);
	put_attr(&o, size);
	answer(f->h.id, 0, bytes, o.len);
	fake_free(f);
	until(&a);
}

/* Without a lease nothing is kept, whatever the agent sends. */
static void nothing_before(void **state)
{
	(void)state;
	note(3);
	assert_false(attr_is_known(3));
	lease();
	assert_false(attr_is_known(3));
	ask_attr(3);
	assert_true(attr_is_known(3));
	note(4);
	assert_true(attr_is_known(4));
}

/* What an agent says of what it was not asked about is not kept, however much that is. */
static void unasked(void **state)
{
	const struct proto_attr attr = attr_of(3);

	(void)state;
	lease();
	for (uint64_t node = NODE; node < 5000; node++) {
		uint8_t bytes[16];
		struct proto_out o = {bytes, 0, sizeof(bytes), false};

		send_noted(node, &attr);
		put_u64(&o, node);
		put_u64(&o, node);
		fake_send(PROTO_CONTENT, 0, 0, bytes, o.len);
		if (node % 64 == 0)
			fake_settle();
	}
	fake_settle();
	assert_int_equal(s->guest->files.lease.known.bytes, 0);
	assert_false(attr_is_known(3));
	ask_attr(3);
	assert_int_not_equal(s->guest->files.lease.known.bytes, 0);
}

static void ends_with_a_run(void **state)
{
	const struct sandbox_run run = {.id = 1, .code = ":", .code_len = 1};

	(void)state;
	lease();
	ask_attr(3);
	assert_true(attr_is_known(3));
	assert_int_equal(sandbox_run(s, &run), 0);
	assert_false(attr_is_known(3));
	note(4);
	assert_false(attr_is_known(4));
	assert_int_not_equal(wait_asked(4), 0);
}

/* The agent took it back; an answer to a question from before a run is none to the one that comes after. */
static void ends_by_itself(void **state)
{
	const struct sandbox_run run = {.id = 1, .code = ":", .code_len = 1};
	uint32_t id;

	(void)state;
	lease();
	ask_attr(3);
	assert_true(attr_is_known(3));
	assert_int_equal(stirs, 0);
	fake_send(PROTO_UNLEASED, 0, 0, NULL, 0);
	fake_settle();
	assert_int_equal(stirs, 1);
	assert_false(attr_is_known(3));
	id = wait_asked(4);
	assert_int_not_equal(id, 0);
	assert_int_equal(sandbox_run(s, &run), 0);
	send_leased(id, 1);
	note(4);
	assert_false(attr_is_known(4));
}

static void asks_less_often(void **state)
{
	uint32_t id = wait_asked(4);

	(void)state;
	for (unsigned after = 32; after <= 64; after *= 2) {
		assert_int_not_equal(id, 0);
		send_leased(id, 0);
		assert_int_equal(wait_asked(after - 1), 0);
		id = wait_asked(1);
	}
}

/* A file's content comes with its handle; the kernel asks for more than there is. */
static void contents(void **state)
{
	const struct vm_file
		open = {.op = VM_OPEN, .node = NODE, .flags = O_RDONLY},
		read = {.op = VM_READ, .node = NODE, .handle = HANDLE, .size = MIB},
		rest = {.op = VM_READ, .node = NODE, .handle = HANDLE, .offset = 3, .size = MIB},
		end = {.op = VM_READ, .node = NODE, .handle = HANDLE, .offset = 5, .size = MIB},
		release = {.op = VM_RELEASE, .handle = HANDLE};
	uint8_t bytes[16];
	struct proto_out o = {bytes, 0, sizeof(bytes), false};
	struct fake_frame *f;
	struct answer a;

	(void)state;
	lease();
	assert_int_equal(ask(&open, &a), 0);
	f = fake_expect(PROTO_F_OPEN);
	put_u64(&o, HANDLE);
	answer(f->h.id, 0, bytes, o.len);
	fake_free(f);
	put_bytes(&o, "hello", 5);
	fake_send(PROTO_CONTENT, 0, 0, bytes, o.len);
	until(&a);
	fake_settle();
	assert_true(is_known(&read, PROTO_F_READ, &a));
	assert_int_equal(a.reply.size, 5);
	assert_true(is_known(&rest, PROTO_F_READ, &a));
	assert_int_equal(a.reply.size, 2);
	assert_true(is_known(&end, PROTO_F_READ, &a));
	assert_int_equal(a.reply.size, 0);
	assert_int_equal(sandbox_file(s, &release, NULL, NULL), 0);
	assert_true(is_known(&read, PROTO_F_READ, &a));
}

/* Reading what is known sets the time of the last access inside as well, once. */
static void touches(void **state)
{
	const struct vm_file end = {
		.op = VM_READ, .node = NODE, .handle = HANDLE, .offset = 3, .size = MIB};
	struct proto_attr attr = attr_of(3);
	struct fake_frame *f;
	struct answer a;

	(void)state;
	lease();
	ask_attr(3);
	assert_true(is_known(&end, PROTO_F_READ, &a));
	assert_false(fake_got(PROTO_F_TOUCH));
	attr.mtime = attr.atime;
	send_noted(NODE, &attr);
	fake_settle();
	assert_true(is_known(&end, PROTO_F_READ, &a));
	f = fake_expect(PROTO_F_TOUCH);
	assert_int_equal(f->h.length, 8);
	assert_int_equal(f->payload[0], NODE);
	fake_free(f);
	assert_false(attr_is_known(3));
	attr.atime++;
	send_noted(NODE, &attr);
	fake_settle();
	assert_true(is_known(&end, PROTO_F_READ, &a));
	fake_settle();
	assert_false(fake_got(PROTO_F_TOUCH));
	assert_true(attr_is_known(3));
}

/* Of a size that is known, no more is asked for than there is, all at once. */
static void known_size(void **state)
{
	const struct vm_file read = {.op = VM_READ, .node = NODE, .handle = HANDLE, .size = MIB},
			     end = {.op = VM_READ,
				    .node = NODE,
				    .handle = HANDLE,
				    .offset = PROTO_DATA_MAX + 10,
				    .size = MIB};
	struct fake_frame *f[2];
	struct answer a;

	(void)state;
	lease();
	ask_attr(PROTO_DATA_MAX + 10);
	assert_true(is_known(&end, PROTO_F_READ, &a));
	assert_int_equal(a.reply.size, 0);
	assert_int_equal(sandbox_file(s, &read, on_answer_now, &a), 0);
	f[0] = fake_expect(PROTO_F_READ);
	f[1] = fake_expect(PROTO_F_READ);
	fake_settle();
	assert_false(fake_got(PROTO_F_READ));
	assert_int_equal(f[1]->payload[16], 10);
	answer(f[0]->h.id, EIO, NULL, 0);
	answer(f[1]->h.id, EIO, NULL, 0);
	fake_free(f[0]);
	fake_free(f[1]);
	fake_settle();
}

/* The agent is told to forget what it knows of, which is not what was answered here. */
static void lookups(void **state)
{
	const struct vm_file look = {.op = VM_LOOKUP, .node = 1, .name = "a"};
	const struct vm_file forget_all = {.op = VM_FORGET, .node = NODE, .lookups = 3},
			     forget_one = {.op = VM_FORGET, .node = NODE, .lookups = 1};
	uint8_t bytes[128];
	struct proto_out o = {bytes, 0, sizeof(bytes), false};
	struct fake_frame *f;
	struct answer a;

	(void)state;
	lease();
	assert_int_equal(ask(&look, &a), 0);
	f = fake_expect(PROTO_F_LOOKUP);
	put_u64(&o, NODE);
	put_attr(&o, 3);
	answer(f->h.id, 0, bytes, o.len);
	fake_free(f);
	until(&a);
	for (unsigned i = 0; i < 3; i++) {
		assert_true(is_known(&look, PROTO_F_LOOKUP, &a));
		assert_int_equal(a.reply.node, NODE);
	}
	assert_int_equal(sandbox_file(s, &forget_all, NULL, NULL), 0);
	fake_settle();
	assert_false(fake_got(PROTO_F_FORGET));
	assert_int_equal(sandbox_file(s, &forget_one, NULL, NULL), 0);
	f = fake_expect(PROTO_F_FORGET);
	assert_non_null(f);
	assert_int_equal(f->payload[8], 1);
	fake_free(f);
}

/* Frames that make no sense end the connection. */
static void check_malformed(enum proto_type type, size_t len)
{
	static const uint8_t bytes[32] = {2};

	fake_send(type, 0, 1, bytes, len);
	assert_true(fake_spin(is_true, &closed));
	assert_int_equal(problem.code, PROBLEM_AGENT_PROTOCOL);
}

static void short_leased(void **state)
{
	(void)state;
	check_malformed(PROTO_LEASED, 3);
}

static void odd_leased(void **state)
{
	(void)state;
	check_malformed(PROTO_LEASED, 4);
}

static void long_unleased(void **state)
{
	(void)state;
	check_malformed(PROTO_UNLEASED, 1);
}

static void short_noted(void **state)
{
	(void)state;
	check_malformed(PROTO_NOTED, 20);
}

static void short_content(void **state)
{
	(void)state;
	check_malformed(PROTO_CONTENT, 7);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(f) \
	cmocka_unit_test_setup_teardown(f, guest_file_fixture_setup, guest_file_fixture_teardown)
		T(nothing_before), T(ends_with_a_run), T(ends_by_itself), T(asks_less_often),
		T(contents),	   T(known_size),      T(lookups),	  T(short_leased),
		T(odd_leased),	   T(long_unleased),   T(short_noted),	  T(short_content),
		T(unasked),	   T(touches),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
