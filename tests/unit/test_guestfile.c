/* SPDX-License-Identifier: Apache-2.0 */
/* File requests: how they are packed and split, and what is believed of their answers. */
/* modules: tests/unit/fake_agent.c vm */
/* libs: uv crypto jansson seccomp */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>
#include <cmocka.h>

#include "fake_agent.h"
#include "vm/log.h"

#define MIB (1u << 20)

static uv_loop_t loop;
static struct vm *vm;
static struct sandbox *s;
static bool ready, closed, vm_gone, in_call;
static struct vm_problem problem;

/* The answer to one request. */
struct answer {
	bool there;
	int err;
	struct vm_file_reply reply;
	char *data;
	char names[256];
};

static void on_state(void *data, enum sandbox_state state)
{
	(void)data;
	ready = state == SANDBOX_READY;
}

static void on_bytes(void *data, const void *bytes, size_t len)
{
	(void)data;
	(void)bytes;
	(void)len;
}

static void on_closed(void *data, const struct vm_problem *p)
{
	(void)data;
	closed = true;
	if (p)
		problem = *p;
}

static const struct sandbox_events events = {
	.state = on_state, .console = on_bytes, .closed = on_closed};

static bool is_true(void *data)
{
	return *(bool *)data;
}

static int setup(void **state)
{
	const struct vm_config cfg = {.cache_dir = "/nonexistent",
				      .runtime_dir = "/nonexistent",
				      .qemu = "qemu",
				      .agent = "agent",
				      .accel = "auto",
				      .max_vms = 4,
				      .admission_s = 5,
				      .boot_s = 5};
	const struct sandbox_spec spec = {
		.name = "a", .image = "raw", .language = "raw", .memory_mb = 192};

	(void)state;
	ready = closed = vm_gone = false;
	memset(&problem, 0, sizeof(problem));
	log_open(false, LOG_LEVEL_ERROR);
	uv_loop_init(&loop);
	fake_agent_init(&loop);
	assert_int_equal(vm_new_with(&backend_fake, &loop, NULL, &cfg, NULL, NULL, &vm), 0);
	assert_int_equal(sandbox_new(vm, &spec, &events, NULL, &s), 0);
	while (!fake_agent.started)
		uv_run(&loop, UV_RUN_ONCE);
	fake_boot();
	assert_true(fake_spin(is_true, &ready));
	return 0;
}

static void on_gone(void *data)
{
	*(bool *)data = true;
}

static int teardown(void **state)
{
	(void)state;
	vm_close(vm, on_gone, &vm_gone);
	assert_true(fake_spin(is_true, &vm_gone));
	assert_true(closed);
	fake_agent_fini();
	uv_run(&loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&loop), 0);
	return 0;
}

static void on_answer(void *data, int err, const struct vm_file_reply *reply)
{
	struct answer *a = data;

	assert_false(in_call);
	assert_false(a->there);
	a->there = true;
	a->err = err;
	assert_true(err <= 0);
	assert_int_equal(!reply, err != 0);
	if (!reply)
		return;
	a->reply = *reply;
	if (reply->data) {
		a->data = malloc(reply->size + 1);
		memcpy(a->data, reply->data, reply->size);
		a->data[reply->size] = '\0';
	}
	for (size_t i = 0; i < reply->nentries; i++) {
		const size_t len = strlen(a->names);

		snprintf(a->names + len, sizeof(a->names) - len, "%s,", reply->entries[i].name);
	}
}

static int ask(const struct vm_file *req, struct answer *a)
{
	int r;

	in_call = true;
	memset(a, 0, sizeof(*a));
	r = sandbox_file(s, req, on_answer, a);
	in_call = false;
	return r;
}

static void until(struct answer *a)
{
	assert_true(fake_spin(is_true, &a->there));
}

static void forget(struct answer *a)
{
	free(a->data);
	memset(a, 0, sizeof(*a));
}

/* Answers a request with a row of bytes. */
static void answer(uint32_t id, uint32_t err, const void *data, size_t len)
{
	uint8_t *bytes = malloc(len + 4);
	struct proto_out o = {bytes, 0, len + 4, false};

	put_u32(&o, err);
	put_bytes(&o, data, len);
	fake_send(PROTO_FILE_REPLY, 0, id, bytes, o.len);
	free(bytes);
}

static struct proto_in payload(const struct fake_frame *f)
{
	return (struct proto_in){f->payload, f->payload + f->h.length, false};
}

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

/* Eight pieces are on their way at once; they are answered from the last to the first. */
static void read_split(void **state)
{
	static char piece[PROTO_DATA_MAX];
	const struct vm_file req = {.op = VM_READ, .handle = 5, .size = MIB};
	struct fake_frame *f[8];
	struct answer a;

	(void)state;
	assert_int_equal(ask(&req, &a), 0);
	for (unsigned i = 0; i < 8; i++) {
		struct proto_in in;

		f[i] = fake_expect(PROTO_F_READ);
		assert_non_null(f[i]);
		in = payload(f[i]);
		get_u64(&in);
		assert_int_equal(get_u64(&in), i * PROTO_DATA_MAX);
		assert_int_equal(get_u32(&in), PROTO_DATA_MAX);
	}
	for (unsigned i = 8; i--;) {
		assert_false(a.there);
		memset(piece, 'a' + (int)i, sizeof(piece));
		answer(f[i]->h.id, 0, piece, sizeof(piece));
		fake_free(f[i]);
	}
	until(&a);
	assert_int_equal(a.reply.size, MIB);
	for (unsigned i = 0; i < 8; i++) {
		assert_int_equal(a.data[i * PROTO_DATA_MAX], 'a' + (int)i);
		assert_int_equal(a.data[(i + 1) * PROTO_DATA_MAX - 1], 'a' + (int)i);
	}
	forget(&a);
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
		for (unsigned j = 0; j < 3; j++) {
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
	lookup_error(NULL, 0x80000000u, -EIO);
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
	assert_string_equal(problem.code, "agent-protocol");
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
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
		T(packs),	   T(silent_ones),	T(refuses),	T(read_one),
		T(read_split),	   T(short_and_failed), T(write_split), T(window),
		T(attr_is_tamed),  T(odd_entries),	T(directory),	T(read_too_much),
		T(wrote_too_much), T(wrong_id),		T(cut_entry),	T(cut_directory),
		T(long_directory), T(all_answered),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
