/* SPDX-License-Identifier: Apache-2.0 */
/* What is learned from answers during a lease: kept while it is true, and not longer. */
/* modules: vm/guest/known.c vm/guest/known_table.c vm/guest/file.c */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <cmocka.h>

#include "vm/base/util.h"
#include "vm/guest/known_internal.h"

#define ROOT 1u
#define MIB  (1u << 20)

static struct known k;

static int setup(void **state)
{
	(void)state;
	memset(&k, 0, sizeof(k));
	known_init(&k);
	known_begin(&k);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	known_fini(&k);
	assert_int_equal(k.n, 0);
	assert_int_equal(k.nowed, 0);
	assert_int_equal(k.bytes, 0);
	return 0;
}

static struct vm_file_reply reply_of(uint64_t node, uint32_t mode)
{
	return (struct vm_file_reply){
		.node = node,
		.attr = {.ino = node, .mode = mode, .nlink = 1, .atime = {.tv_sec = INT32_MAX}}};
}

static void learn(const struct known_question *q, uint64_t node, uint32_t mode)
{
	const struct vm_file_reply reply = reply_of(node, mode);

	known_learn(&k, q, 0, &reply);
}

static void learn_error(const struct known_question *q, int err)
{
	known_learn(&k, q, err, NULL);
}

static void look(uint64_t dir, const char *name, uint64_t node)
{
	const struct known_question q = {.op = VM_LOOKUP, .node = dir, .name = name};

	learn(&q, node, S_IFREG | 0644);
}

static void make_dir(uint64_t dir, const char *name, uint64_t node)
{
	const struct known_question q = {.op = VM_MKDIR, .node = dir, .name = name};

	learn(&q, node, S_IFDIR | 0755);
}

/* Return: the node of a name, 0 if it is known that there is none, -1 if it is not known. */
static int64_t at(uint64_t dir, const char *name)
{
	const struct vm_file req = {.op = VM_LOOKUP, .node = dir, .name = name};
	struct vm_file_reply reply;
	int err;

	if (!known_answer(&k, &req, &err, &reply))
		return -1;
	assert_true(err == 0 || err == -ENOENT);
	if (err == 0)
		assert_int_equal(known_forget(&k, reply.node, 1), 0);
	return err ? 0 : (int64_t)reply.node;
}

static bool attr(uint64_t node)
{
	const struct vm_file req = {.op = VM_GETATTR, .node = node};
	struct vm_file_reply reply;
	int err;

	return known_answer(&k, &req, &err, &reply);
}

/* Attributes of @node are known from now on. */
static void know(uint64_t node)
{
	const struct known_question q = {.op = VM_GETATTR, .node = node};

	learn(&q, node, S_IFREG | 0644);
	assert_true(attr(node));
}

static void names(void **state)
{
	const struct known_question none = {.op = VM_LOOKUP, .node = ROOT, .name = "none"};

	(void)state;
	assert_int_equal(at(ROOT, "a"), -1);
	look(ROOT, "a", 2);
	assert_int_equal(at(ROOT, "a"), 2);
	assert_int_equal(at(2, "a"), -1);
	learn_error(&none, -ENOENT);
	assert_int_equal(at(ROOT, "none"), 0);
	known_end(&k);
	assert_int_equal(at(ROOT, "a"), -1);
	assert_int_equal(at(ROOT, "none"), -1);
	known_begin(&k);
	assert_int_equal(at(ROOT, "a"), -1);
}

/* Any other error says nothing about a name. */
static void errors(void **state)
{
	const struct known_question q = {.op = VM_LOOKUP, .node = ROOT, .name = "a"};

	(void)state;
	learn_error(&q, -EACCES);
	assert_int_equal(at(ROOT, "a"), -1);
	look(ROOT, "a", 2);
	learn_error(&q, -EIO);
	assert_int_equal(at(ROOT, "a"), 2);
}

/* All names of a directory that was made are known, for as long as it can be searched. */
/* The agent has dropped a node: what it is called now, only the agent says. */
static void stale(void **state)
{
	const struct known_question q = {.op = VM_OPEN, .node = 2};

	(void)state;
	look(ROOT, "a", 2);
	look(ROOT, "b", 3);
	learn_error(&q, -ESTALE);
	assert_int_equal(at(ROOT, "a"), -1);
	assert_int_equal(at(ROOT, "b"), -1);
	assert_false(attr(2));
	look(ROOT, "a", 4);
	assert_int_equal(at(ROOT, "a"), 4);
}

static void complete(void **state)
{
	const struct known_question closed = {.op = VM_MKDIR, .node = ROOT, .name = "closed"};
	const struct known_question chmod = {.op = VM_SETATTR, .node = 2, .valid = PROTO_SET_MODE};
	const struct known_question failed = {.op = VM_CREATE, .node = 2, .name = "b"};
	const struct known_question taken = {.op = VM_CREATE, .node = 2, .name = "c"};

	(void)state;
	make_dir(ROOT, "dir", 2);
	assert_int_equal(at(2, "a"), 0);
	look(2, "a", 3);
	assert_int_equal(at(2, "a"), 3);
	learn_error(&taken, -EEXIST);
	assert_int_equal(at(2, "x"), 0);
	learn_error(&failed, -ENOSPC); /* it may be there */
	assert_int_equal(at(2, "b"), -1);
	assert_int_equal(at(2, "x"), -1);
	learn(&closed, 4, S_IFDIR | 0600);
	assert_int_equal(at(4, "a"), -1);
	make_dir(ROOT, "dir", 2);
	assert_int_equal(at(2, "x"), 0);
	learn(&chmod, 2, S_IFDIR | 0700);
	assert_int_equal(at(2, "x"), 0);
	learn(&chmod, 2, S_IFDIR | 0600);
	assert_int_equal(at(2, "x"), -1);
	assert_int_equal(at(2, "a"), -1);
}

/* A name that is removed, and what it stood for, which may have others. */
static void removed(void **state)
{
	const struct known_question a = {.op = VM_UNLINK, .node = ROOT, .name = "a"};
	const struct known_question strange = {.op = VM_UNLINK, .node = ROOT, .name = "strange"};
	const struct known_question failed = {.op = VM_RMDIR, .node = ROOT, .name = "b"};

	(void)state;
	look(ROOT, "a", 2);
	look(ROOT, "b", 3);
	know(ROOT);
	learn_error(&failed, -ENOTEMPTY);
	assert_int_equal(at(ROOT, "b"), 3);
	assert_true(attr(ROOT));
	learn(&a, 0, 0);
	assert_int_equal(at(ROOT, "a"), 0);
	assert_false(attr(2));
	assert_false(attr(ROOT));
	assert_true(attr(3));
	/* Who knows what that was: it could be another name of "b". */
	learn(&strange, 0, 0);
	assert_false(attr(3));
	assert_int_equal(at(ROOT, "strange"), 0);
}

static void renamed(void **state)
{
	struct known_question q = {
		.op = VM_RENAME, .node = 10, .newparent = 11, .name = "a", .newname = "b"};

	(void)state;
	make_dir(ROOT, "from", 10);
	make_dir(ROOT, "to", 11);
	look(10, "a", 2);
	look(11, "b", 3);
	learn(&q, 0, 0);
	know(2);
	assert_int_equal(at(10, "a"), 0);
	assert_int_equal(at(11, "b"), 2);
	assert_false(attr(3));
	assert_false(attr(10));
	assert_false(attr(11));
	look(10, "a", 4);
	q.flags = RENAME_EXCHANGE;
	learn(&q, 0, 0);
	assert_false(attr(2));
	assert_false(attr(4));
	know(2);
	know(4);
	assert_int_equal(at(10, "a"), 2);
	assert_int_equal(at(11, "b"), 4);
	/* Two names of one file stay. */
	q.flags = 0;
	look(11, "b", 2);
	learn(&q, 0, 0);
	know(2);
	assert_int_equal(at(10, "a"), 2);
	assert_int_equal(at(11, "b"), 2);
}

/* What was there is not known: it may have been the same file. */
static void renamed_over(void **state)
{
	const struct known_question q = {
		.op = VM_RENAME, .node = ROOT, .newparent = ROOT, .name = "a", .newname = "b"};

	(void)state;
	look(ROOT, "a", 2);
	learn(&q, 0, 0);
	assert_int_equal(at(ROOT, "a"), -1);
	assert_int_equal(at(ROOT, "b"), -1);
	assert_false(attr(2));
}

static void changed(void **state)
{
	static const struct known_question by[] = {
		{.op = VM_WRITE, .node = 2},
		{.op = VM_FALLOCATE, .node = 2},
		{.op = VM_OPEN, .node = 2, .flags = O_WRONLY | O_TRUNC},
		{.op = VM_LINK, .node = 2, .newparent = ROOT, .newname = "other"},
	};
	const struct known_question create = {.op = VM_CREATE, .node = ROOT, .name = "new"};
	const struct known_question open = {.op = VM_OPEN, .node = 2, .flags = O_RDONLY};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(by); i++) {
		know(2);
		learn_error(&by[i], -EIO);
		assert_false(attr(2));
	}
	know(2);
	know(ROOT);
	learn(&open, 0, 0);
	assert_true(attr(2));
	learn(&create, 3, S_IFREG | 0644);
	assert_false(attr(ROOT));
	assert_true(attr(3));
	assert_int_equal(at(ROOT, "new"), 3);
}

/* The kernel would set the time of the last access of what was changed since it was read. */
static void touched(void **state)
{
	const struct known_question q = {.op = VM_READ, .node = 2};
	struct vm_file_reply reply = reply_of(2, S_IFREG | 0644);

	(void)state;
	know(2);
	learn(&q, 0, 0);
	assert_true(attr(2));
	reply.attr.mtime = reply.attr.atime;
	known_attr(&k, 2, &reply.attr);
	learn(&q, 0, 0);
	assert_false(attr(2));
	reply.attr.mtime.tv_sec = 5;
	reply.attr.atime.tv_sec = 10; /* long ago */
	known_attr(&k, 2, &reply.attr);
	learn(&q, 0, 0);
	assert_false(attr(2));
}

/* The agent is told once of reads it has not heard of, until it says what has come of that. */
static void touched_here(void **state)
{
	struct vm_file_reply reply = reply_of(2, S_IFREG | 0644);

	(void)state;
	know(2);
	assert_false(known_was_read(&k, 2));
	assert_true(attr(2));
	reply.attr.mtime = reply.attr.atime;
	known_attr(&k, 2, &reply.attr);
	assert_true(known_was_read(&k, 2));
	assert_false(attr(2));
	assert_false(known_was_read(&k, 2));
	known_attr(&k, 2, &reply.attr); /* a file system that does not record it */
	assert_false(known_was_read(&k, 2));
	assert_true(attr(2));
	reply.attr.mtime.tv_sec++; /* it was written */
	known_attr(&k, 2, &reply.attr);
	assert_true(known_was_read(&k, 2));
	reply.attr.atime = reply.attr.mtime;
	reply.attr.atime.tv_sec++;
	known_attr(&k, 2, &reply.attr);
	assert_false(known_was_read(&k, 2));
	assert_true(attr(2));
	assert_false(known_was_read(&k, 99));
}

/* Return: bytes of @node that are known, or -1. */
static int64_t content(uint64_t node, const char **ret_bytes)
{
	const struct vm_file req = {.op = VM_READ, .node = node, .handle = 5, .size = MIB};
	struct vm_file_reply reply;
	int err;

	*ret_bytes = "";
	if (!known_answer(&k, &req, &err, &reply))
		return -1;
	*ret_bytes = reply.data;
	return (int64_t)reply.size;
}

static bool has_content(uint64_t node)
{
	const char *bytes;

	return content(node, &bytes) >= 0;
}

static void open_with_content(uint64_t node, uint64_t handle)
{
	const struct known_question q = {.op = VM_OPEN, .node = node, .flags = O_RDONLY};
	const struct vm_file_reply reply = {.handle = handle};

	known_learn(&k, &q, 0, &reply);
	known_content(&k, handle, "x", 1);
}

static void contents(void **state)
{
	static const struct known_question by[] = {
		{.op = VM_WRITE, .node = 2},
		{.op = VM_SETATTR, .node = 2, .valid = PROTO_SET_SIZE},
		{.op = VM_FALLOCATE, .node = 2},
		{.op = VM_OPEN, .node = 2, .flags = O_RDWR | O_TRUNC},
		{.op = VM_CREATE, .node = ROOT, .name = "a", .flags = O_WRONLY | O_TRUNC},
	};
	const struct known_question other = {.op = VM_WRITE, .node = 3};

	(void)state;
	known_content(&k, 5, "x", 1); /* of no handle that there is */
	assert_false(has_content(2));
	for (size_t i = 0; i < ARRAY_SIZE(by); i++) {
		open_with_content(2, 10 + i);
		learn(&other, 0, 0);
		assert_true(has_content(2));
		learn(&by[i], 2, S_IFREG | 0644);
		know(3);
		known_attr(&k, 2, &(struct vm_attr){.mode = S_IFREG, .size = 1});
		assert_false(has_content(2));
	}
	open_with_content(2, 20);
	known_release(&k, 20);
	assert_true(has_content(2));
	known_attr(&k, 2, &(struct vm_attr){.mode = S_IFREG | 0644, .size = 1});
	assert_true(has_content(2));
	known_attr(&k, 2, &(struct vm_attr){.mode = S_IFREG | 0644, .size = 2});
	assert_false(has_content(2));
	known_content(&k, 20, "x", 1); /* of one that is closed */
	assert_false(has_content(2));
	open_with_content(2, 21);
	known_end(&k);
	assert_false(has_content(2));
}

static void create(const char *name, uint64_t node, uint32_t mode)
{
	const struct known_question q = {
		.op = VM_CREATE, .node = ROOT, .name = name, .flags = O_WRONLY | O_TRUNC};

	learn(&q, node, S_IFREG | mode);
}

/* The host writes to @node, of which @done bytes are written. */
static void put(uint64_t node, uint64_t offset, const void *bytes, size_t size, size_t done)
{
	const struct vm_file req = {
		.op = VM_WRITE, .node = node, .offset = offset, .data = bytes, .size = size};
	const struct known_question q = {.op = VM_WRITE,
					 .node = node,
					 .offset = offset,
					 .size = size,
					 .data = known_wants(&k, &req) ? bytes : NULL};
	const struct vm_file_reply reply = {.size = done};

	known_learn(&k, &q, 0, &reply);
}

/* What the host itself has written to a file that it made. */
static void written(void **state)
{
	static const char zeros[PROTO_CONTENT_MAX];
	const char *bytes;

	(void)state;
	put(2, 0, "abc", 3, 3); /* of a file of which nothing is known */
	assert_false(has_content(2));
	create("a", 2, 0644);
	assert_int_equal(content(2, &bytes), 0);
	put(2, 0, "abc", 3, 3);
	put(2, 3, "de", 2, 2);
	assert_int_equal(content(2, &bytes), 5);
	assert_memory_equal(bytes, "abcde", 5);
	put(2, 2, "x", 1, 1); /* not at the end */
	assert_false(has_content(2));
	put(2, 0, "abc", 3, 3);
	assert_false(has_content(2));
	create("b", 3, 0644);
	put(3, 0, "abc", 3, 2); /* not all of it */
	assert_false(has_content(3));
	create("c", 4, 0644);
	put(4, 0, zeros, sizeof(zeros), sizeof(zeros));
	assert_int_equal(content(4, &bytes), sizeof(zeros));
	put(4, sizeof(zeros), "x", 1, 1); /* too much */
	assert_false(has_content(4));
	create("d", 5, 0644);
	put(5, 0, "abc", 3, 3);
	known_attr(&k, 5, &(struct vm_attr){.mode = S_IFREG | 0644, .size = 6}); /* O_APPEND */
	assert_false(has_content(5));
}

static void change_mode(uint64_t node, uint32_t mode)
{
	const struct known_question q = {.op = VM_SETATTR, .node = node, .valid = PROTO_SET_MODE};

	learn(&q, node, S_IFREG | mode);
}

/* A file is open at once only if the agent would surely open it, too. */
static void opened(void **state)
{
	const struct known_question write_only = {.op = VM_OPEN, .node = 4, .flags = O_WRONLY};
	const struct vm_attr attr = {.mode = S_IFREG | 0644, .size = 1};

	(void)state;
	create("a", 2, 0644);
	assert_true(known_may_open(&k, 2));
	change_mode(2, 0200);
	assert_false(known_may_open(&k, 2));
	change_mode(2, 0400);
	assert_true(known_may_open(&k, 2));
	assert_int_equal(known_forget(&k, 2, 1), 1);
	assert_false(known_may_open(&k, 2));
	open_with_content(3, 10);
	assert_false(known_may_open(&k, 3)); /* its attributes are not known */
	known_attr(&k, 3, &attr);
	assert_true(known_may_open(&k, 3));
	change_mode(3, 0644); /* whose it is is not known */
	known_attr(&k, 3, &attr);
	assert_false(known_may_open(&k, 3));
	known_learn(&k, &write_only, 0, &(struct vm_file_reply){.handle = 11});
	known_content(&k, 11, "x", 1);
	known_attr(&k, 4, &attr);
	assert_false(known_may_open(&k, 4));
	create("b", 5, 0644);
	known_end(&k);
	assert_false(known_may_open(&k, 5));
}

/* What is told of a node that no request was about is not kept. */
static void unasked(void **state)
{
	static const struct known_question about[] = {
		{.op = VM_MKDIR, .node = 10, .name = "a"},
		{.op = VM_SYMLINK, .node = 11, .name = "a"},
		{.op = VM_UNLINK, .node = 12, .name = "a"},
		{.op = VM_RMDIR, .node = 13, .name = "a"},
		{.op = VM_CREATE, .node = 14, .name = "a"},
		{.op = VM_OPEN, .node = 15},
		{.op = VM_WRITE, .node = 16},
		{.op = VM_FALLOCATE, .node = 17},
		{.op = VM_LINK, .node = 30, .newparent = 18, .newname = "a"},
		{.op = VM_RENAME, .node = 19, .newparent = 20, .name = "a", .newname = "b"},
	};
	const struct vm_file_reply reply = reply_of(1, S_IFREG | 0644);

	(void)state;
	for (uint64_t i = 10; i < 10000; i++)
		known_attr(&k, i, &reply.attr);
	assert_int_equal(k.n, 0);
	for (size_t i = 0; i < ARRAY_SIZE(about); i++)
		learn(&about[i], 31, S_IFREG | 0644);
	for (uint64_t i = 10; i <= 20; i++) {
		known_attr(&k, i, &reply.attr);
		assert_true(attr(i));
	}
	known_attr(&k, 21, &reply.attr);
	assert_false(attr(21));
}

static void look_number(uint64_t dir, uint64_t number)
{
	char name[16];

	snprintf(name, sizeof(name), "%u", (unsigned)number);
	look(dir, name, 1000 + number);
}

static void limits(void **state)
{
	static uint8_t large[PROTO_CONTENT_MAX];

	(void)state;
	for (uint64_t i = 0; i <= KNOWN_CONTENTS; i++)
		open_with_content(100000 + i, 100 + i);
	assert_int_equal(k.ncontents, KNOWN_CONTENTS);
	assert_false(has_content(100000));
	assert_true(has_content(100001));
	make_dir(ROOT, "dir", 3);
	for (uint64_t i = 0; i < 65536; i++) {
		look_number(3, i);
		assert_true(k.bytes <= KNOWN_BYTES);
		if (i == 10000) {
			assert_int_equal(at(3, "0"), 1000);
			assert_int_equal(at(3, "absent"), 0);
		}
	}
	/* Some went, so that a name that is not there says nothing. */
	assert_int_equal(at(3, "absent"), -1);
	for (uint64_t i = 0; i < 1000; i++) {
		const struct known_question open = {.op = VM_OPEN, .node = 200000 + i};
		const struct vm_file_reply reply = {.handle = 1000 + i};

		known_learn(&k, &open, 0, &reply);
		known_content(&k, reply.handle, large, sizeof(large));
		assert_true(k.bytes <= KNOWN_BYTES);
		assert_true(k.content_bytes <= KNOWN_BYTES / 2);
	}
	assert_true(has_content(200000 + 999));
	assert_false(has_content(200000));
}

/* Half of the room is never taken by what can't be dropped; so what is dropped is worth looking at each. */
static void owed_limit(void **state)
{
	const uint64_t many = 65536, most = KNOWN_BYTES / 2 / sizeof(struct known_node);
	uint64_t given = 0, drops = 0;
	struct vm_file_reply reply;
	char name[16];
	int err;

	(void)state;
	for (uint64_t i = 0; i < many; i++) {
		const struct vm_file req = {.op = VM_LOOKUP, .node = ROOT, .name = name};
		const size_t before = k.bytes;

		snprintf(name, sizeof(name), "%u", (unsigned)i);
		look_number(ROOT, i);
		drops += k.bytes < before;
		given += known_answer(&k, &req, &err, &reply);
	}
	assert_true(given > 1000 && given <= most);
	assert_int_equal(k.nowed, given);
	assert_true(drops > 0 && drops <= 2 * many * 300 / (KNOWN_BYTES / 2));
	/* They are still counted, and are answered again when some were forgotten. */
	for (uint64_t i = 0; i < many; i++)
		(void)known_forget(&k, 1000 + i, 1);
	assert_int_equal(k.nowed, 0);
	look(ROOT, "a", 2);
	assert_int_equal(at(ROOT, "a"), 2);
}

/* Sandboxes share what there is for all of them. */
static void all_limit(void **state)
{
	static struct known others[2 * KNOWN_BYTES_ALL / KNOWN_BYTES];
	const struct known mine = k;
	size_t bytes = 0;

	(void)state;
	for (size_t n = 0; n < ARRAY_SIZE(others); n++) {
		memset(&k, 0, sizeof(k));
		known_init(&k);
		known_begin(&k);
		for (uint64_t i = 0; i < 14000; i++)
			look_number(ROOT, i);
		bytes += k.bytes;
		others[n] = k;
		assert_true(bytes <= KNOWN_BYTES_ALL);
	}
	assert_true(bytes > KNOWN_BYTES_ALL - KNOWN_BYTES);
	k = mine;
	look(ROOT, "a", 2);
	assert_int_equal(at(ROOT, "a"), -1);
	for (size_t n = 0; n < ARRAY_SIZE(others); n++)
		known_fini(&others[n]);
	look(ROOT, "a", 2);
	assert_int_equal(at(ROOT, "a"), 2);
}

/* Lookups that the agent does not know of are the first to be forgotten, even after the lease. */
static void owed(void **state)
{
	const struct vm_file req = {.op = VM_LOOKUP, .node = ROOT, .name = "a"};
	struct vm_file_reply reply;
	int err;

	(void)state;
	look(ROOT, "a", 2);
	for (int i = 0; i < 3; i++)
		assert_true(known_answer(&k, &req, &err, &reply));
	assert_int_equal(known_forget(&k, 2, 1), 0);
	known_end(&k);
	assert_int_equal(known_forget(&k, 2, 2), 0);
	assert_int_equal(known_forget(&k, 2, 1), 1);
	assert_int_equal(k.n, 0);
	known_begin(&k);
	look(ROOT, "a", 2);
	assert_true(known_answer(&k, &req, &err, &reply));
	assert_int_equal(known_forget(&k, 2, 2), 1);
	assert_int_equal(known_forget(&k, 3, 7), 7);
}

/* The agent may not know a number any more that it was told to forget: whatever comes late. */
static void forgotten(void **state)
{
	(void)state;
	look(ROOT, "a", 2);
	assert_int_equal(at(ROOT, "a"), 2);
	assert_int_equal(known_forget(&k, 2, 1), 1);
	assert_int_equal(at(ROOT, "a"), -1);
	know(2);
	assert_int_equal(at(ROOT, "a"), -1);
	look(ROOT, "a", 2);
	assert_int_equal(at(ROOT, "a"), 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
		T(names),    T(errors),	      T(stale),	     T(complete),  T(removed),
		T(renamed),  T(renamed_over), T(changed),    T(touched),   T(touched_here),
		T(contents), T(written),      T(opened),     T(forgotten), T(limits),
		T(owed),     T(unasked),      T(owed_limit), T(all_limit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
