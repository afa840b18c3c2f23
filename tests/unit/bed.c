/* SPDX-License-Identifier: Apache-2.0 */
/* A whole mount for a test. See bed.h. */
/* modules: tests/unit/bed_shell.c tests/unit/clock_fake.c tests/unit/reply_fake.c */
/* modules: tests/unit/vm_fake.c tests/unit/vm_fake_status.c fs/ops.c fs/ops_handle.c fs/fs.c vm/path.c fs/dir.c fs/node.c fs/names.c fs/complaint.c fs/quota.c */
/* modules: fs/scratch.c fs/handle.c fs/session.c fs/lease.c fs/run.c fs/spool.c fs/input.c */
/* modules: fs/depot.c fs/fetch.c */
/* modules: fs/stream.c fs/text.c fs/files.c fs/files_answer.c fs/files_link.c fs/filenode.c fs/filelink.c fs/owner.c fs/events.c fs/env.c */
/* modules: fs/metrics.c fs/status.c fs/report.c fs/help.c fs/settings.c fs/settings_parse.c fs/paths.c vm/path.c fs/changes.c fs/pause.c fs/ctl.c fs/problem.c */
/* modules: fs/conf.c fs/conf_file.c fs/conf_key.c fs/conf_template.c fs/conf_packages.c fs/packages.c fs/offer.c vm/buf.c vm/fileio.c vm/log.c */
/* modules: fs/netset.c fs/netenv.c fs/netnode.c fs/config.c vm/allow_check.c vm/net/allow.c vm/net/address.c */
/* modules: fs/ops_lock.c fs/nodelock.c fs/files_lock.c agent/lockbook.c */
/* libs: inih jansson */
#include "bed.h"

#include <errno.h>
#include <fuse_lowlevel.h>
#include <stdio.h>

#include "../../fs/ops.h"

/* The one thing that ops.c wants of libfuse. */
static struct fs *mounted;

void *fuse_req_userdata(fuse_req_t req)
{
	(void)req;
	return mounted;
}

static fuse_req_t native(struct req *req)
{
	return (fuse_req_t)req;
}

/* ---- up and down ---- */

static void add_template(struct conf *c, const char *name)
{
	struct conf_template *t = &c->template[c->ntemplates++];

	t->name = strdup(name);
	t->image = strdup(name);
	t->language = strdup(name);
	assert_int_equal(settings_init(&t->settings), 0);
}

int bed_up(void **state)
{
	struct bed *b = calloc(1, sizeof(*b));

	assert_non_null(b);
	clock_reset();
	b->fs = calloc(1, sizeof(*b->fs));
	snprintf(b->spool, sizeof(b->spool), "/tmp/xsbxfs-unit.XXXXXX");
	assert_non_null(mkdtemp(b->spool));
	add_template(&b->conf, "python");
	add_template(&b->conf, "raw");
	b->conf.spool_dir = b->spool;
	b->conf.output_bytes = 1 << 20;
	b->conf.history_bytes = 4 << 20;
	b->conf.history_runs = 100;
	assert_int_equal(fs_init(b->fs, &b->loop, &b->conf), 0);
	mounted = b->fs;
	assert_int_equal(bed_mkdir(b, "python/demo"), 0);
	*state = b;
	return 0;
}

void bed_stop(struct bed *b)
{
	fs_stop(b->fs);
	for (struct sandbox *s = fake_sandbox(); s; s = s->next)
		s->closing = true; /* vm_close() */
	fake_settle();
}

int bed_down(void **state)
{
	struct bed *b = *state;

	bed_stop(b);
	clock_work();
	assert_true(fs_fini(b->fs));
	free(b->fs);
	for (size_t i = 0; i < b->conf.ntemplates; i++) {
		struct conf_template *t = &b->conf.template[i];

		free(t->name);
		free(t->image);
		free(t->language);
		settings_clear(&t->settings);
	}
	assert_int_equal(rmdir(b->spool), 0); /* empty: nothing was left there */
	free(b);
	fake_check_all();
	req_check_all();
	return 0;
}

/* ---- requests ---- */

static struct req *new_req(struct bed *b)
{
	return req_new(b->pid);
}

static int errno_of(const struct req *req)
{
	if (req->kind == ANSWER_NONE_YET)
		fail_msg("a request that may not wait does");
	return req->kind == ANSWER_ERR ? req->err : 0;
}

struct req *bed_lookup(struct bed *b, uint64_t parent, const char *name)
{
	struct req *req = new_req(b);

	ops.lookup(native(req), parent, name);
	return req;
}

/* Splits off the last component. Return: the name; @ret_dir is the inode number of what is before it. */
static const char *split(struct bed *b, const char *path, int *ret_err, uint64_t *ret_dir)
{
	char dir[512];
	const char *slash = strrchr(path, '/');

	snprintf(dir, sizeof(dir), "%.*s", slash ? (int)(slash - path) : 0, path);
	*ret_err = bed_walk(b, dir, ret_dir);
	return slash ? slash + 1 : path;
}

int bed_walk(struct bed *b, const char *path, uint64_t *ret_ino)
{
	char copy[512], *save = NULL;
	uint64_t ino = FUSE_ROOT_ID;

	assert_true(strlen(path) < sizeof(copy));
	snprintf(copy, sizeof(copy), "%s", path);
	for (char *p = strtok_r(copy, "/", &save); p; p = strtok_r(NULL, "/", &save)) {
		const struct req *req = bed_lookup(b, ino, p);
		int e = errno_of(req);

		if (e < 0)
			return e;
		ino = req->ino;
	}
	*ret_ino = ino;
	return 0;
}

int bed_stat_ino(struct bed *b, uint64_t ino, struct stat *ret_st)
{
	struct req *req = new_req(b);
	int e;

	ops.getattr(native(req), ino, NULL);
	e = errno_of(req);
	if (e == 0)
		*ret_st = req->st;
	return e;
}

int bed_open(struct bed *b, const char *path, int flags, struct file *ret_f)
{
	struct fuse_file_info fi = {.flags = flags & ~(O_CREAT | O_EXCL)};
	struct req *req = new_req(b);
	uint64_t ino, dir;
	int e = bed_walk(b, path, &ino), e2;

	if (e == -ENOENT && (flags & O_CREAT)) {
		const char *name = split(b, path, &e2, &dir);

		if (e2 < 0) {
			reply_none(req);
			return e2;
		}
		ops.create(native(req), dir, name, 0644, &fi);
	} else if (e < 0) {
		reply_none(req);
		return e;
	} else {
		ops.open(native(req), ino, &fi);
	}
	e = errno_of(req);
	if (e == 0)
		*ret_f = (struct file){.ino = req->kind == ANSWER_CREATE ? req->ino : ino,
				       .fh = req->fh,
				       .flags = fi.flags,
				       .noflush = req->noflush};
	return e;
}

struct req *bed_read(struct bed *b, const struct file *f, size_t size, int flags)
{
	struct fuse_file_info fi = {.fh = f->fh,
				    .flags = f->flags | (flags & ~BED_CACHED),
				    .lock_owner = !(flags & BED_CACHED)};
	struct req *req = new_req(b);

	ops.read(native(req), f->ino, size, (off_t)f->offset, &fi);
	return req;
}

int bed_write_bytes(struct bed *b, struct file *f, const void *data, size_t size)
{
	struct fuse_file_info fi = {.fh = f->fh, .flags = f->flags};
	struct req *req = new_req(b);
	struct stat st;
	int e;

	if ((f->flags & O_APPEND) && bed_stat_ino(b, f->ino, &st) == 0)
		f->offset = (uint64_t)st.st_size; /* as the kernel does */
	ops.write(native(req), f->ino, data, size, (off_t)f->offset, &fi);
	e = errno_of(req);
	if (e == 0)
		f->offset += req->size;
	return e;
}

static int set_size(struct bed *b, uint64_t ino, const struct file *f, uint64_t size)
{
	struct fuse_file_info fi = {.fh = f ? f->fh : 0};
	struct stat st = {.st_size = (off_t)size};
	struct req *req = new_req(b);

	ops.setattr(native(req), ino, &st, FUSE_SET_ATTR_SIZE, f ? &fi : NULL);
	return errno_of(req);
}

int bed_ftruncate(struct bed *b, const struct file *f, uint64_t size)
{
	return set_size(b, f->ino, f, size);
}

int bed_truncate(struct bed *b, const char *path, uint64_t size)
{
	return set_size(b, bed_ino(b, path), NULL, size);
}

int bed_flush(struct bed *b, const struct file *f)
{
	struct fuse_file_info fi = {.fh = f->fh, .flags = f->flags};
	struct req *req = new_req(b);

	if (f->noflush)
		reply_err(req, 0);
	else
		ops.flush(native(req), f->ino, &fi);
	return errno_of(req);
}

void bed_release(struct bed *b, const struct file *f)
{
	struct fuse_file_info fi = {.fh = f->fh, .flags = f->flags};
	struct req *req = req_new(0); /* the kernel names nobody here */

	(void)b;
	ops.release(native(req), f->ino, &fi);
	assert_int_equal(errno_of(req), 0);
}

struct req *bed_poll(struct bed *b, const struct file *f, struct pollwait *pw)
{
	struct fuse_file_info fi = {.fh = f->fh};
	struct req *req = new_req(b);

	ops.poll(native(req), f->ino, &fi, (struct fuse_pollhandle *)pw);
	return req;
}

/* ---- names ---- */

/* Does something to a name in a directory. Return: the answer. */
static int do_name(struct bed *b, const char *path,
		   void (*op)(fuse_req_t req, fuse_ino_t parent, const char *name))
{
	struct req *req = new_req(b);
	uint64_t dir;
	int e;
	const char *name = split(b, path, &e, &dir);

	if (e < 0)
		reply_err(req, e);
	else
		op(native(req), dir, name);
	return errno_of(req);
}

static void make_dir(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	ops.mkdir(req, parent, name, 0755);
}

int bed_mkdir(struct bed *b, const char *path)
{
	return do_name(b, path, make_dir);
}

int bed_rmdir(struct bed *b, const char *path)
{
	return do_name(b, path, ops.rmdir);
}

int bed_unlink(struct bed *b, const char *path)
{
	return do_name(b, path, ops.unlink);
}

int bed_rename(struct bed *b, const char *from, const char *to, unsigned flags)
{
	struct req *req = new_req(b);
	uint64_t dir = 0, newdir = 0;
	int e, e2;
	const char *name = split(b, from, &e, &dir), *newname = split(b, to, &e2, &newdir);

	if (e < 0 || e2 < 0)
		reply_err(req, e < 0 ? e : e2);
	else
		ops.rename(native(req), dir, name, newdir, newname, flags);
	return errno_of(req);
}

const char *bed_ls(struct bed *b, const char *path)
{
	struct fuse_file_info fi = {.flags = O_RDONLY};
	struct req *req = new_req(b), *names = new_req(b);
	uint64_t ino = bed_ino(b, path), next = 0;
	struct buf text = {0};

	ops.opendir(native(req), ino, &fi);
	assert_int_equal(errno_of(req), 0);
	fi.fh = req->fh;
	for (;;) {
		size_t pos = 0;
		const char *name;

		req = new_req(b);
		ops.readdir(native(req), ino, 256, (off_t)next, &fi); /* small: several turns */
		assert_int_equal(errno_of(req), 0);
		if (!req->size)
			break;
		while ((name = req_dirent(req, &pos, &next)))
			if (strcmp(name, ".") != 0 && strcmp(name, "..") != 0)
				buf_printf(&text, "%s ", name);
	}
	req = new_req(b);
	ops.releasedir(native(req), ino, &fi);
	assert_int_equal(errno_of(req), 0);
	reply_buf(names, text.data, text.len);
	buf_clear(&text);
	return names->data;
}
