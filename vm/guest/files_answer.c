/* SPDX-License-Identifier: Apache-2.0 */
/* The agent's answers to file requests: checked, brought into range, and handed on. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "files_internal.h"
#include "vm/base/util.h"

int guest_file_errno(uint32_t err)
{
	return err < 134 ? -(int)err : -EIO;
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

/* Return: 0, or -EIO for what is no file that could be shown. */
static int reply_attr(struct proto_in *in, struct vm_attr *ret)
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

static int reply_entry(struct proto_in *in, struct vm_file_reply *ret)
{
	ret->node = get_u64(in);
	if (reply_attr(in, &ret->attr) < 0 || (!in->bad && ret->node == 0))
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

	ret->type = (enum vm_lock_type)type;
	ret->start = get_u64(in);
	ret->end = get_u64(in);
	ret->pid = get_u32(in);
	if (in->bad)
		return 0; /* which the caller sees */
	return type > VM_LOCK_EXCLUSIVE || ret->end > INT64_MAX || ret->start > ret->end ? -EIO : 0;
}

/* Entries with impossible names are left out; the others get terminated copies. */
int guest_file_answer_dir(struct file_call *call, struct proto_in *in)
{
	const size_t len = (size_t)(in->end - in->p);
	struct vm_file_reply reply = {0};
	struct vm_dirent *entries;
	_cleanup_free_ void *memory = NULL;
	char *names;

	if (len > call->size)
		return -EPROTO;
	/* The smallest entry has 24 bytes and a name; the names with their terminators fit in len. */
	memory = malloc((len / 25 + 1) * sizeof(*entries) + len + 1);
	if (!memory) {
		call->fn(call->data, -ENOMEM, NULL);
		return 0;
	}
	entries = memory;
	names = (char *)(entries + len / 25 + 1);
	while (!in->bad && in->p < in->end) {
		struct vm_dirent *e = &entries[reply.nentries];
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
		reply.nentries++;
	}
	reply.entries = entries;
	call->fn(call->data, 0, &reply);
	return 0;
}

int guest_file_answer(struct file_call *call, struct proto_in *in)
{
	struct vm_file_reply reply = {0};
	struct proto_str s;
	int r = 0;

	switch (call->op) {
	case VM_LOOKUP:
	case VM_MKDIR:
	case VM_SYMLINK:
	case VM_LINK: r = reply_entry(in, &reply); break;
	case VM_CREATE:
		r = reply_entry(in, &reply);
		reply.handle = get_u64(in);
		break;
	case VM_GETATTR:
	case VM_SETATTR: r = reply_attr(in, &reply.attr); break;
	case VM_READLINK:
		s = get_str(in, PROTO_LINK_MAX);
		if (s.len == 0 || memchr(s.data, '\0', s.len))
			r = -EIO;
		reply.data = s.data;
		reply.size = s.len;
		break;
	case VM_OPEN:
	case VM_OPENDIR: reply.handle = get_u64(in); break;
	case VM_SEEK:
		reply.offset = get_u64(in);
		if (reply.offset > INT64_MAX)
			r = -EIO;
		break;
	case VM_STATFS: reply_statfs(in, &reply.statfs); break;
	case VM_TEST_LOCK: r = reply_lock(in, &reply.lock); break;
	case VM_LOCK:
		/* An answer that is none yet: see guest_file_locked(). */
		call->waits = get_u32(in) && call->may_wait;
		if (call->waits && get_end(in))
			return 0;
		break;
	case VM_UNLINK:
	case VM_RMDIR:
	case VM_RENAME:
	case VM_FSYNC:
	case VM_FALLOCATE:
	case VM_FORGET:
	case VM_RELEASE:
	case VM_DROP_LOCKS:
	case VM_CANCEL_LOCK:
	case VM_READ:
	case VM_WRITE:
	case VM_READDIR:
	case VM_NFILEOPS: break;
	}
	if (!get_end(in))
		return -EPROTO;
	call->fn(call->data, r, r < 0 ? NULL : &reply);
	return 0;
}
