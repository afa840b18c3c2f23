/* SPDX-License-Identifier: Apache-2.0 */
/* `files/`: a request on its way, what the agent is told beside it, and from its answers to the kernel's. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "filelink.h"
#include "internal.h"
#include "fs/session/fs.h"
#include "fs/request/reply.h"
#include "fs/session/quota.h"
#include "fs/session/author.h"
#include "fs/session/session.h"

/* ---- a request ---- */

void files_op_list(struct file_op *op, struct file_ops *list)
{
	if (op->list)
		TAILQ_REMOVE(op->list, op, link);
	op->list = list;
	if (list)
		TAILQ_INSERT_TAIL(list, op, link);
}

int files_own_data(struct file_op *op)
{
	int e;

	if (!op->rq.data || op->data)
		return 0;
	e = quota_check(op->s->fs, op->s, op->rq.size);
	if (e < 0)
		return e;
	op->data = malloc(op->rq.size ? op->rq.size : 1);
	if (!op->data)
		return -ENOMEM;
	op->s->held_bytes += op->rq.size;
	memcpy(op->data, op->rq.data, op->rq.size);
	op->rq.data = op->data;
	return 0;
}

void files_op_free(struct file_op *op)
{
	struct session *s = op->s;

	files_op_list(op, NULL);
	wait_cancel(&op->wait);
	saved_unref(op->saved);
	free(op->name);
	free(op->newname);
	if (op->data)
		s->held_bytes -= op->rq.size;
	free(op->data);
	free(op->was);
	free(op);
	session_unref(s);
}

void files_op_fail(struct file_op *op, int err)
{
	struct req *req = files_op_req(op);

	if (req)
		reply_err(req, files_lock_error(op, err));
	files_op_free(op);
}

struct req *files_op_req(struct file_op *op)
{
	struct req *req = op->req;

	op->req = NULL;
	if (!req)
		return NULL;
	req_on_interrupt(req, NULL, NULL);
	timings_file(&op->s->fs->stats.timings, op->listing ? VM_READDIR : op->rq.op,
		     op->packed	 ? TIMING_SAVED
		     : op->asked ? TIMING_AGENT
				 : TIMING_DAEMON,
		     (uv_hrtime() - op->began) / 1000);
	return req;
}

struct filenode_move files_move_of(const struct file_op *op)
{
	return (struct filenode_move){op->index, op->newparent, op->name, op->newname};
}

/* ---- what needs no answer ---- */

void files_tell_forget(struct session *s, uint64_t remote, uint64_t lookups)
{
	const struct vm_file rq = {.op = VM_FORGET, .node = remote, .lookups = lookups};

	if (s->sandbox)
		(void)sandbox_file(s->sandbox, &rq, NULL, NULL);
}

void files_tell_release(struct session *s, uint64_t handle)
{
	const struct vm_file rq = {.op = VM_RELEASE, .handle = handle};

	if (s->sandbox)
		(void)sandbox_file(s->sandbox, &rq, NULL, NULL);
}

void files_node_gone(void *data, struct filenode *fn)
{
	struct session *s = data;

	files_unkeep(s->files, fn);
	if (fn->epoch == s->epoch && s->ready)
		files_tell_forget(s, fn->remote, fn->told);
}

/* The caller is gone: what the agent gave it must be given back. */
void files_undo(struct file_op *op, const struct vm_file_reply *reply)
{
	/* A lock was taken back when its caller gave up. */
	if (op->s->sandbox)
		sandbox_file_undo(op->s->sandbox, op->rq.op, reply);
}

/* ---- locks ---- */

static void cancel(const struct file_op *op, bool undo)
{
	const struct vm_file rq = {.op = VM_CANCEL_LOCK,
				   .lock = {.token = op->rq.lock.token, .undo = undo}};

	if (op->s->sandbox)
		(void)sandbox_file(op->s->sandbox, &rq, NULL, NULL);
}

bool files_waits_for_lock(const struct file_op *op)
{
	return op->rq.op == VM_LOCK && op->rq.lock.wait;
}

void files_cancel_lock(const struct file_op *op)
{
	if (files_waits_for_lock(op))
		cancel(op, false);
}

void files_undo_lock(const struct file_op *op)
{
	if (op->rq.op == VM_LOCK && op->rq.lock.token)
		cancel(op, true);
}

int files_lock_error(const struct file_op *op, int err)
{
	/* What close(2) would return; the sandbox is gone, or will be. */
	if (op->rq.op == VM_DROP_LOCKS)
		return 0;
	/* The kernel takes EINTR for a signal's, and starts the call anew, which needs a signal. */
	if (op->rq.op == VM_LOCK && err == -EINTR && op->renew)
		return -EAGAIN;
	if (op->rq.op == VM_LOCK && err == -EINTR && !op->give_up)
		return -EIO;
	return err;
}

/* ---- attributes ---- */

/* Preferred sizes of a read or write. Large pieces are pipelined, and what is empty may be about to be filled. But a
 * program that reads a small file has as much memory pinned as it reads with, whatever it then gets. */
#define BLOCK_MAX (1u << 20)
#define BLOCK_MIN 4096u

static blksize_t block_size(const struct vm_attr *a)
{
	uint64_t size = BLOCK_MIN;

	if (!S_ISREG(a->mode) || a->size == 0)
		return BLOCK_MAX;
	while (size < a->size && size < BLOCK_MAX)
		size *= 2;
	return (blksize_t)size;
}

uint64_t files_shown_ino(const struct file_op *op, uint64_t ino)
{
	/* Of a file that was saved, a number is a small one. Of others, some kernels use the highest bits, and so do agents
	 * (agent/files/number.h): what does not fit is spread over all of them, so that small numbers stay apart. */
	const uint64_t place = (uint64_t)op->place << 28,
		       own = op->place ? ino & ((1ull << 28) - 1)
				       : ino ^ ((ino >> 40) * 0x9e3779b97f4a7c15ull) >> 24;

	return ino_make(op->kind, op->s->slot, 0, 0) | ((place | own) & ((1ull << 40) - 1));
}

/* A pipe is shown as a socket, which open(2) refuses: the kernel would open a pipe without asking here, and
 * its reader would hang. */
uint32_t files_shown_mode(uint32_t mode)
{
	return S_ISFIFO(mode) ? (mode & ~(uint32_t)S_IFMT) | S_IFSOCK : mode;
}

static void attr_stat(const struct file_op *op, const struct vm_attr *a, bool asked,
		      struct stat *st)
{
	*st = (struct stat){
		.st_ino = files_shown_ino(op, a->ino),
		.st_mode = files_shown_mode(a->mode),
		.st_nlink = a->nlink,
		.st_size = (off_t)MIN(a->size, (uint64_t)INT64_MAX),
		.st_blocks = (blkcnt_t)MIN(a->blocks, (uint64_t)INT64_MAX),
		.st_blksize = block_size(a),
		.st_atim = a->atime,
		.st_mtim = a->mtime,
		.st_ctim = a->ctime,
	};
	owner_show(op->s, asked, st);
}

int files_access(mode_t mode, uint32_t mask)
{
	return (mode >> 6 & mask) == mask ? 0 : -EACCES;
}

void files_root_stat(const struct session *s, struct stat *st)
{
	*st = (struct stat){
		.st_ino = ino_of_session(s, NODE_FILES, 0),
		.st_mode = S_IFDIR | 0700,
		.st_nlink = 2,
		.st_uid = s->uid,
		.st_gid = s->gid,
		.st_atim = s->files_mtime,
		.st_mtim = s->files_mtime,
		.st_ctim = s->files_mtime,
	};
}

void files_forget(const struct node *n, uint64_t lookups)
{
	struct files *f = n->s->files;

	filenode_forget(n->kind == NODE_FILE ? &f->nodes : &f->saved, n->sub, lookups);
}

/* Makes the handle that an OPEN or CREATE ends with. Return: 0 or -errno. */
static int make_handle(struct file_op *op, uint64_t ino, const struct vm_file_reply *reply,
		       struct reply_open *ret_o)
{
	const struct node n = {.fs = op->s->fs, .kind = NODE_FILE, .ino = ino, .s = op->s};
	struct handle *h = node_open(&n, NULL, op->open_flags);

	if (!h) {
		if (!op->packed)
			files_tell_release(op->s, reply->handle);
		return -ENOMEM;
	}
	h->remote = reply->handle;
	h->epoch = op->epoch;
	h->packed = op->packed;
	h->was = steal_ptr(op->was);
	h->file = op->file;
	/* FLUSH tells when a process gives up its locks, for reading too. */
	*ret_o = (struct reply_open){.fh = handle_id(h), .direct_io = true};
	return 0;
}

static void answer_entry(struct file_op *op, const struct vm_file_reply *reply)
{
	const bool link = op->rq.op == VM_LINK;
	const struct filenode_found found = {
		.epoch = op->epoch,
		.remote = reply->node,
		.ino = op->unnumbered ? 0 : reply->attr.ino,
		.mode = reply->attr.mode,
		.parent = link ? op->newparent : op->index,
		.name = link ? op->newname : op->name,
		.since = op->packed ? session_saved_since(op->s, op->epoch) : op->s->line,
	};
	struct filenode *fn = filenode_look(op->nodes, &found);
	struct reply_entry e = {0};
	struct reply_open o;
	int err;

	if (!fn) {
		if (!op->packed)
			files_undo(op, reply);
		reply_err(files_op_req(op), -ENOMEM);
		return;
	}
	attr_stat(op, &reply->attr, false, &e.st);
	e.ino = ino_of_session(op->s, op->kind, fn->index);
	/* Of one that it meets for the first time it could not be told yet to drop them. */
	if (fn->lookups > 1)
		e.keep = files_keep(op->s->files, fn, reply->leased);
	if (op->rq.op != VM_CREATE) {
		reply_entry(files_op_req(op), &e);
		return;
	}
	err = make_handle(op, e.ino, reply, &o);
	if (err < 0) {
		filenode_forget(op->nodes, fn->index, 1);
		reply_err(files_op_req(op), err);
	} else {
		reply_create(files_op_req(op), &e, &o);
	}
}

static void answer_attr(struct file_op *op, const struct vm_file_reply *reply)
{
	struct files *f = op->s->files;
	struct stat st;

	attr_stat(op, &reply->attr, op->rq.op == VM_GETATTR, &st);
	if (op->index == 0) { /* the session's, whatever the guest makes of it */
		st.st_ino = op->ino;
		st.st_mode = S_IFDIR | 0700;
		st.st_uid = op->s->uid;
		st.st_gid = op->s->gid;
	}
	if (op->rq.op == VM_GETATTR && op->rq.flags) {
		reply_err(files_op_req(op), files_access(st.st_mode, op->rq.flags));
		return;
	}
	reply_attr(files_op_req(op), &st,
		   op->index ? files_keep(f, filenode_get(op->nodes, op->index), reply->leased)
			     : files_keep_root(f, reply->leased));
}

void files_answer_open(struct file_op *op, const struct vm_file_reply *reply)
{
	struct reply_open o;
	int e = make_handle(op, op->ino, reply, &o);

	if (e < 0)
		reply_err(files_op_req(op), e);
	else
		reply_open(files_op_req(op), &o);
}

static void answer_rename(struct file_op *op)
{
	const struct filenode_move m = files_move_of(op);

	filenode_moved(&op->s->files->nodes, &m, op->rq.flags & RENAME_EXCHANGE);
	reply_err(files_op_req(op), 0);
}

static void answer_removal(struct file_op *op)
{
	filenode_removed(&op->s->files->nodes, op->index, op->name);
	reply_err(files_op_req(op), 0);
}

/* The agent's offsets are shifted past those: they depend on its file system, and an overlay's start at 1, with
 * "." and ".." anywhere among the others. The largest, which marks the end in some, is not shifted. */
uint64_t files_shown_offset(uint64_t offset)
{
	return offset < INT64_MAX - OFFSET_DOTDOT ? offset + OFFSET_DOTDOT : INT64_MAX;
}

/* "." and "..", which the agent leaves out. Return: bytes put at the head of fs->io. */
size_t files_put_dots(struct file_op *op, struct req *req, size_t cap, uint64_t offset)
{
	char *buf = op->s->fs->io;
	size_t len = 0;

	if (offset == 0)
		(void)reply_dirent(req, buf, cap, &len, ".", op->ino, S_IFDIR, OFFSET_DOT);
	if (offset == 0 || offset == OFFSET_DOT)
		(void)reply_dirent(req, buf, cap, &len, "..", op->ino, S_IFDIR, OFFSET_DOTDOT);
	return len;
}

void files_answer_readdir(struct file_op *op, const struct vm_file_reply *reply, uint64_t offset)
{
	struct req *req = files_op_req(op);
	struct fs *fs = op->s->fs;
	size_t cap = MIN(op->rq.size + DOTS_SIZE, sizeof(fs->io)),
	       len = files_put_dots(op, req, cap, offset);

	for (size_t i = 0; i < (reply ? reply->nentries : 0); i++) {
		const struct vm_dirent *d = &reply->entries[i];

		if (!reply_dirent(req, fs->io, cap, &len, d->name, files_shown_ino(op, d->ino),
				  files_shown_mode(d->type), files_shown_offset(d->next)))
			break;
	}
	reply_buf(req, fs->io, len);
}

void files_answer_statfs(struct file_op *op, const struct vm_statfs *a)
{
	const struct statvfs st = {
		.f_bsize = a->bsize,
		.f_frsize = a->bsize,
		.f_blocks = a->blocks,
		.f_bfree = a->bfree,
		.f_bavail = a->bfree,
		.f_files = a->files,
		.f_ffree = a->ffree,
		.f_favail = a->ffree,
		.f_namemax = NAME_MAX,
	};

	reply_statfs(files_op_req(op), &st);
}

/* ---- links ---- */

/*
 * A link's size is the length of its target, and some programs allocate exactly that. The target shown
 * may differ from the guest's (filelink.h), so whenever an answer describes a link, its target is
 * requested as well.
 */

/* Where the link lies that @op is about. */
static uint32_t link_depth(const struct file_op *op, bool *ret_exact)
{
	const struct filenodes *nodes = op->nodes;

	switch ((int)op->rq.op) {
	case VM_GETATTR:
	case VM_SETATTR:
	case VM_READLINK: return filenode_depth(nodes, op->index, ret_exact);
	case VM_LINK: return filenode_depth_in(nodes, op->newparent, ret_exact);
	default: return filenode_depth_in(nodes, op->index, ret_exact);
	}
}

static void answer_readlink(struct file_op *op, const struct vm_file_reply *reply)
{
	const struct filenode *fn = filenode_get(op->nodes, op->index);
	char target[PATH_MAX];
	uint32_t depth, up;
	bool exact = false;
	int e = -EINVAL;

	depth = link_depth(op, &exact);
	if (fn && fn->class == FILENODE_LINK)
		e = filelink_show(reply->data, reply->size, depth, exact, target, sizeof(target),
				  &up);
	if (e < 0) {
		reply_err(files_op_req(op), e);
		return;
	}
	filenode_count_on(op->nodes, op->index, up);
	reply_readlink(files_op_req(op), target);
}

static void set_size(struct file_op *op, const char *target, size_t len)
{
	char shown[PATH_MAX];
	uint32_t depth, up;
	bool exact = false;

	depth = link_depth(op, &exact);
	if (filelink_show(target, len, depth, exact, shown, sizeof(shown), &up) == 0)
		op->linked.attr.size = strlen(shown);
}

static bool describes_a_link(const struct file_op *op, const struct vm_file_reply *reply)
{
	switch ((int)op->rq.op) {
	case VM_LOOKUP:
	case VM_SYMLINK:
	case VM_LINK:
	case VM_GETATTR:
	case VM_SETATTR: return S_ISLNK(reply->attr.mode);
	default: return false;
	}
}

bool files_measure_link(struct file_op *op, const struct vm_file_reply *reply, vm_file_fn fn)
{
	const bool named = op->rq.op == VM_LOOKUP || op->rq.op == VM_SYMLINK;
	const struct vm_file rq = {.op = VM_READLINK, .node = named ? reply->node : op->rq.node};

	if (!op->req || !describes_a_link(op, reply))
		return false;
	op->linked = *reply;
	op->measuring = true;
	return sandbox_file(op->s->sandbox, &rq, fn, op) == 0;
}

const struct vm_file_reply *files_link_measured(struct file_op *op, int err,
						const struct vm_file_reply *reply)
{
	/* A target that cannot be read now leaves the size that the guest said. */
	if (err == 0)
		set_size(op, reply->data, reply->size);
	/* A run may have begun since the first answer. */
	op->linked.leased = err == 0 && reply->leased;
	return &op->linked;
}

static void answer_origin(struct file_op *op, const struct vm_file_reply *reply)
{
	char text[AUTHOR_SHOWN];
	const size_t len = author_show(op->s, reply->data, reply->size, text);

	if (len)
		reply_xattr(files_op_req(op), text, len, op->rq.size);
	else
		reply_err(files_op_req(op), -ENODATA);
}

/* ---- all of them ---- */

void files_answer(struct file_op *op, const struct vm_file_reply *reply)
{
	switch (op->rq.op) {
	case VM_LOOKUP:
	case VM_MKDIR:
	case VM_SYMLINK:
	case VM_LINK:
	case VM_CREATE: answer_entry(op, reply); break;
	case VM_GETATTR:
	case VM_SETATTR: answer_attr(op, reply); break;
	case VM_READLINK: answer_readlink(op, reply); break;
	case VM_ORIGIN: answer_origin(op, reply); break;
	case VM_OPEN:
	case VM_OPENDIR: files_answer_open(op, reply); break;
	/* What the agent has been told of is written down, and who reads once more gets the same. */
	case VM_READ: reply_buf_at_once(files_op_req(op), reply->data, reply->size); break;
	case VM_WRITE: reply_write(files_op_req(op), reply->size); break;
	case VM_SEEK: reply_lseek(files_op_req(op), reply->offset); break;
	case VM_READDIR: files_answer_readdir(op, reply, op->rq.lookups); break;
	case VM_STATFS: files_answer_statfs(op, &reply->statfs); break;
	case VM_RENAME: answer_rename(op); break;
	case VM_UNLINK:
	case VM_RMDIR: answer_removal(op); break;
	case VM_FSYNC:
	case VM_FALLOCATE:
	case VM_LOCK:
	case VM_DROP_LOCKS: reply_err(files_op_req(op), 0); break;
	case VM_TEST_LOCK:
		reply_lock(files_op_req(op), reply->lock.type, reply->lock.start, reply->lock.end,
			   reply->lock.pid);
		break;
	case VM_FORGET:
	case VM_RELEASE:
	case VM_CANCEL_LOCK:
	case VM_NFILEOPS: assert(0);
	}
}
