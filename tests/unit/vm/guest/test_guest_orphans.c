/* SPDX-License-Identifier: Apache-2.0 */
/* Requests for files that are on their way when another daemon goes on with their sandbox. */
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
#include "vm/base/buf.h"
#include "vm/base/record.h"
#include "vm/guest/files_record.h"
#include "vm/guest/internal.h"

/* What was asked of a daemon that was replaced is answered at the end of the test, too: those are `lost`. */
static struct answer lost[300];

/* ---- the agent's side ---- */

/* The next frame of this type, of which there is no other. Return: its id. */
static uint32_t only(enum proto_type type)
{
	struct fake_frame *f = fake_expect(type);
	uint32_t id;

	assert_non_null(f);
	id = f->h.id;
	fake_free(f);
	fake_settle();
	assert_false(fake_got(type));
	return id;
}

static void answer_entry(uint32_t id, uint64_t node, uint32_t mode, uint64_t handle)
{
	const struct proto_attr attr = {.ino = node, .mode = mode, .nlink = 1};
	uint8_t bytes[256];
	struct proto_out o = {bytes, 0, sizeof(bytes), false};

	put_u64(&o, node);
	proto_attr_pack(&o, &attr);
	if (handle)
		put_u64(&o, handle);
	answer(id, 0, bytes, o.len);
}

static void answer_u32(uint32_t id, uint32_t v)
{
	uint8_t bytes[4];
	struct proto_out o = {bytes, 0, sizeof(bytes), false};

	put_u32(&o, v);
	answer(id, 0, bytes, o.len);
}

static void send_locked(uint64_t token, uint32_t err)
{
	uint8_t bytes[12];
	struct proto_out o = {bytes, 0, sizeof(bytes), false};

	put_u64(&o, token);
	put_u32(&o, err);
	fake_send(PROTO_LOCKED, 0, 0, bytes, o.len);
}

static bool is_asked(const struct vm_file *req)
{
	uint64_t token = 0;
	const bool yes = sandbox_file_asked(s, req, &token);

	assert_true(!yes || token == req->lock.token);
	return yes;
}

/* The daemon is replaced, and @req made again. */
static void go_on(const struct vm_file *req, struct answer *a)
{
	replace();
	assert_true(is_asked(req));
	assert_int_equal(ask(req, a), 0);
	assert_false(is_asked(req));
	vm_replayed(vm);
}

/* ---- tests ---- */

/* Whenever the agent answers, it is asked once. */
static void asked_once(void **state)
{
	const struct vm_file req = {
		.op = VM_MKDIR, .claim = 8, .node = 1, .name = "n", .mode = 0755};
	struct answer a;
	uint32_t id;

	(void)state;
	/* The answer is in the socket when the next one begins. */
	assert_int_equal(ask(&req, &lost[0]), 0);
	id = only(PROTO_F_MKDIR);
	answer_entry(id, 7, S_IFDIR | 0755, 0);
	go_on(&req, &a);
	until(&a);
	assert_int_equal(a.err, 0);
	assert_int_equal(a.reply.node, 7);
	assert_false(fake_got(PROTO_F_MKDIR));
	/* It comes later; and the one after the next gets it. */
	assert_int_equal(ask(&req, &lost[1]), 0);
	id = only(PROTO_F_MKDIR);
	go_on(&req, &lost[2]);
	go_on(&req, &a);
	fake_settle();
	assert_false(a.there);
	answer(id, EEXIST, NULL, 0);
	until(&a);
	assert_int_equal(a.err, -EEXIST);
	/* The agent has not read the question yet. */
	assert_int_equal(ask(&req, &lost[3]), 0);
	go_on(&req, &a);
	id = only(PROTO_F_MKDIR);
	answer_entry(id, 9, S_IFDIR | 0755, 0);
	until(&a);
	assert_int_equal(a.reply.node, 9);
	assert_false(fake_got(PROTO_F_FORGET));
}

/* Each gets its own answer, in whatever order they are asked for again, and answered. */
static void out_of_order(void **state)
{
	static const enum vm_file_op op[] = {VM_UNLINK, VM_RMDIR, VM_UNLINK, VM_RMDIR};
	struct vm_file req[4];
	struct answer a[4];
	uint32_t id[4];

	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		struct fake_frame *f;

		req[i] = (struct vm_file){.op = op[i], .claim = 2 + i, .node = 1, .name = "x"};
		assert_int_equal(ask(&req[i], &lost[i]), 0);
		f = fake_expect(op[i] == VM_UNLINK ? PROTO_F_UNLINK : PROTO_F_RMDIR);
		id[i] = f->h.id;
		fake_free(f);
	}
	replace();
	for (unsigned i = 4; i-- > 0;)
		assert_int_equal(ask(&req[i], &a[i]), 0);
	vm_replayed(vm);
	answer(id[2], 0, NULL, 0);
	answer(id[0], ENOENT, NULL, 0);
	answer(id[3], ENOTEMPTY, NULL, 0);
	answer(id[1], EACCES, NULL, 0);
	for (unsigned i = 0; i < 4; i++)
		until(&a[i]);
	assert_int_equal(a[0].err, -ENOENT);
	assert_int_equal(a[1].err, -EACCES);
	assert_int_equal(a[2].err, 0);
	assert_int_equal(a[3].err, -ENOTEMPTY);
}

/* Has the frame these bytes, from @offset on? */
static void expect_piece(struct fake_frame *f, uint64_t offset, const uint8_t *data)
{
	struct proto_in in = payload(f);
	struct proto_str bytes;

	assert_int_equal(get_u64(&in), 5);
	assert_int_equal(get_u64(&in), offset);
	bytes = get_rest(&in);
	assert_int_equal(bytes.len, PROTO_DATA_MAX);
	assert_memory_equal(bytes.data, data + offset, bytes.len);
}

/* The rest of a write, which is answered. */
static void answer_last(unsigned from, unsigned n, const uint8_t *data)
{
	for (unsigned i = from; i < n; i++) {
		struct fake_frame *f = fake_expect(PROTO_F_WRITE);

		expect_piece(f, i * PROTO_DATA_MAX, data);
		answer_u32(f->h.id, i == n - 1 ? 100 : PROTO_DATA_MAX);
		fake_free(f);
	}
}

/* A write of which some pieces were answered, some are on their way, and others wait; and what waits behind them. */
static void write_in_pieces(void **state)
{
	static uint8_t data[MIB];
	const struct vm_file fill = {.op = VM_FSYNC, .handle = 9};
	const struct vm_file req = {
		.op = VM_WRITE, .claim = 4, .handle = 5, .data = data, .size = sizeof(data)};
	const struct vm_file behind = {.op = VM_UNLINK, .claim = 6, .node = 1, .name = "b"};
	const struct vm_file release = {.op = VM_RELEASE, .handle = 9};
	const unsigned nfill = PROTO_FILES_INFLIGHT - 5;
	static uint32_t fills[PROTO_FILES_INFLIGHT];
	struct fake_frame *f[5], *g;
	struct answer a, b;

	(void)state;
	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)(i * 7 >> 2);
	for (unsigned i = 0; i < nfill; i++)
		assert_int_equal(ask(&fill, &lost[i]), 0);
	assert_int_equal(ask(&req, &lost[nfill]), 0);
	assert_int_equal(ask(&behind, &lost[nfill + 1]), 0);
	assert_int_equal(sandbox_file(s, &release, NULL, NULL), 0);
	for (unsigned i = 0; i < nfill; i++) {
		g = fake_expect(PROTO_F_FSYNC);
		fills[i] = g->h.id;
		fake_free(g);
	}
	for (unsigned i = 0; i < 5; i++) {
		f[i] = fake_expect(PROTO_F_WRITE);
		expect_piece(f[i], i * PROTO_DATA_MAX, data);
	}
	fake_settle();
	assert_false(fake_got(PROTO_F_WRITE));
	/* The second is answered, so that one more is sent. */
	answer_u32(f[1]->h.id, PROTO_DATA_MAX);
	fake_free(f[1]);
	f[1] = fake_expect(PROTO_F_WRITE);
	expect_piece(f[1], 5 * PROTO_DATA_MAX, data);
	replace();
	/* What is behind it is asked for first; that keeps its place. */
	assert_int_equal(ask(&behind, &b), 0);
	assert_int_equal(ask(&req, &a), 0);
	vm_replayed(vm);
	fake_settle();
	assert_false(fake_got(PROTO_F_WRITE));
	assert_false(fake_got(PROTO_F_RELEASE));
	for (unsigned i = 0; i < 5; i++) {
		answer_u32(f[i]->h.id, PROTO_DATA_MAX);
		fake_free(f[i]);
	}
	answer_last(6, 8, data);
	until(&a);
	assert_int_equal(a.err, 0);
	assert_int_equal(a.reply.size, 7 * PROTO_DATA_MAX + 100);
	answer(only(PROTO_F_UNLINK), 0, NULL, 0);
	until(&b);
	assert_int_equal(b.err, 0);
	(void)only(PROTO_F_RELEASE);
	/* The answers that nobody wants. */
	for (unsigned i = 0; i < nfill; i++)
		answer(fills[i], i % 2 ? EIO : 0, NULL, 0);
	fake_settle();
	assert_false(closed);
}

/* A piece that was answered with an error before counts. */
static void failed_piece(void **state)
{
	static uint8_t data[3 * PROTO_DATA_MAX];
	const struct vm_file req = {
		.op = VM_WRITE, .claim = 4, .handle = 5, .data = data, .size = sizeof(data)};
	struct fake_frame *f[3];
	struct answer a;

	(void)state;
	assert_int_equal(ask(&req, &lost[0]), 0);
	for (unsigned i = 0; i < 3; i++)
		f[i] = fake_expect(PROTO_F_WRITE);
	answer(f[0]->h.id, ENOSPC, NULL, 0);
	fake_settle();
	go_on(&req, &a);
	answer_u32(f[2]->h.id, 0);
	answer_u32(f[1]->h.id, 0);
	until(&a);
	assert_int_equal(a.err, -ENOSPC);
	for (unsigned i = 0; i < 3; i++)
		fake_free(f[i]);
}

/* A read is made again in another slot; what comes of the first one is dropped, however late. */
static void reads(void **state)
{
	static uint8_t data[PROTO_DATA_MAX];
	const struct vm_file req = {.op = VM_READ, .claim = 4, .handle = 5, .size = MIB};
	struct fake_frame *f, *again;
	struct answer a;

	(void)state;
	assert_int_equal(ask(&req, &lost[0]), 0);
	f = fake_expect(PROTO_F_READ);
	replace();
	assert_false(is_asked(&req));
	assert_int_equal(ask(&req, &a), 0);
	vm_replayed(vm);
	again = fake_expect(PROTO_F_READ);
	assert_int_not_equal(again->h.id, f->h.id);
	answer(again->h.id, 0, "new", 3);
	until(&a);
	assert_string_equal(a.data, "new");
	forget(&a);
	/* Full: the others of it were never sent, and are not now. */
	answer(f->h.id, 0, data, sizeof(data));
	fake_settle();
	assert_false(fake_got(PROTO_F_READ));
	assert_false(closed);
	fake_free(f);
	fake_free(again);
}

/* What nobody wants any more is given back. */
static void undone(void **state)
{
	const struct vm_file create = {
		.op = VM_CREATE, .claim = 2, .node = 1, .name = "c", .flags = O_RDWR};
	const struct vm_file look = {.op = VM_LOOKUP, .claim = 4, .node = 1, .name = "l"};
	const struct vm_file dir = {.op = VM_OPENDIR, .claim = 6, .node = 1};
	const struct vm_file lock = {.op = VM_LOCK,
				     .claim = 8,
				     .handle = 5,
				     .lock = {.owner = 1, .token = 77, .end = 9, .wait = true}};
	struct fake_frame *f;
	uint32_t ids[4];
	struct proto_in in;
	uint8_t handle[8];
	struct proto_out o = {handle, 0, sizeof(handle), false};

	(void)state;
	assert_int_equal(ask(&create, &lost[0]), 0);
	assert_int_equal(ask(&look, &lost[1]), 0);
	assert_int_equal(ask(&dir, &lost[2]), 0);
	assert_int_equal(ask(&lock, &lost[3]), 0);
	ids[0] = only(PROTO_F_CREATE);
	ids[1] = only(PROTO_F_LOOKUP);
	ids[2] = only(PROTO_F_OPENDIR);
	ids[3] = only(PROTO_F_LOCK);
	replace();
	vm_replayed(vm);
	f = fake_expect(PROTO_F_CANCEL_LOCK);
	in = payload(f);
	assert_int_equal(get_u64(&in), 77);
	assert_int_equal(get_u32(&in), 1);
	fake_free(f);
	answer_entry(ids[0], 20, S_IFREG | 0644, 30);
	f = fake_expect(PROTO_F_RELEASE);
	in = payload(f);
	assert_int_equal(get_u64(&in), 30);
	fake_free(f);
	f = fake_expect(PROTO_F_FORGET);
	in = payload(f);
	assert_int_equal(get_u64(&in), 20);
	assert_int_equal(get_u64(&in), 1);
	fake_free(f);
	answer_entry(ids[1], 21, S_IFREG | 0644, 0);
	f = fake_expect(PROTO_F_FORGET);
	in = payload(f);
	assert_int_equal(get_u64(&in), 21);
	fake_free(f);
	put_u64(&o, 31);
	answer(ids[2], 0, handle, o.len);
	(void)only(PROTO_F_RELEASE);
	answer_u32(ids[3], 1); /* it waits */
	send_locked(77, EINTR);
	fake_settle();
	assert_false(closed);
	assert_false(fake_got(PROTO_F_FORGET));
	/* The end of a lock comes once. */
	send_locked(77, EINTR);
	assert_true(fake_spin(is_true, &closed));
	assert_int_equal(problem.code, PROBLEM_AGENT_PROTOCOL);
}

/* What waits to be sent, and is not wanted any more, is not sent; what is behind it is. */
static void not_sent(void **state)
{
	const struct vm_file fill = {.op = VM_FSYNC, .claim = 100, .handle = 9};
	const struct vm_file req = {.op = VM_UNLINK, .claim = 4, .node = 1, .name = "a"};
	const struct vm_file forget_it = {.op = VM_FORGET, .node = 7, .lookups = 2};
	static uint32_t fills[PROTO_FILES_INFLIGHT];
	struct vm_file other = fill;
	struct fake_frame *f;
	struct proto_in in;
	struct answer a;

	(void)state;
	for (unsigned i = 0; i < PROTO_FILES_INFLIGHT; i++) {
		assert_int_equal(ask(&fill, &lost[i]), 0);
		f = fake_expect(PROTO_F_FSYNC);
		fills[i] = f->h.id;
		fake_free(f);
	}
	assert_int_equal(ask(&req, &lost[PROTO_FILES_INFLIGHT]), 0);
	assert_int_equal(sandbox_file(s, &forget_it, NULL, NULL), 0);
	replace();
	other.claim = 102;
	assert_int_equal(ask(&other, &a), 0);
	fake_settle();
	assert_false(fake_got(PROTO_F_FORGET));
	vm_replayed(vm);
	f = fake_expect(PROTO_F_FORGET);
	in = payload(f);
	assert_int_equal(get_u64(&in), 7);
	assert_int_equal(get_u64(&in), 2);
	fake_free(f);
	for (unsigned i = 0; i < PROTO_FILES_INFLIGHT; i++)
		answer(fills[i], 0, NULL, 0);
	answer(only(PROTO_F_FSYNC), 0, NULL, 0);
	until(&a);
	assert_false(fake_got(PROTO_F_UNLINK));
}

static struct vm_file lock_of(uint64_t claim, uint64_t token)
{
	return (struct vm_file){.op = VM_LOCK,
				.claim = claim,
				.handle = 5,
				.lock = {.owner = 1, .token = token, .end = 9, .wait = true}};
}

/* A lock is waited for on and on, and is granted to the one who lives then. */
static void locks(void **state)
{
	struct vm_file req = lock_of(4, 11);
	struct answer a;
	uint64_t token = 0;
	uint32_t id;

	(void)state;
	assert_int_equal(ask(&req, &lost[0]), 0);
	id = only(PROTO_F_LOCK);
	go_on(&req, &lost[1]);
	answer_u32(id, 1);
	fake_settle();
	assert_false(lost[1].there);
	replace();
	req.lock.token = 12; /* which the next daemon would give it */
	assert_true(sandbox_file_asked(s, &req, &token));
	assert_int_equal(token, 11);
	req.lock.token = token;
	assert_int_equal(ask(&req, &a), 0);
	vm_replayed(vm);
	fake_settle();
	assert_false(fake_got(PROTO_F_LOCK));
	assert_false(fake_got(PROTO_F_CANCEL_LOCK));
	assert_false(a.there);
	send_locked(11, 0);
	until(&a);
	assert_int_equal(a.err, 0);
}

/* A file that is being opened because code is about to run: who reads from it, waits for that in both. */
static void early_handles(void **state)
{
	const struct vm_file look = {.op = VM_LOOKUP, .node = 1, .name = "f"};
	const struct vm_file open_it = {.op = VM_OPEN, .node = 7, .flags = O_RDONLY};
	const struct proto_attr attr = {.ino = 7, .mode = S_IFREG | 0644, .nlink = 1, .size = 5};
	struct vm_file rq = {.op = VM_FSYNC, .claim = 6};
	uint8_t bytes[64];
	struct proto_out o = {bytes, 0, sizeof(bytes), false};
	struct answer a, b;
	uint32_t id;

	(void)state;
	lease();
	assert_int_equal(sandbox_file(s, &look, on_answer_now, &a), 0);
	answer_entry(only(PROTO_F_LOOKUP), 7, S_IFREG | 0644, 0);
	fake_settle();
	/* Its content comes along with the first handle. */
	assert_int_equal(sandbox_file(s, &open_it, on_answer_now, &a), 0);
	put_u64(&o, 40);
	put_bytes(&o, "hello", 5);
	id = only(PROTO_F_OPEN);
	answer(id, 0, bytes, 8);
	fake_send(PROTO_CONTENT, 0, 0, bytes, o.len);
	send_noted(7, &attr);
	fake_settle();
	assert_int_equal(sandbox_file(s, &open_it, on_answer_now, &a), 0);
	assert_true(a.reply.handle & EARLY_HANDLE);
	rq.handle = a.reply.handle;
	assert_int_equal(ask(&rq, &lost[0]), 0);
	id = only(PROTO_F_OPEN);
	replace();
	assert_false(is_asked(&rq));
	assert_int_equal(ask(&rq, &b), 0);
	vm_replayed(vm);
	fake_settle();
	assert_false(fake_got(PROTO_F_OPEN));
	assert_false(fake_got(PROTO_F_FSYNC));
	o.len = 0;
	put_u64(&o, 41);
	answer(id, 0, bytes, o.len);
	answer(only(PROTO_F_FSYNC), 0, NULL, 0);
	until(&b);
	assert_int_equal(b.err, 0);
}

/* A lease that is younger than a request knows nothing that the request has changed. */
static void learns_nothing_false(void **state)
{
	const struct vm_file look = {.op = VM_LOOKUP, .node = 1, .name = "n"};
	const struct vm_file req = {
		.op = VM_MKDIR, .claim = 8, .node = 1, .name = "n", .mode = 0755};
	struct answer a;
	uint32_t id;

	(void)state;
	assert_int_equal(ask(&req, &lost[0]), 0);
	id = only(PROTO_F_MKDIR);
	replace();
	vm_replayed(vm);
	lease();
	assert_int_equal(sandbox_file(s, &look, on_answer_now, &a), 0);
	answer(only(PROTO_F_LOOKUP), ENOENT, NULL, 0);
	fake_settle();
	assert_int_equal(sandbox_file(s, &look, on_answer_now, &a), 0);
	assert_false(fake_got(PROTO_F_LOOKUP)); /* it is known */
	answer_entry(id, 7, S_IFDIR | 0755, 0);
	fake_settle();
	a.there = false;
	assert_int_equal(sandbox_file(s, &look, on_answer_now, &a), 0);
	answer_entry(only(PROTO_F_LOOKUP), 7, S_IFDIR | 0755, 0);
	until(&a);
	assert_int_equal(a.reply.node, 7);
}

/* ---- what makes no sense ---- */

/* Slots that are nobody's take what an agent may say, and nothing else. */
static void hostile_answers(void **state)
{
	static uint8_t data[PROTO_DATA_MAX + 1];
	const struct vm_file req = {.op = VM_READ, .claim = 4, .handle = 5, .size = 10};
	struct fake_frame *f;

	(void)state;
	assert_int_equal(ask(&req, &lost[0]), 0);
	f = fake_expect(PROTO_F_READ);
	replace();
	vm_replayed(vm);
	answer(f->h.id, 0, data, 11); /* more than was asked for */
	assert_true(fake_spin(is_true, &closed));
	assert_int_equal(problem.code, PROBLEM_AGENT_PROTOCOL);
	fake_free(f);
}

static void hostile_twice(void **state)
{
	const struct vm_file req = {.op = VM_UNLINK, .claim = 4, .node = 1, .name = "a"};
	uint32_t id;

	(void)state;
	assert_int_equal(ask(&req, &lost[0]), 0);
	id = only(PROTO_F_UNLINK);
	replace();
	vm_replayed(vm);
	answer(id, 0, NULL, 0);
	fake_settle();
	assert_false(closed);
	answer(id, 0, NULL, 0);
	assert_true(fake_spin(is_true, &closed));
	assert_int_equal(problem.code, PROBLEM_AGENT_PROTOCOL);
}

/* Reads fields into files of their own. Return: what guest_files_take() does; what was taken is taken down. */
static int take(const struct buf *fields, struct buf *ret_again)
{
	struct guest_files gf = {0};
	struct channel ch = {0};
	int r;

	guest_file_init(&gf, &ch);
	r = guest_files_take(&gf, record_reader(fields->data, fields->len), NULL);
	if (r == 0 && ret_again)
		guest_files_put(&gf, ret_again, NULL, 0);
	guest_file_fail(&gf, -ESTALE);
	return r;
}

/* All kinds of calls: written, read and written again they are the same; and with any byte changed, or cut off anywhere,
 * nothing worse happens than that they are refused. */
static void records(void **state)
{
	static uint8_t data[MIB];
	const struct vm_file reqs[] = {
		{.op = VM_WRITE, .claim = 4, .handle = 5, .data = data, .size = sizeof(data)},
		{.op = VM_READ, .claim = 6, .handle = 5, .size = MIB},
		lock_of(8, 11),
		{.op = VM_RENAME,
		 .claim = 10,
		 .node = 1,
		 .newparent = 1,
		 .name = "a",
		 .newname = "b"},
		{.op = VM_READDIR, .claim = 12, .handle = 5, .size = MIB},
		{.op = VM_STATFS, .node = 1},
	};
	const struct vm_file fill = {
		.op = VM_WRITE, .claim = 2, .handle = 5, .data = "x", .size = 1};
	const struct vm_file release = {.op = VM_RELEASE, .handle = 9};
	struct buf fields = {0}, again = {0};
	unsigned n = 0, refused = 0;
	struct fake_frame *f;

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(reqs); i++)
		assert_int_equal(ask(&reqs[i], &lost[n++]), 0);
	f = fake_expect(PROTO_F_WRITE);
	answer_u32(f->h.id, 77);
	fake_free(f);
	answer_u32(only(PROTO_F_LOCK), 1);
	fake_settle();
	while (n < PROTO_FILES_INFLIGHT)
		assert_int_equal(ask(&fill, &lost[n++]), 0);
	assert_int_equal(ask(&reqs[0], &lost[n++]), 0);
	assert_int_equal(sandbox_file(s, &release, NULL, NULL), 0);
	guest_files_put(&s->guest->files, &fields, NULL, 0);
	assert_int_equal(take(&fields, &again), 0);
	assert_int_equal(again.len, fields.len);
	assert_memory_equal(again.data, fields.data, fields.len);
	for (size_t i = 0; i < fields.len; i += 1 + i / 500) {
		const char was = fields.data[i];
		const size_t len = fields.len;

		for (unsigned bit = 0; bit < 8; bit += 1 + (i & 3)) {
			fields.data[i] = (char)(was ^ 1 << bit);
			refused += take(&fields, NULL) < 0;
		}
		fields.data[i] = was;
		fields.len = i;
		refused += take(&fields, NULL) < 0;
		fields.len = len;
	}
	assert_true(refused > 100);
	buf_clear(&fields);
	buf_clear(&again);
}

#define T(f) \
	cmocka_unit_test_setup_teardown(f, guest_file_fixture_setup, guest_file_fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(asked_once),	    T(out_of_order),
		T(write_in_pieces), T(failed_piece),
		T(reads),	    T(undone),
		T(not_sent),	    T(locks),
		T(early_handles),   T(learns_nothing_false),
		T(hostile_answers), T(hostile_twice),
		T(records),
	};

	if (getenv("ONLY"))
		cmocka_set_test_filter(getenv("ONLY"));
	return cmocka_run_group_tests(tests, NULL, NULL);
}
