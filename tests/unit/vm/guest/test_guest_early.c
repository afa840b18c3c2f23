/* SPDX-License-Identifier: Apache-2.0 */
/* Files that are opened without the agent, during a lease: when it is asked after all, and in which order. */
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
#define HANDLE 9u  /* of the agent's, from before */
#define LATER  77u /* of the agent's, when it is asked after all */

#define OLD    1000 /* when the file was changed */

static const struct vm_file open_it = {.op = VM_OPEN, .node = NODE, .flags = O_RDONLY};

static void answer_handle(uint32_t id, uint64_t handle)
{
	uint8_t bytes[8];
	struct proto_out o = {bytes, 0, sizeof(bytes), false};

	put_u64(&o, handle);
	answer(id, 0, bytes, o.len);
}

static void note(int64_t atime)
{
	const struct proto_attr attr = {.ino = NODE,
					.mode = S_IFREG | 0644,
					.nlink = 1,
					.size = 5,
					.atime = atime,
					.mtime = OLD,
					.ctime = OLD};

	send_noted(NODE, &attr);
}

/* A file of five bytes was opened and closed; all is known of it. */
static void know_file(int64_t atime)
{
	const struct vm_file release = {.op = VM_RELEASE, .handle = HANDLE};
	uint8_t bytes[16];
	struct proto_out o = {bytes, 0, sizeof(bytes), false};
	struct fake_frame *f;
	struct answer a;

	lease();
	assert_int_equal(ask(&open_it, &a), 0);
	f = fake_expect(PROTO_F_OPEN);
	answer_handle(f->h.id, HANDLE);
	fake_free(f);
	put_u64(&o, HANDLE);
	put_bytes(&o, "hello", 5);
	fake_send(PROTO_CONTENT, 0, 0, bytes, o.len);
	note(atime);
	until(&a);
	assert_int_equal(sandbox_file(s, &release, NULL, NULL), 0);
	fake_free(fake_expect(PROTO_F_RELEASE));
	fake_settle();
}

/* Return: the handle, of which the agent has not heard. */
static uint64_t open_early(void)
{
	struct answer a = {0};

	assert_int_equal(sandbox_file(s, &open_it, on_answer_now, &a), 0);
	assert_true(a.there);
	assert_int_equal(a.err, 0);
	return a.reply.handle;
}

static void check_read(uint64_t handle)
{
	const struct vm_file read = {
		.op = VM_READ, .node = NODE, .handle = handle, .offset = 1, .size = MIB};
	struct answer a = {0};

	assert_int_equal(sandbox_file(s, &read, on_answer_now, &a), 0);
	assert_true(a.there);
	assert_int_equal(a.reply.size, 4);
}

static void release(uint64_t handle)
{
	const struct vm_file rq = {.op = VM_RELEASE, .handle = handle};

	assert_int_equal(sandbox_file(s, &rq, NULL, NULL), 0);
	fake_settle();
}

/* Which handle is the next request of this type about? It is answered with @err. */
static uint64_t next_handle(enum proto_type type, uint32_t err)
{
	struct fake_frame *f = fake_expect(type);
	struct proto_in in;
	uint64_t handle;

	assert_non_null(f);
	in = payload(f);
	handle = get_u64(&in);
	if (type != PROTO_F_RELEASE && type != PROTO_F_CANCEL_LOCK)
		answer(f->h.id, err, NULL, 0);
	fake_free(f);
	return handle;
}

/* The agent opens the file. */
static void open_now(uint32_t err)
{
	struct fake_frame *f = fake_expect(PROTO_F_OPEN);

	assert_non_null(f);
	if (err)
		answer(f->h.id, err, NULL, 0);
	else
		answer_handle(f->h.id, LATER);
	fake_free(f);
	fake_settle();
}

static void never_opened(void **state)
{
	(void)state;
	know_file(OLD + 1000000000000);
	for (unsigned i = 0; i < 3; i++) {
		const uint64_t handle = open_early();

		check_read(handle);
		release(handle);
	}
	assert_false(fake_got(PROTO_F_OPEN));
	assert_false(fake_got(PROTO_F_RELEASE));
}

/* Inside, a file that was changed and then read has to show it. */
static void read_is_seen(void **state)
{
	struct fake_frame *f;
	uint64_t handle;

	(void)state;
	know_file(OLD);
	handle = open_early();
	fake_settle();
	assert_false(fake_got(PROTO_F_TOUCH));
	check_read(handle);
	check_read(handle);
	release(handle);
	f = fake_expect(PROTO_F_TOUCH);
	assert_int_equal(f->h.length, 8);
	assert_int_equal(f->payload[0], NODE);
	fake_free(f);
	assert_false(fake_got(PROTO_F_TOUCH));
	assert_false(fake_got(PROTO_F_OPEN));
	assert_false(fake_got(PROTO_F_RELEASE));
}

/* What is open is open before a run can change that. */
static void before_a_run(void **state)
{
	const struct sandbox_run run = {.id = 1, .code = ":", .code_len = 1};
	struct vm_file read = {.op = VM_READ, .node = NODE, .size = 4};
	struct fake_frame *f[2];
	struct answer a;

	(void)state;
	know_file(OLD + 1000000000000);
	read.handle = open_early();
	release(open_early());
	assert_int_equal(sandbox_run(s, &run), 0);
	f[0] = fake_expect(PROTO_F_OPEN);
	f[1] = fake_expect(PROTO_RUN);
	assert_non_null(f[0]);
	assert_non_null(f[1]);
	assert_int_equal(ask(&read, &a), 0); /* waits */
	fake_settle();
	assert_false(fake_got(PROTO_F_READ));
	answer_handle(f[0]->h.id, LATER);
	fake_free(f[0]);
	fake_free(f[1]);
	assert_int_equal(next_handle(PROTO_F_READ, EIO), LATER);
	until(&a);
	assert_int_equal(a.err, -EIO);
	release(read.handle);
	assert_int_equal(next_handle(PROTO_F_RELEASE, 0), LATER);
	assert_false(fake_got(PROTO_F_OPEN));
}

/* The agent takes the lease back. */
static void before_it_ends(void **state)
{
	uint64_t handle;

	(void)state;
	know_file(OLD + 1000000000000);
	handle = open_early();
	fake_send(PROTO_UNLEASED, 0, 0, NULL, 0);
	open_now(0);
	release(handle);
	assert_int_equal(next_handle(PROTO_F_RELEASE, 0), LATER);
}

/* A new mode is sent behind the open, whose failure is told by what needs it. */
static void before_a_mode(void **state)
{
	const struct vm_file chmod = {
		.op = VM_SETATTR, .node = NODE, .valid = PROTO_SET_MODE, .mode = 0};
	struct vm_file sync = {.op = VM_FSYNC, .node = NODE};
	struct fake_frame *f[2];
	struct answer a, b = {0};

	(void)state;
	know_file(OLD + 1000000000000);
	sync.handle = open_early();
	assert_int_equal(ask(&chmod, &a), 0);
	f[0] = fake_expect(PROTO_F_OPEN);
	f[1] = fake_expect(PROTO_F_SETATTR);
	assert_non_null(f[0]);
	assert_non_null(f[1]);
	answer(f[0]->h.id, ENFILE, NULL, 0);
	answer(f[1]->h.id, EPERM, NULL, 0);
	fake_free(f[0]);
	fake_free(f[1]);
	until(&a);
	assert_int_equal(a.err, -EPERM);
	assert_int_equal(sandbox_file(s, &sync, on_answer_now, &b), -ENFILE);
	release(sync.handle);
	assert_int_equal(sandbox_file(s, &sync, on_answer_now, &b), -EBADF);
	assert_false(fake_got(PROTO_F_RELEASE));
}

/* Until the agent has carried out what may forbid it, only the agent can say whether a file may be opened. */
static void behind_a_mode(void **state)
{
	const struct vm_file changes[] = {
		{.op = VM_RENAME, .node = 1, .name = "a", .newparent = 2, .newname = "b"},
		{.op = VM_UNLINK, .node = 1, .name = "a"},
		{.op = VM_SETATTR, .node = NODE, .valid = PROTO_SET_MODE, .mode = 0},
	};
	static const enum proto_type types[] = {PROTO_F_RENAME, PROTO_F_UNLINK, PROTO_F_SETATTR};

	(void)state;
	know_file(OLD + 1000000000000);
	for (unsigned i = 0; i < ARRAY_SIZE(changes); i++) {
		struct answer a, b = {0};
		struct fake_frame *f;

		release(open_early());
		assert_int_equal(ask(&changes[i], &a), 0);
		assert_int_equal(sandbox_file(s, &open_it, on_answer_now, &b), 0);
		assert_false(b.there);
		f = fake_expect(types[i]);
		assert_non_null(f);
		answer(f->h.id, EPERM, NULL, 0);
		fake_free(f);
		until(&a);
		open_now(EACCES);
		until(&b);
		assert_int_equal(b.err, -EACCES);
	}
}

/* A lock needs the open file. Its end is not told before it was asked for. */
static void locks(void **state)
{
	struct vm_file lock = {.op = VM_LOCK,
			       .node = NODE,
			       .lock = {.token = 3, .type = PROTO_LOCK_SHARED, .wait = true}};
	const struct vm_file cancel = {.op = VM_CANCEL_LOCK, .lock = {.token = 3}};
	struct answer a;

	(void)state;
	know_file(OLD + 1000000000000);
	lock.handle = open_early();
	assert_int_equal(ask(&lock, &a), 0);
	assert_int_equal(sandbox_file(s, &cancel, NULL, NULL), 0);
	fake_settle();
	assert_false(fake_got(PROTO_F_CANCEL_LOCK));
	open_now(0);
	assert_int_equal(next_handle(PROTO_F_LOCK, EINTR), LATER);
	assert_int_equal(next_handle(PROTO_F_CANCEL_LOCK, 0), 3);
	until(&a);
	assert_int_equal(a.err, -EINTR);
	release(lock.handle);
	assert_int_equal(next_handle(PROTO_F_RELEASE, 0), LATER);
}

/* Written to meanwhile, by another handle: it is read from the agent. */
static void changed(void **state)
{
	const struct vm_file write = {
		.op = VM_WRITE, .node = NODE, .handle = HANDLE, .data = "J", .size = 1};
	struct vm_file read = {.op = VM_READ, .node = NODE, .size = 4};
	struct fake_frame *f;
	struct answer a;

	(void)state;
	know_file(OLD + 1000000000000);
	read.handle = open_early();
	assert_int_equal(ask(&write, &a), 0);
	f = fake_expect(PROTO_F_WRITE);
	answer(f->h.id, 0, "\1\0\0\0", 4);
	fake_free(f);
	until(&a);
	assert_int_equal(ask(&read, &a), 0);
	open_now(0);
	assert_int_equal(next_handle(PROTO_F_READ, EIO), LATER);
	until(&a);
	release(read.handle);
	assert_int_equal(next_handle(PROTO_F_RELEASE, 0), LATER);
}

/* The agent goes while something waits. */
static void gone(void **state)
{
	struct vm_file sync = {.op = VM_FSYNC, .node = NODE};
	struct answer a;

	(void)state;
	know_file(OLD + 1000000000000);
	sync.handle = open_early();
	(void)open_early();
	assert_int_equal(ask(&sync, &a), 0);
	fake_free(fake_expect(PROTO_F_OPEN));
	fake_hang_up();
	fake_down(PROBLEM_QEMU_EXITED, "for a test");
	until(&a);
	assert_true(a.err < 0);
}

static void on_nothing(void *data, int err, const struct vm_file_reply *reply)
{
	(void)data;
	(void)err;
	(void)reply;
}

/* However much is on its way, what is held is opened before a run. */
static void many(void **state)
{
	const struct sandbox_run run = {.id = 1, .code = ":", .code_len = 1};
	const struct vm_file sync = {.op = VM_FSYNC, .handle = HANDLE};
	struct fake_frame *f;

	(void)state;
	know_file(OLD + 1000000000000);
	for (unsigned i = 0; i < EARLY_OPEN_MAX; i++)
		open_early();
	for (unsigned i = 0; i < 2 * PROTO_FILES_INFLIGHT; i++)
		assert_int_equal(sandbox_file(s, &sync, on_nothing, NULL), 0);
	fake_settle();
	assert_int_equal(sandbox_run(s, &run), 0);
	for (unsigned i = 0; i < EARLY_OPEN_MAX; i++)
		open_now(0);
	f = fake_expect(PROTO_RUN);
	assert_non_null(f);
	fake_free(f);
	fake_settle();
	assert_false(fake_got(PROTO_F_OPEN));
	/* Their slots are of use for the others. */
	assert_true(fake_got(PROTO_F_FSYNC));
}

/* The agent may drop a node that is not open, and that it does not hear of. */
static void held_for_long(void **state)
{
	const struct vm_file sync = {.op = VM_FSYNC, .handle = HANDLE};
	uint64_t handle;
	struct answer a;

	(void)state;
	know_file(OLD + 1000000000000);
	handle = open_early();
	for (unsigned i = 1; i <= EARLY_REQUESTS_MAX; i++) {
		assert_int_equal(ask(&sync, &a), 0);
		if (i == EARLY_REQUESTS_MAX)
			open_now(0);
		assert_int_equal(next_handle(PROTO_F_FSYNC, 0), HANDLE);
		until(&a);
	}
	check_read(handle);
	release(handle);
	assert_int_equal(next_handle(PROTO_F_RELEASE, 0), LATER);
}

/* More are open than an agent may allow: what is held is opened while there is room for it, and nothing is held until
 * some are closed. Those that could not be opened don't count. */
static void too_many(void **state)
{
	uint64_t handles[EARLY_OPEN_MAX];
	struct answer a = {0}, b = {0};

	(void)state;
	know_file(OLD + 1000000000000);
	for (unsigned i = 0; i < EARLY_OPEN_MAX; i++)
		handles[i] = open_early();
	assert_false(fake_got(PROTO_F_OPEN));
	assert_int_equal(sandbox_file(s, &open_it, on_answer_now, &a), 0);
	for (unsigned i = 0; i < EARLY_OPEN_MAX; i++)
		open_now(0);
	assert_false(a.there);
	open_now(ENFILE);
	until(&a);
	assert_int_equal(a.err, -ENFILE);
	assert_int_equal(sandbox_file(s, &open_it, on_answer_now, &b), 0);
	open_now(0);
	until(&b);
	assert_int_equal(b.reply.handle, LATER);
	release(b.reply.handle);
	release(handles[0]);
	open_early();
}

/* The agent's numbers are never taken for those of this side. */
static void odd_handle(void **state)
{
	struct fake_frame *f;
	struct answer a;

	(void)state;
	lease();
	assert_int_equal(ask(&open_it, &a), 0);
	f = fake_expect(PROTO_F_OPEN);
	answer_handle(f->h.id, EARLY_HANDLE | 1);
	fake_free(f);
	until(&a);
	assert_int_equal(a.err, -EIO);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(f) \
	cmocka_unit_test_setup_teardown(f, guest_file_fixture_setup, guest_file_fixture_teardown)
		T(never_opened),  T(read_is_seen),  T(before_a_run), T(before_it_ends),
		T(before_a_mode), T(behind_a_mode), T(locks),	     T(changed),
		T(gone),	  T(held_for_long), T(odd_handle),   T(many),
		T(too_many),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
