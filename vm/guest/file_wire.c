/* SPDX-License-Identifier: Apache-2.0 */
/* File requests and their answers on the wire. See file_wire.h. */
#include "file_wire.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "channel.h"
#include "early.h"
#include "vm/base/util.h"

/* What a request consists of, in the order of the wire. */
enum part {
	NOTHING,
	NODE,
	HANDLE,
	NEWPARENT,
	FLAGS,
	MODE,
	OFFSET,
	LENGTH,
	SIZE,
	LOOKUPS,
	NAME,
	NEWNAME,
	DATA,
	OWNER,
	TOKEN,
	UNDO,
	ATTRIBUTES,
	LOCK,
};

/* What there is in an answer, behind the errno. */
enum answer {
	A_NONE, /* there is no answer */
	A_NOTHING,
	A_ENTRY,
	A_CREATED, /* an entry and a handle */
	A_ATTRIBUTES,
	A_TARGET,
	A_TEXT,
	A_HANDLE,
	A_OFFSET,
	A_TRANSFER, /* what was read or written */
	A_LISTING,
	A_STATFS,
	A_LOCK,
	A_WAITS,
};

static const struct {
	enum proto_type type;
	enum answer answer;
	enum part parts[5];
} ops[] = {
	[VM_LOOKUP] = {PROTO_F_LOOKUP, A_ENTRY, {NODE, NAME}},
	[VM_FORGET] = {PROTO_F_FORGET, A_NONE, {NODE, LOOKUPS}},
	[VM_GETATTR] = {PROTO_F_GETATTR, A_ATTRIBUTES, {NODE, HANDLE}},
	[VM_SETATTR] = {PROTO_F_SETATTR, A_ATTRIBUTES, {ATTRIBUTES}},
	[VM_READLINK] = {PROTO_F_READLINK, A_TARGET, {NODE}},
	[VM_MKDIR] = {PROTO_F_MKDIR, A_ENTRY, {NODE, MODE, NAME}},
	[VM_SYMLINK] = {PROTO_F_SYMLINK, A_ENTRY, {NODE, NAME, NEWNAME}},
	[VM_LINK] = {PROTO_F_LINK, A_ENTRY, {NODE, NEWPARENT, NEWNAME}},
	[VM_UNLINK] = {PROTO_F_UNLINK, A_NOTHING, {NODE, NAME}},
	[VM_RMDIR] = {PROTO_F_RMDIR, A_NOTHING, {NODE, NAME}},
	[VM_RENAME] = {PROTO_F_RENAME, A_NOTHING, {NODE, NEWPARENT, FLAGS, NAME, NEWNAME}},
	[VM_OPEN] = {PROTO_F_OPEN, A_HANDLE, {NODE, FLAGS}},
	[VM_CREATE] = {PROTO_F_CREATE, A_CREATED, {NODE, FLAGS, MODE, NAME}},
	[VM_READ] = {PROTO_F_READ, A_TRANSFER, {HANDLE, OFFSET, SIZE}},
	[VM_WRITE] = {PROTO_F_WRITE, A_TRANSFER, {HANDLE, OFFSET, DATA}},
	[VM_RELEASE] = {PROTO_F_RELEASE, A_NONE, {HANDLE}},
	[VM_FSYNC] = {PROTO_F_FSYNC, A_NOTHING, {HANDLE}},
	[VM_FALLOCATE] = {PROTO_F_FALLOCATE, A_NOTHING, {HANDLE, FLAGS, OFFSET, LENGTH}},
	[VM_SEEK] = {PROTO_F_SEEK, A_OFFSET, {HANDLE, OFFSET, FLAGS}},
	[VM_OPENDIR] = {PROTO_F_OPENDIR, A_HANDLE, {NODE}},
	[VM_READDIR] = {PROTO_F_READDIR, A_LISTING, {HANDLE, OFFSET, SIZE}},
	[VM_STATFS] = {PROTO_F_STATFS, A_STATFS, {NOTHING}},
	[VM_LOCK] = {PROTO_F_LOCK, A_WAITS, {LOCK}},
	[VM_TEST_LOCK] = {PROTO_F_TEST_LOCK, A_LOCK, {LOCK}},
	[VM_DROP_LOCKS] = {PROTO_F_DROP_LOCKS, A_NOTHING, {HANDLE, OWNER}},
	[VM_CANCEL_LOCK] = {PROTO_F_CANCEL_LOCK, A_NONE, {TOKEN, UNDO}},
	[VM_ORIGIN] = {PROTO_F_ORIGIN, A_TEXT, {NODE}},
};
static_assert(ARRAY_SIZE(ops) == VM_NFILEOPS, "a row for each operation");

/* ---- questions ---- */

static void pack_setattr(struct proto_out *o, const struct vm_file *req)
{
	const struct proto_setattr s = {
		.node = req->node,
		.handle = req->handle,
		.valid = req->valid,
		.mode = req->mode,
		.size = req->length,
		.atime = req->atime.tv_sec,
		.mtime = req->mtime.tv_sec,
		.atime_ns = (uint32_t)req->atime.tv_nsec,
		.mtime_ns = (uint32_t)req->mtime.tv_nsec,
	};

	proto_setattr_pack(o, &s);
}

static void pack_lock(struct proto_out *o, const struct vm_file *req)
{
	const struct vm_lock *v = &req->lock;
	const struct proto_lock l = {
		.handle = req->handle,
		.owner = v->owner,
		.token = v->token,
		.start = v->start,
		.end = v->end,
		.flags = (v->wait ? PROTO_LOCK_WAIT : 0) | (v->whole ? PROTO_LOCK_WHOLE : 0),
		.type = (uint32_t)v->type,
		.pid = v->pid,
	};

	proto_lock_pack(o, &l);
}

/* @skip: of a read or write, so many bytes are not of this piece; @size: so many are. */
static void pack_part(struct proto_out *o, const struct vm_file *req, enum part part, size_t skip,
		      size_t size)
{
	switch (part) {
	case NODE: put_u64(o, req->node); break;
	case HANDLE: put_u64(o, req->handle); break;
	case NEWPARENT: put_u64(o, req->newparent); break;
	case FLAGS: put_u32(o, req->flags); break;
	case MODE: put_u32(o, req->mode); break;
	case OFFSET: put_u64(o, req->offset + skip); break;
	case LENGTH: put_u64(o, req->length); break;
	case SIZE: put_u32(o, (uint32_t)size); break;
	case LOOKUPS: put_u64(o, req->lookups); break;
	case NAME: put_str(o, proto_cstr(req->name)); break;
	case NEWNAME: put_str(o, proto_cstr(req->newname)); break;
	case DATA: break; /* the last */
	case OWNER: put_u64(o, req->lock.owner); break;
	case TOKEN: put_u64(o, req->lock.token); break;
	case UNDO: put_u32(o, req->lock.undo); break;
	case ATTRIBUTES: pack_setattr(o, req); break;
	case LOCK: pack_lock(o, req); break;
	case NOTHING: break;
	}
}

struct channel_frame *file_wire_pack(const struct vm_file *req, size_t skip, size_t size,
				     struct sheets *sheets)
{
	size_t room = 128 + (req->op == VM_WRITE ? size : 0);
	struct channel_frame *f;

	room += (req->name ? strlen(req->name) : 0) + (req->newname ? strlen(req->newname) : 0);
	f = channel_frame_new(ops[req->op].type, 0, room);
	for (size_t i = 0; f && i < ARRAY_SIZE(ops[0].parts); i++)
		pack_part(&f->out, req, ops[req->op].parts[i], skip, size);
	if (f && req->op == VM_WRITE)
		channel_frame_add(f, sheets, (const uint8_t *)req->data + skip, size);
	return f;
}

enum proto_type file_wire_type(enum vm_file_op op)
{
	return ops[op].type;
}

enum vm_file_op file_wire_op(uint64_t type)
{
	unsigned op = 0;

	while (op < VM_NFILEOPS && (uint64_t)ops[op].type != type)
		op++;
	return (enum vm_file_op)op;
}

/* ---- answers ---- */

enum file_answer file_wire_answer(enum vm_file_op op)
{
	switch ((int)ops[op].answer) {
	case A_NONE: return FILE_ANSWER_NONE;
	case A_TRANSFER: return FILE_ANSWER_TRANSFER;
	case A_LISTING: return FILE_ANSWER_LISTING;
	default: return FILE_ANSWER_OTHER;
	}
}

/* On ENOSYS a kernel never asks for the like again: all files of the mount, of whatever session, would do without. */
int file_wire_errno(uint32_t err)
{
	return err < 134 && err != ENOSYS ? -(int)err : -EIO;
}

static struct timespec reply_time(int64_t s, uint32_t ns)
{
	return (struct timespec){.tv_sec = s, .tv_nsec = ns < 1000000000 ? (long)ns : 0};
}

static bool known_type(uint32_t mode)
{
	switch (mode & S_IFMT) {
	case S_IFREG:
	case S_IFDIR:
	case S_IFLNK:
	case S_IFIFO:
	case S_IFSOCK:
	case S_IFCHR:
	case S_IFBLK: return true;
	default: return false;
	}
}

int file_wire_attr(struct proto_in *in, struct vm_attr *ret)
{
	struct proto_attr a;

	proto_attr_get(in, &a);
	ret->ino = a.ino;
	ret->mode = a.mode & (S_IFMT | 0777 | S_ISVTX);
	ret->nlink = a.nlink;
	ret->size = MIN(a.size, (uint64_t)INT64_MAX);
	ret->blocks = MIN(a.blocks, (uint64_t)INT64_MAX / 512);
	ret->atime = reply_time(a.atime, a.atime_ns);
	ret->mtime = reply_time(a.mtime, a.mtime_ns);
	ret->ctime = reply_time(a.ctime, a.ctime_ns);
	return in->bad || known_type(a.mode) ? 0 : -EIO;
}

/* Is it of the kind that was to be made? If not, the kernel says so to its caller, and keeps to itself that it will
 * give back neither the lookup nor the handle. */
static bool fits(enum vm_file_op op, uint32_t mode)
{
	switch ((int)op) {
	case VM_CREATE: return S_ISREG(mode);
	case VM_MKDIR: return S_ISDIR(mode);
	case VM_SYMLINK: return S_ISLNK(mode);
	default: return true;
	}
}

static int reply_entry(enum vm_file_op op, struct proto_in *in, struct vm_file_reply *ret)
{
	ret->node = get_u64(in);
	if (file_wire_attr(in, &ret->attr) < 0 ||
	    (!in->bad && (ret->node == 0 || !fits(op, ret->attr.mode))))
		return -EIO;
	return 0;
}

static void reply_statfs(struct proto_in *in, struct vm_statfs *ret)
{
	ret->bsize = get_u64(in);
	ret->blocks = get_u64(in);
	ret->bfree = get_u64(in);
	ret->files = get_u64(in);
	ret->ffree = get_u64(in);
	if (ret->bsize == 0 || ret->bsize > 1u << 20)
		ret->bsize = 4096;
	ret->bfree = MIN(ret->bfree, ret->blocks);
	ret->ffree = MIN(ret->ffree, ret->files);
}

static int reply_lock(struct proto_in *in, struct vm_lock *ret)
{
	uint32_t type = get_u32(in);

	ret->type = (enum proto_lock_type)type;
	ret->start = get_u64(in);
	ret->end = get_u64(in);
	ret->pid = get_u32(in);
	if (in->bad)
		return 0; /* which the caller sees */
	return type > PROTO_LOCK_EXCLUSIVE || ret->end > INT64_MAX || ret->start > ret->end ? -EIO
											    : 0;
}

int file_wire_listing(struct proto_in *in, size_t max, struct vm_file_reply *ret_reply,
		      void **ret_memory)
{
	const size_t len = (size_t)(in->end - in->p);
	struct vm_dirent *entries;
	char *names;

	if (len > max)
		return -EPROTO;
	/* The smallest entry has 24 bytes and a name; the names with their terminators fit in len. */
	entries = *ret_memory = malloc((len / 25 + 1) * sizeof(*entries) + len + 1);
	if (!entries)
		return -ENOMEM;
	names = (char *)(entries + len / 25 + 1);
	while (!in->bad && in->p < in->end) {
		struct vm_dirent *e = &entries[ret_reply->nentries];
		struct proto_dirent d;

		proto_dirent_get(in, &d);
		if (in->bad)
			return -EPROTO;
		if (!proto_name_ok(d.name) || !known_type(d.type))
			continue;
		*e = (struct vm_dirent){d.ino, d.next, d.type & S_IFMT, names};
		memcpy(names, d.name.data, d.name.len);
		names += d.name.len;
		*names++ = '\0';
		ret_reply->nentries++;
	}
	ret_reply->entries = entries;
	return 0;
}

int file_wire_reply(enum vm_file_op op, struct proto_in *in, struct vm_file_reply *ret_reply,
		    bool *ret_waits)
{
	struct proto_str s;
	int r = 0;

	switch (ops[op].answer) {
	case A_ENTRY: r = reply_entry(op, in, ret_reply); break;
	case A_CREATED:
		r = reply_entry(op, in, ret_reply);
		ret_reply->handle = get_u64(in);
		if (ret_reply->handle & EARLY_HANDLE)
			r = -EIO;
		break;
	case A_ATTRIBUTES: r = file_wire_attr(in, &ret_reply->attr); break;
	case A_TARGET:
		s = get_str(in, PROTO_LINK_MAX);
		if (s.len == 0 || memchr(s.data, '\0', s.len))
			r = -EIO;
		ret_reply->data = s.data;
		ret_reply->size = s.len;
		break;
	case A_TEXT:
		s = get_str(in, PROTO_ORIGIN_MAX);
		for (uint32_t i = 0; i < s.len; i++)
			r = s.data[i] < ' ' || s.data[i] > '~' ? -EIO : r;
		ret_reply->data = s.data;
		ret_reply->size = s.len;
		break;
	case A_HANDLE:
		ret_reply->handle = get_u64(in);
		if (ret_reply->handle & EARLY_HANDLE)
			r = -EIO;
		break;
	case A_OFFSET:
		ret_reply->offset = get_u64(in);
		if (ret_reply->offset > INT64_MAX)
			r = -EIO;
		break;
	case A_STATFS: reply_statfs(in, &ret_reply->statfs); break;
	case A_LOCK: r = reply_lock(in, &ret_reply->lock); break;
	case A_WAITS: *ret_waits = get_u32(in); break;
	case A_NONE:
	case A_NOTHING:
	case A_TRANSFER:
	case A_LISTING: break;
	}
	return get_end(in) ? r : -EPROTO;
}
