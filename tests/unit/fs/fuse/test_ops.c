/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel's rarer requests: attributes that are set, space, seeking, forgetting, what is refused. */
/* modules: tests/unit/fixture/fixture.c */
#include <errno.h>
#include <fuse_lowlevel.h>

#include "tests/unit/fixture/fixture.h"
#include "fs/fuse/ops.h"
#include "fs/session/author.h"

#define TOP "python/demo/"

static const struct vm_file_reply a_file = {
	.node = 7,
	.handle = 70,
	.attr = {.ino = 4711, .mode = S_IFREG | 0640, .nlink = 1, .size = 5}};

/* A file of the sandbox, open. */
static struct file open_file(struct fixture *fx, struct sandbox *s)
{
	struct fuse_file_info fi = {.flags = O_RDWR};
	struct req *made = req_new(0);

	ops.create(req_native(made), fx_ino(fx, TOP "files"), "f", 0644, &fi);
	fake_answer(s, 0, &a_file);
	assert_int_equal(made->kind, ANSWER_CREATE);
	return (struct file){.ino = made->ino, .fh = made->fh, .flags = O_RDWR};
}

static struct req *setattr(uint64_t ino, const struct stat *attr, int valid)
{
	struct stat st = *attr;
	struct req *req = req_new(0);

	ops.setattr(req_native(req), ino, &st, valid, NULL);
	return req;
}

static void test_setattr_of_a_file(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = fx_ready(fx);
	struct file f = open_file(fx, s);
	struct stat st = {
		.st_mode = S_IFREG | 0600, .st_size = 9, .st_uid = 1000, .st_mtim = {5, 6}};
	struct req *r = setattr(f.ino, &st, FUSE_SET_ATTR_MODE | FUSE_SET_ATTR_SIZE);

	assert_int_equal(s->file[0].rq.op, VM_SETATTR);
	assert_int_equal(s->file[0].rq.valid, PROTO_SET_MODE | PROTO_SET_SIZE);
	assert_int_equal(s->file[0].rq.mode, 0600);
	assert_int_equal(s->file[0].rq.length, 9);
	fake_answer(s, 0, &a_file);
	assert_int_equal(r->kind, ANSWER_ATTR);
	r = setattr(f.ino, &st, FUSE_SET_ATTR_MTIME | FUSE_SET_ATTR_ATIME_NOW);
	assert_int_equal(s->file[0].rq.valid, PROTO_SET_MTIME | PROTO_SET_ATIME_NOW);
	assert_int_equal(s->file[0].rq.mtime.tv_nsec, 6);
	fake_answer(s, -ENOSPC, NULL);
	assert_error(r, -ENOSPC);
	/* Owners are the session's: keeping is fine, changing is not. */
	r = setattr(f.ino, &st, FUSE_SET_ATTR_UID);
	assert_int_equal(s->file[0].rq.op, VM_GETATTR);
	fake_answer(s, 0, &a_file);
	assert_int_equal(r->kind, ANSWER_ATTR);
	st.st_uid = 0;
	assert_error(setattr(f.ino, &st, FUSE_SET_ATTR_UID), -EPERM);
	assert_error(setattr(fx_ino(fx, TOP "in"), &st, FUSE_SET_ATTR_UID), -EPERM);
	st.st_gid = getgid() + 1;
	assert_error(setattr(fx_ino(fx, "python"), &st, FUSE_SET_ATTR_GID), -EPERM);
	fx_close(fx, &f);
}

static struct req *getxattr(uint64_t ino, const char *name, size_t size)
{
	struct req *req = req_new(0);

	ops.getxattr(req_native(req), ino, name, size);
	return req;
}

/* The agent's words, of which those of the session's own are short. */
static struct req *origin_of(struct sandbox *s, uint64_t ino, size_t size, const char *said)
{
	const struct vm_file_reply reply = {.data = said, .size = strlen(said)};
	struct req *r = getxattr(ino, "user.xsbxfs.origin", size);

	assert_int_equal(s->file[0].rq.op, VM_ORIGIN);
	fake_answer(s, 0, &reply);
	return r;
}

static void test_who_wrote_a_file(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = fx_ready(fx);
	struct file f = open_file(fx, s);
	char said[PROTO_ORIGIN_MAX + 32];
	struct req *r;

	snprintf(said, sizeof(said), "%s or client", author_of_run(fx_demo(fx), 7).text);
	r = origin_of(s, f.ino, 100, said);
	assert_int_equal(r->kind, ANSWER_BUF);
	assert_string_equal(r->data, "run 7 or client");
	r = origin_of(s, f.ino, 0, said);
	assert_int_equal(r->kind, ANSWER_XATTR);
	assert_int_equal(r->size, strlen("run 7 or client"));
	assert_error(origin_of(s, f.ino, 5, said), -ERANGE);
	assert_error(origin_of(s, f.ino, 100, ""), -ENODATA);
	r = getxattr(f.ino, "user.xsbxfs.origin", 100);
	fake_answer(s, -EIO, NULL);
	assert_error(r, -EIO);
	/* Nobody asks the agent for others. */
	assert_error(getxattr(f.ino, "security.capability", 100), -EOPNOTSUPP);
	assert_error(getxattr(fx_ino(fx, TOP "in"), "user.xsbxfs.origin", 100), -ENODATA);
	assert_error(getxattr(fx_ino(fx, "python"), "user.xsbxfs.origin", 100), -ENODATA);
	assert_int_equal(s->nfiles, 0);
	assert_null(ops.listxattr);
	fx_close(fx, &f);
}

static void test_origin_is_fixed(void **state)
{
	struct fixture *fx = *state;
	const uint64_t ino = fx_ino(fx, TOP "files");
	struct req *r = req_new(0);

	ops.setxattr(req_native(r), ino, "user.xsbxfs.origin", "run 1", 5, 0);
	assert_error(r, -EPERM);
	fx_expect_error(fx, TOP, "origin-fixed");
	r = req_new(0);
	ops.removexattr(req_native(r), ino, "user.xsbxfs.origin");
	assert_error(r, -EPERM);
	r = req_new(0);
	ops.setxattr(req_native(r), ino, "user.other", "x", 1, 0);
	assert_error(r, -EOPNOTSUPP);
	r = req_new(0);
	ops.removexattr(req_native(r), ino, "user.other");
	assert_error(r, -EOPNOTSUPP);
	assert_error(getxattr(ino, "user.xsbxfs.origin", 9), -ENODATA); /* nothing is there yet */
}

static void test_setattr_of_fixed_nodes(void **state)
{
	struct fixture *fx = *state;
	struct stat st = {.st_mode = S_IFREG | 0755, .st_mtim = {1000, 0}}, is;

	fx_put(fx, TOP "temp", "x");
	setattr(fx_ino(fx, TOP "temp"), &st, FUSE_SET_ATTR_MODE | FUSE_SET_ATTR_MTIME);
	fx_stat(fx, TOP "temp", &is);
	assert_int_equal(is.st_mode, S_IFREG | 0755);
	assert_int_equal(is.st_mtim.tv_sec, 1000);
	setattr(fx_ino(fx, TOP "in"), &st, FUSE_SET_ATTR_MODE | FUSE_SET_ATTR_MTIME);
	fx_stat(fx, TOP "in", &is);
	assert_int_equal(is.st_mode, S_IFREG | 0600); /* as cp -p wants it, not as it says */
	assert_int_equal(is.st_mtim.tv_sec, 1000);
	assert_int_equal(fx_truncate(fx, TOP "config", 0), 0);
	assert_int_equal(fx_truncate(fx, TOP "ctl", 0), 0);
	assert_int_equal(fx_truncate(fx, TOP "stdout", 0), -EACCES);
	assert_int_equal(fx_truncate(fx, TOP "temp", 0), 0);
	assert_int_equal(fx_size(fx, TOP "temp"), 0);
}

static void test_setattr_of_files_without_a_sandbox(void **state)
{
	struct fixture *fx = *state;
	struct stat st = {.st_mode = S_IFDIR | 0755};

	assert_int_equal(setattr(fx_ino(fx, TOP "files"), &st, FUSE_SET_ATTR_MODE)->kind,
			 ANSWER_ATTR);
	assert_int_equal(fake_count(), 0);
}

static void test_space_and_seeking(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = fx_ready(fx);
	struct file f = open_file(fx, s), fixed = fx_opened(fx, TOP "state", O_RDONLY);
	struct fuse_file_info fi = {.fh = f.fh}, fi2 = {.fh = fixed.fh};
	const struct vm_file_reply space = {.statfs = {.bsize = 4096, .blocks = 10, .bfree = 3}},
				   place = {.offset = 99}, written = {.size = 4};
	struct req *r = req_new(0);

	ops.statfs(req_native(r), f.ino);
	fake_answer(s, 0, &space);
	assert_int_equal(r->statvfs.f_blocks, 10);
	assert_int_equal(r->statvfs.f_bavail, 3);
	ops.lseek(req_native(r = req_new(0)), f.ino, 5, SEEK_HOLE, &fi);
	assert_int_equal(s->file[0].rq.flags, SEEK_HOLE);
	fake_answer(s, 0, &place);
	assert_int_equal(r->number, 99);
	ops.lseek(req_native(r = req_new(0)), fixed.ino, 5, SEEK_HOLE, &fi2);
	assert_error(r, -EINVAL);
	ops.fallocate(req_native(r = req_new(0)), f.ino, 0, 1, 2, &fi);
	assert_int_equal(s->file[0].rq.length, 2);
	fake_answer(s, 0, &a_file);
	assert_error(r, 0);
	ops.fallocate(req_native(r = req_new(0)), fixed.ino, 0, 1, 2, &fi2);
	assert_error(r, -EOPNOTSUPP);
	ops.fsync(req_native(r = req_new(0)), f.ino, 0, &fi);
	fake_answer(s, 0, &a_file);
	assert_error(r, 0);
	ops.fsync(req_native(r = req_new(0)), fixed.ino, 0, &fi2);
	assert_error(r, 0);
	ops.write(req_native(r = req_new(0)), f.ino, "text", 4, 8, &fi);
	assert_int_equal(s->file[0].rq.op, VM_WRITE);
	assert_int_equal(s->file[0].rq.offset, 8);
	fake_answer(s, 0, &written);
	assert_int_equal(r->size, 4);
	fx_close(fx, &f);
	fx_close(fx, &fixed);
}

static void test_forget_many(void **state)
{
	struct fixture *fx = *state;
	struct sandbox *s = fx_ready(fx);
	struct file f = open_file(fx, s);
	struct fuse_forget_data gone[] = {
		{f.ino, 1}, {FUSE_ROOT_ID, 5}, {fx_ino(fx, TOP "in"), 1}, {12345, 1}};
	struct req *r = req_new(0);

	ops.forget_multi(req_native(r), 4, gone);
	assert_int_equal(s->forgotten, 1);
	fx_close(fx, &f);
}

static void test_refused(void **state)
{
	struct fixture *fx = *state;
	uint64_t files = fx_ino(fx, TOP "files"), top = fx_ino(fx, "python/demo");
	struct req *r = req_new(0);
	struct file f;

	ops.mknod(req_native(r), files, "pipe", S_IFIFO | 0644, 0);
	assert_error(r, -EPERM);
	ops.symlink(req_native(r = req_new(0)), "target", top, "link");
	assert_error(r, -EPERM);
	ops.link(req_native(r = req_new(0)), fx_ino(fx, TOP "in"), top, "in2");
	assert_error(r, -EPERM);
	ops.readlink(req_native(r = req_new(0)), top);
	assert_error(r, -EINVAL);
	assert_int_equal(fx_open(fx, TOP "stdout", O_RDWR, &f), -EACCES);
	assert_int_equal(fx_open(fx, TOP "runs/latest", O_RDONLY, &f), -ENOENT);
	assert_int_equal(fx_open(fx, "events", O_WRONLY, &f), -EACCES);
	fake_exit(fx_run(fx, "x"), VM_DONE, 0);
	ops.readlink(req_native(r = req_new(0)), fx_ino(fx, TOP "runs/latest"));
	assert_string_equal(r->data, "1");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		fx_test(test_setattr_of_a_file),
		fx_test(test_who_wrote_a_file),
		fx_test(test_origin_is_fixed),
		fx_test(test_setattr_of_fixed_nodes),
		fx_test(test_setattr_of_files_without_a_sandbox),
		fx_test(test_space_and_seeking),
		fx_test(test_forget_many),
		fx_test(test_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
