/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel's requests on open files and directories, and on locks. See ops.c. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>

#include "fs/tree/dir.h"
#include "fs/tree/nodes.h"
#include "fs/tree/names.h"
#include "fs/tree/table.h"
#include "fs/files/files.h"
#include "fs/request/caller.h"
#include "fs/request/waitlist.h"
#include "fs/request/nodelock.h"
#include "ops_internal.h"
#include "fs/session/quota.h"
#include "fs/session/session.h"
#include "fs/session/touch.h"

/* Is it one below files/? */
static bool is_agents(const struct handle *h)
{
	const struct node n = {.kind = ino_kind(h->ino)};

	return ops_in_files(&n);
}

/* Below files/ nothing of a handle changes but a listing, where that is noted, and what is read there may be much. One that the kernel
 * has and this daemon has not, or has of another node, was lost with the daemon before; see
 * fs/handover/losses.c. */
static struct handle *handle_of(fuse_req_t req, fuse_ino_t ino, const struct fuse_file_info *fi)
{
	struct handle *h = handle_get(&ops_fs(req)->handles, fi->fh);

	if (h && h->ino != ino)
		h = NULL;
	if (!h)
		reply_err(core(req), -EIO);
	else if (!is_agents(h))
		handle_touch(h);
	return h;
}

/* Likewise, for what changes more than where it reads. */
static struct handle *handle_to_change(fuse_req_t req, fuse_ino_t ino,
				       const struct fuse_file_info *fi)
{
	struct handle *h = handle_of(req, ino, fi);

	if (h && (h->job || !h->ops || !h->ops->notes))
		ops_touch(h->s, h->job, ino_kind(h->ino), (uint32_t)h->ino);
	return h;
}

static void close_handle(struct handle *h)
{
	h->fs->who = h->who; /* the kernel does not say who closes it */
	if (!h->ops)
		files_release(h);
	else if (h->ops->release)
		h->ops->release(h);
	nodelock_release(&h->fs->locks, h);
	handle_free(h);
}

/* Passes on what is about an open handle below files/. */
static void to_agent(fuse_req_t req, fuse_ino_t ino, struct handle *h, struct vm_file *rq)
{
	struct node n;

	if (ops_look(req, ino, &n))
		files_request(&n, h, core(req), rq, NULL, 0);
}

/* The text that came with an open is one of those that are added up already. */
static int check_room(const struct handle *h)
{
	return h->text.len ? quota_check(h->fs, h->s, 0) : 0;
}

/* Makes a handle on a node of the fixed tree. Return: 0 or -errno. */
static int open_fixed(const struct node *n, int flags, struct reply_open *ret_o)
{
	const struct node_def *def = &node_defs[n->kind];
	const struct handle_ops *hops = def->ops;
	bool write = (flags & O_ACCMODE) != O_RDONLY;
	struct handle *h;
	int e;

	if (!hops || (write && !hops->write && !hops->write_late) ||
	    ((flags & O_ACCMODE) != O_WRONLY && !hops->read))
		return -EACCES;
	h = node_open(n, hops, flags);
	if (!h)
		return -ENOMEM;
	e = def->render && !write ? node_render(n, &h->text) : 0;
	if (e == 0 && hops->open)
		e = hops->open(h);
	if (e < 0) {
		handle_free(h);
		return e;
	}
	e = check_room(h);
	if (e < 0) {
		close_handle(h);
		return e;
	}
	*ret_o = (struct reply_open){.fh = handle_id(h),
				     .direct_io = true,
				     .noflush = !write || hops->write_late || !hops->flush,
				     .stream = h->stream,
				     .duplex = h->duplex};
	return 0;
}

/* Finds what is to be opened, or made, if there may be one more: before anything happens to it. */
static bool resolve_open(fuse_req_t req, fuse_ino_t ino, struct node *ret_n)
{
	int e;

	if (!ops_look(req, ino, ret_n))
		return false;
	if (ret_n->job || !node_defs[ret_n->kind].ops || !node_defs[ret_n->kind].ops->notes)
		ops_touch(ret_n->s, ret_n->job, ret_n->kind, ret_n->sub);
	e = quota_open(ops_fs(req), ret_n);
	if (e < 0)
		reply_err(core(req), e);
	return e == 0;
}

/* An output that grows is a stream, but not for a caller who does not know how to read one, see tree/stream.c. */
static bool reads_streams(fuse_req_t req)
{
	struct req_ctx ctx;

	req_ctx(core(req), &ctx);
	return !caller_seeks(ctx.pid);
}

void op_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct vm_file rq = {.op = VM_OPEN};
	struct reply_open o;
	struct node n;
	int e;

	if (!resolve_open(req, ino, &n))
		return;
	if (n.kind == NODE_FILE || n.kind == NODE_CHECKPOINT_FILE) {
		rq.flags = (uint32_t)fi->flags & (O_ACCMODE | O_APPEND | O_TRUNC);
		files_request(&n, NULL, core(req), &rq, NULL, fi->flags);
		return;
	}
	e = open_fixed(&n, fi->flags, &o);
	if (e < 0) {
		reply_err(core(req), e);
		return;
	}
	if (o.stream && !o.duplex)
		o.stream = reads_streams(req);
	reply_open(core(req), &o);
}

void op_create(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode,
	       struct fuse_file_info *fi)
{
	struct vm_file rq = {.op = VM_CREATE, .name = name, .mode = mode & 01777};
	struct reply_entry entry = {0};
	struct reply_open o;
	struct node dir, n;
	int e;

	if (!resolve_open(req, parent, &dir))
		return;
	if (ops_in_files(&dir)) {
		rq.flags = (uint32_t)fi->flags & (O_ACCMODE | O_APPEND | O_TRUNC | O_EXCL);
		files_request(&dir, NULL, core(req), &rq, NULL, fi->flags);
		return;
	}
	e = names_create(&dir, name, mode, &n);
	if (e == 0)
		e = open_fixed(&n, fi->flags, &o);
	if (e == 0) {
		entry.ino = n.ino;
		e = dir_stat(&n, &entry.st);
		if (e < 0)
			close_handle(handle_get(&n.fs->handles, o.fh));
	}
	if (e < 0)
		reply_err(core(req), e);
	else
		reply_create(core(req), &entry, &o);
}

void op_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset, struct fuse_file_info *fi)
{
	struct vm_file rq = {.op = VM_READ, .size = size, .offset = (uint64_t)offset};
	struct handle *h = handle_of(req, ino, fi);

	if (!h)
		return;
	if (h->ops == &changes_ops)
		touch_rest(h->s);
	if (h->ops) {
		/* What a program reads is read for somebody; what is read for splice(2),
		 * sendfile(2) or a mapping goes through the page cache, for nobody. */
		h->cached = fi->lock_owner == 0;
		h->ops->read(h, core(req), size, (uint64_t)offset, fi->flags & O_NONBLOCK);
		h->cached = false;
		return;
	}
	to_agent(req, ino, h, &rq);
}

void op_write(fuse_req_t req, fuse_ino_t ino, const char *data, size_t size, off_t offset,
	      struct fuse_file_info *fi)
{
	struct vm_file rq = {
		.op = VM_WRITE, .data = data, .size = size, .offset = (uint64_t)offset};
	struct handle *h = handle_to_change(req, ino, fi);
	int e;

	if (!h)
		return;
	if (h->ops && h->ops->write_late) {
		h->ops->write_late(h, core(req), data, size, (uint64_t)offset,
				   fi->flags & O_NONBLOCK);
		return;
	}
	if (h->ops) {
		e = h->ops->write ? h->ops->write(h, data, size, (uint64_t)offset) : -EBADF;
		if (e < 0)
			reply_err(core(req), e);
		else
			reply_write(core(req), size);
		return;
	}
	to_agent(req, ino, h, &rq);
}

void op_flush(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct handle *h = handle_to_change(req, ino, fi);
	struct req_ctx ctx;
	struct node n;
	int e = 0;

	if (!h)
		return;
	if (!h->ops && node_resolve(h->fs, ino, &n) == 0) {
		files_flush(&n, h, core(req), fi->lock_owner);
		return;
	}
	(void)nodelock_flush(&h->fs->locks, h, fi->lock_owner);
	req_ctx(core(req), &ctx);
	if (h->ops && h->ops->flush && handle_writes(h))
		e = h->ops->flush(h, caller_killed(ctx.pid));
	reply_err(core(req), e);
}

void op_release(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct handle *h = handle_to_change(req, ino, fi);

	if (!h)
		return;
	reply_err(core(req), 0);
	close_handle(h);
}

void op_fsync(fuse_req_t req, fuse_ino_t ino, int datasync, struct fuse_file_info *fi)
{
	struct vm_file rq = {.op = VM_FSYNC};
	struct handle *h = handle_of(req, ino, fi);

	(void)datasync;
	if (!h)
		return;
	if (h->ops || h->packed || !h->remote)
		reply_err(core(req), 0); /* nothing here outlives the daemon */
	else
		to_agent(req, ino, h, &rq);
}

void op_fallocate(fuse_req_t req, fuse_ino_t ino, int mode, off_t offset, off_t length,
		  struct fuse_file_info *fi)
{
	struct vm_file rq = {.op = VM_FALLOCATE,
			     .flags = (uint32_t)mode,
			     .offset = (uint64_t)offset,
			     .length = (uint64_t)length};
	struct handle *h = handle_of(req, ino, fi);

	if (!h)
		return;
	if (h->ops)
		reply_err(core(req), -EOPNOTSUPP);
	else
		to_agent(req, ino, h, &rq);
}

void op_lseek(fuse_req_t req, fuse_ino_t ino, off_t offset, int whence, struct fuse_file_info *fi)
{
	struct vm_file rq = {.op = VM_SEEK, .offset = (uint64_t)offset, .flags = (uint32_t)whence};
	struct handle *h = handle_of(req, ino, fi);

	if (!h)
		return;
	if (h->ops)
		reply_err(core(req), -EINVAL);
	else
		to_agent(req, ino, h, &rq);
}

void op_poll(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi, struct fuse_pollhandle *ph)
{
	struct handle *h = handle_of(req, ino, fi);
	struct pollwait *pw = (struct pollwait *)ph;
	unsigned revents = POLLIN | POLLRDNORM | POLLOUT | POLLWRNORM;

	if (!h) {
		if (pw)
			pollwait_free(pw);
		return;
	}
	if (h->ops && h->ops->poll)
		revents = h->ops->poll(h);
	if (pw && h->waitlist) {
		h->kh = h->fs->kh;
		wait_poll(h, pw);
	} else if (pw) { /* it is always ready */
		pollwait_free(pw);
	}
	reply_poll(core(req), revents);
}

/* ---- directories ---- */

void op_opendir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct vm_file rq = {.op = VM_OPENDIR};
	struct reply_open o = {0};
	struct handle *h;
	struct node n;
	int e = -ENOMEM;

	if (!resolve_open(req, ino, &n))
		return;
	if (ops_in_files(&n)) {
		files_request(&n, NULL, core(req), &rq, NULL, fi->flags);
		return;
	}
	h = node_open(&n, NULL, fi->flags);
	if (h) {
		e = dir_open(h, &n);
		if (e == 0)
			e = check_room(h);
	}
	if (e < 0) {
		if (h)
			handle_free(h);
		reply_err(core(req), e);
		return;
	}
	o.fh = handle_id(h);
	reply_open(core(req), &o);
}

void op_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset,
		struct fuse_file_info *fi)
{
	struct vm_file rq = {.op = VM_READDIR, .size = size, .offset = (uint64_t)offset};
	struct handle *h = handle_of(req, ino, fi);

	if (!h)
		return;
	if (!is_agents(h))
		dir_read(h, core(req), size, (uint64_t)offset);
	else
		to_agent(req, ino, h, &rq);
}

void op_releasedir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct handle *h = handle_of(req, ino, fi);

	if (!h)
		return;
	reply_err(core(req), 0);
	if (is_agents(h))
		files_release(h);
	handle_free(h);
}

/* ---- locks ---- */

static enum proto_lock_type type_of(short native)
{
	return native == F_RDLCK   ? PROTO_LOCK_SHARED
	       : native == F_WRLCK ? PROTO_LOCK_EXCLUSIVE
				   : PROTO_UNLOCK;
}

static struct lock_ask ask_of(const struct flock *fl, uint64_t owner)
{
	const uint64_t start = (uint64_t)fl->l_start;

	return (struct lock_ask){
		.owner = owner,
		.start = start,
		.end = fl->l_len ? start + (uint64_t)fl->l_len - 1 : (uint64_t)INT64_MAX,
		.type = type_of(fl->l_type),
		.pid = (uint32_t)fl->l_pid,
	};
}

static void lock(fuse_req_t req, fuse_ino_t ino, const struct fuse_file_info *fi,
		 struct lock_ask *ask, enum vm_file_op op, bool wait)
{
	struct handle *h = handle_of(req, ino, fi);
	struct node n;

	if (!h)
		return;
	if (h->ops)
		nodelock_serve(&h->fs->locks, h, core(req), ask, op == VM_TEST_LOCK, wait);
	else if (ops_resolve(req, ino, &n))
		files_lock(&n, h, core(req), ask, op, wait);
}

void op_getlk(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi, struct flock *fl)
{
	struct lock_ask ask = ask_of(fl, fi->lock_owner);

	lock(req, ino, fi, &ask, VM_TEST_LOCK, false);
}

void op_setlk(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi, struct flock *fl,
	      int sleep)
{
	struct lock_ask ask = ask_of(fl, fi->lock_owner);

	lock(req, ino, fi, &ask, VM_LOCK, sleep);
}

void op_flock(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi, int op)
{
	struct lock_ask ask = {
		.owner = fi->lock_owner,
		.end = INT64_MAX,
		.type = op & LOCK_SH   ? PROTO_LOCK_SHARED
			: op & LOCK_EX ? PROTO_LOCK_EXCLUSIVE
				       : PROTO_UNLOCK,
		.whole = true,
	};

	lock(req, ino, fi, &ask, VM_LOCK, !(op & LOCK_NB));
}
