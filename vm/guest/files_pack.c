/* SPDX-License-Identifier: Apache-2.0 */
/* File requests in the form that the agent reads. */
#include <assert.h>

#include "files_internal.h"

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

	static_assert(VM_SET_MODE == PROTO_SET_MODE && VM_SET_SIZE == PROTO_SET_SIZE &&
			      VM_SET_ATIME == PROTO_SET_ATIME && VM_SET_MTIME == PROTO_SET_MTIME &&
			      VM_SET_ATIME_NOW == PROTO_SET_ATIME_NOW &&
			      VM_SET_MTIME_NOW == PROTO_SET_MTIME_NOW,
		      "the seam and the protocol agree");
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

	static_assert((int)VM_UNLOCK == (int)PROTO_UNLOCK &&
			      (int)VM_LOCK_SHARED == (int)PROTO_LOCK_SHARED &&
			      (int)VM_LOCK_EXCLUSIVE == (int)PROTO_LOCK_EXCLUSIVE,
		      "the seam and the protocol agree");
	proto_lock_pack(o, &l);
}

/* Takes back all that a handle's owner holds, or one lock that is waited for. */
static void pack_unlock(struct proto_out *o, const struct vm_file *req)
{
	if (req->op == VM_DROP_LOCKS) {
		put_u64(o, req->handle);
		put_u64(o, req->lock.owner);
	} else {
		put_u64(o, req->lock.token);
		put_u32(o, req->lock.undo);
	}
}

/* The operations on names. */
static void pack_name(struct proto_out *o, const struct vm_file *req)
{
	put_u64(o, req->node);
	switch ((unsigned)req->op) {
	case VM_MKDIR: put_u32(o, req->mode); break;
	case VM_CREATE:
		put_u32(o, req->flags);
		put_u32(o, req->mode);
		break;
	case VM_LINK: put_u64(o, req->newparent); break;
	case VM_RENAME:
		put_u64(o, req->newparent);
		put_u32(o, req->flags);
		break;
	default: break;
	}
	if (req->op != VM_LINK)
		put_str(o, proto_cstr(req->name));
	if (req->op == VM_LINK || req->op == VM_RENAME || req->op == VM_SYMLINK)
		put_str(o, proto_cstr(req->newname));
}

void guestfile_pack(struct proto_out *o, const struct vm_file *req, size_t skip, size_t size)
{
	switch (req->op) {
	case VM_LOOKUP:
	case VM_MKDIR:
	case VM_SYMLINK:
	case VM_LINK:
	case VM_UNLINK:
	case VM_RMDIR:
	case VM_RENAME:
	case VM_CREATE: pack_name(o, req); break;
	case VM_SETATTR: pack_setattr(o, req); break;
	case VM_FORGET:
		put_u64(o, req->node);
		put_u64(o, req->lookups);
		break;
	case VM_GETATTR:
		put_u64(o, req->node);
		put_u64(o, req->handle);
		break;
	case VM_READLINK:
	case VM_OPENDIR: put_u64(o, req->node); break;
	case VM_OPEN:
		put_u64(o, req->node);
		put_u32(o, req->flags);
		break;
	case VM_READ:
	case VM_READDIR:
		put_u64(o, req->handle);
		put_u64(o, req->offset + skip);
		put_u32(o, (uint32_t)size);
		break;
	case VM_WRITE:
		put_u64(o, req->handle);
		put_u64(o, req->offset + skip);
		put_bytes(o, (const uint8_t *)req->data + skip, size);
		break;
	case VM_RELEASE:
	case VM_FSYNC: put_u64(o, req->handle); break;
	case VM_FALLOCATE:
		put_u64(o, req->handle);
		put_u32(o, req->flags);
		put_u64(o, req->offset);
		put_u64(o, req->length);
		break;
	case VM_SEEK:
		put_u64(o, req->handle);
		put_u64(o, req->offset);
		put_u32(o, req->flags);
		break;
	case VM_LOCK:
	case VM_TEST_LOCK: pack_lock(o, req); break;
	case VM_DROP_LOCKS:
	case VM_CANCEL_LOCK: pack_unlock(o, req); break;
	case VM_STATFS:
	case VM_NFILEOPS: break;
	}
}
