/* SPDX-License-Identifier: Apache-2.0 */
/* Requests on files that were saved. See packed.h. */
#include "packed.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fs/request/reply.h"
#include "fs/session/fs.h"
#include "fs/session/quota.h"
#include "fs/session/session.h"
#include "internal.h"
#include "listing.h"

/*
 * Theory of operation
 * -------------------
 * The answers are those that an agent would give, and go the same way to the kernel (answer.c), so that links and names
 * are shown by the same rules. The number that a node has at the agent is that of the pack's entry here. Two names of one
 * file are two entries, and two nodes; that they are one file, its inode number says.
 */

bool packed_reads(const struct vm_file *rq)
{
	switch ((int)rq->op) {
	case VM_LOOKUP:
	case VM_GETATTR:
	case VM_READLINK:
	case VM_ORIGIN:
	case VM_OPENDIR:
	case VM_READDIR:
	case VM_READ:
	case VM_SEEK:
	case VM_FSYNC:
	case VM_STATFS: return true;
	case VM_OPEN: return (rq->flags & O_ACCMODE) == O_RDONLY && !(rq->flags & O_TRUNC);
	default: return false;
	}
}

/* A session's files have the numbers that they have in its sandbox. */
static struct vm_attr attr_of(const struct file_op *op, const struct pack *pack, uint32_t entry)
{
	struct pack_attr a;

	pack_attr(pack, entry, &a);
	return (struct vm_attr){
		.ino = a.number && !op->place ? a.number : a.file,
		.mode = a.mode & ~(uint32_t)(S_ISUID | S_ISGID),
		.nlink = a.nlink,
		.size = a.size,
		.blocks = a.blocks,
		.atime = a.mtime,
		.mtime = a.mtime,
		.ctime = a.mtime,
	};
}

/* An answer that describes an entry. */
static void describe(struct file_op *op, const struct pack *pack, uint32_t entry)
{
	const struct vm_file_reply r = {.node = entry, .attr = attr_of(op, pack, entry)};
	const char *target = S_ISLNK(r.attr.mode) ? pack_target(pack, entry) : NULL;
	struct vm_file_reply link = {.data = target, .size = target ? strlen(target) : 0};
	struct pack_attr a;

	pack_attr(pack, entry, &a);
	op->unnumbered = !a.number;
	op->linked = r;
	files_answer(op, target ? files_link_measured(op, 0, &link) : &r);
}

static int look_up(struct file_op *op, const struct pack *pack, uint32_t dir)
{
	uint32_t entry;
	const int e = pack_lookup(pack, dir, op->name, &entry);

	if (e == 0)
		describe(op, pack, entry);
	return e;
}

static int read_link(struct file_op *op, const struct pack *pack, uint32_t entry)
{
	const char *target = pack_target(pack, entry);
	const struct vm_file_reply r = {.data = target, .size = target ? strlen(target) : 0};

	if (!target)
		return -EINVAL;
	files_answer(op, &r);
	return 0;
}

static int tell_origin(struct file_op *op, const struct pack *pack, uint32_t entry)
{
	const char *text = pack_origin(pack, entry);
	const struct vm_file_reply r = {.data = text, .size = text ? strlen(text) : 0};

	files_answer(op, &r);
	return 0;
}

struct file_was *packed_was(const struct pack *pack, uint32_t entry)
{
	struct file_was *was;
	struct pack_attr a;
	size_t len = 0;

	for (uint32_t at = entry; at != PACK_ROOT; at = pack_parent(pack, at))
		len += strlen(pack_name(pack, at)) + 1;
	was = len && len <= PATH_MAX ? malloc(sizeof(*was) + len) : NULL;
	if (!was)
		return NULL;
	pack_attr(pack, entry, &a);
	was->number = a.number;
	was->length = (uint32_t)len;
	was->size = a.size;
	was->mtime = a.mtime;
	was->path[--len] = '\0';
	for (uint32_t at = entry; at != PACK_ROOT; at = pack_parent(pack, at)) {
		const char *name = pack_name(pack, at);

		len -= strlen(name);
		memcpy(was->path + len, name, strlen(name));
		if (len)
			was->path[--len] = '/';
	}
	return was;
}

/* By which locks are known, whatever the name. */
static uint64_t file_key(const struct file_op *op, const struct pack *pack, uint32_t entry)
{
	struct pack_attr a;

	pack_attr(pack, entry, &a);
	return ino_of_session(op->s, op->kind, a.file);
}

/* Never 0, which stands for a directory of no sandbox. */
static uint64_t handle_number(uint32_t entry)
{
	return (uint64_t)entry + 1;
}

static int open_entry(struct file_op *op, const struct pack *pack, uint32_t entry)
{
	const struct vm_file_reply r = {.handle = handle_number(entry)};
	const struct vm_attr a = attr_of(op, pack, entry);
	int e;

	if (op->rq.op == VM_OPENDIR && !S_ISDIR(a.mode))
		return -ENOTDIR;
	if (op->rq.op == VM_OPEN && !S_ISREG(a.mode))
		return S_ISDIR(a.mode) ? -EISDIR : -EPERM;
	if (op->rq.op == VM_OPEN && op->kind == NODE_FILE)
		op->was = packed_was(pack, entry);
	if (op->rq.op == VM_OPEN)
		op->file = file_key(op, pack, entry);
	e = op->was ? quota_check(op->s->fs, op->s, file_was_bytes(op->was)) : 0;
	if (e < 0)
		return e;
	files_answer_open(op, &r);
	return 0;
}

static int read_file(struct file_op *op, const struct pack *pack, uint32_t entry)
{
	char *io = op->s->fs->io;
	const ssize_t n =
		pack_pread(pack, entry, io, MIN(op->rq.size, (size_t)FS_IO_MAX), op->rq.offset);

	if (n < 0)
		return (int)n;
	reply_buf(files_op_req(op), io, (size_t)n);
	return 0;
}

/* What copies or packs files reads no holes, be they ever so long: code inside makes one of a terabyte in an instant. */
static int seek(struct file_op *op, const struct pack *pack, uint32_t entry)
{
	uint64_t at;
	const int e = pack_seek(pack, entry, op->rq.offset, (int)op->rq.flags, &at);

	if (e == 0)
		reply_lseek(files_op_req(op), at);
	return e;
}

static int stat_fs(struct file_op *op, const struct pack *pack)
{
	const struct vm_statfs st = {
		.bsize = 4096,
		.blocks = (pack_bytes(pack) + 4095) / 4096,
		.files = pack_entries(pack),
	};

	files_answer_statfs(op, &st);
	return 0;
}

struct listing {
	struct file_op *op;
	const struct pack *pack;
	struct req *req;
	size_t len, cap;
	int err;
};

static bool put(void *data, const char *name, uint32_t entry, uint64_t offset)
{
	struct listing *l = data;
	const struct vm_attr a = attr_of(l->op, l->pack, entry);

	return reply_dirent(l->req, l->op->s->fs->io, l->cap, &l->len, name,
			    files_shown_ino(l->op, a.ino), files_shown_mode(a.mode) & S_IFMT,
			    files_shown_offset(offset));
}

static bool put_whole(void *data, const char *name, uint32_t entry, uint64_t offset)
{
	struct listing *l = data;
	const struct vm_attr a = attr_of(l->op, l->pack, entry);

	(void)offset;
	l->err = listing_add(l->op, name, files_shown_ino(l->op, a.ino),
			     files_shown_mode(a.mode) & S_IFMT);
	return l->err == 0;
}

/* All of it at once. The handle is one of what is saved from now on. Return: 0, or -errno: there is no room for it. */
static int list_whole(struct file_op *op, const struct pack *pack, uint32_t dir)
{
	struct handle *h = handle_get(&op->s->fs->handles, op->fh);
	struct listing l = {.op = op, .pack = pack};

	if (!h)
		return -EBADF;
	h->remote = handle_number(dir);
	h->epoch = op->epoch;
	h->packed = true;
	handle_touch(h);
	pack_list(pack, dir, 0, put_whole, &l);
	if (l.err == 0 && !quota_fits(op->s->fs, op->s, op->listed))
		l.err = -EDQUOT;
	if (l.err == 0)
		listing_end(op);
	return l.err;
}

static int list(struct file_op *op, const struct pack *pack, uint32_t dir)
{
	struct fs *fs = op->s->fs;
	struct listing l = {.op = op, .pack = pack};

	if (op->listing && list_whole(op, pack, dir) == 0)
		return 0;
	if (op->listing)
		listing_leave(op);
	l.req = files_op_req(op);
	l.cap = MIN(op->rq.size + DOTS_SIZE, sizeof(fs->io));
	l.len = files_put_dots(op, l.req, l.cap, op->rq.lookups);
	pack_list(pack, dir, op->rq.offset, put, &l);
	reply_buf(l.req, fs->io, l.len);
	return 0;
}

static int answer(struct file_op *op, const struct pack *pack, uint32_t entry)
{
	switch ((int)op->rq.op) {
	case VM_LOOKUP: return look_up(op, pack, entry);
	case VM_GETATTR: describe(op, pack, entry); return 0;
	case VM_READLINK: return read_link(op, pack, entry);
	case VM_ORIGIN: return tell_origin(op, pack, entry);
	case VM_OPEN:
	case VM_OPENDIR: return open_entry(op, pack, entry);
	case VM_READDIR: return list(op, pack, entry);
	case VM_READ: return read_file(op, pack, entry);
	case VM_SEEK: return seek(op, pack, entry);
	case VM_FSYNC: reply_err(files_op_req(op), 0); return 0;
	case VM_STATFS: return stat_fs(op, pack);
	default: assert(0); return -EROFS;
	}
}

void packed_answer(struct file_op *op, const struct pack *pack)
{
	const struct filenode *fn = op->index ? filenode_get(op->nodes, op->index) : NULL;
	int e;

	op->packed = true;
	if (!op->req)
		return;
	e = !pack ? -EIO : answer(op, pack, fn ? (uint32_t)fn->remote : PACK_ROOT);
	if (e < 0)
		reply_err(files_op_req(op), e);
}

/* ---- what is not in memory ---- */

static void on_loaded(struct wait *w, const struct problem *why)
{
	struct file_op *op = container_of(w, struct file_op, wait);

	files_op_list(op, NULL);
	op->loaded(op, why);
}

void packed_load(struct file_op *op, struct saved *saved,
		 void (*loaded)(struct file_op *op, const struct problem *why))
{
	saved_unref(op->saved);
	op->saved = saved_ref(saved);
	op->loaded = loaded;
	op->wait.done = on_loaded;
	op->wait.owner = op->s->uid;
	files_op_list(op, &op->s->files->loading);
	saved_load_files(saved, &op->wait);
}
