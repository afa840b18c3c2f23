/* SPDX-License-Identifier: Apache-2.0 */
/* Answers to the kernel, by libfuse. */
#include "reply.h"

#include <errno.h>
#include <fcntl.h>
#include <fuse_lowlevel.h>
#include <linux/fuse.h>

#include "agent/protocol.h"
#include "vm/base/util.h"

/* How long the kernel may keep names and attributes, in seconds. Most not at all: what the daemon
 * and the guest change must be seen at once, and notifications from a single-threaded server can
 * deadlock with requests that it holds. */
#define VOLATILE 0.0
#define BRIEF	 0.05
#define STABLE	 86400.0

/* libfuse tells who passes its answers on nothing about them. */
static bool at_once;

static fuse_req_t native(struct req *req)
{
	return (fuse_req_t)req;
}

void req_ctx(struct req *req, struct req_ctx *ret_ctx)
{
	const struct fuse_ctx *ctx = fuse_req_ctx(native(req));

	*ret_ctx = (struct req_ctx){.uid = ctx->uid, .gid = ctx->gid, .pid = ctx->pid};
}

void req_on_interrupt(struct req *req, void (*fn)(struct req *req, void *data), void *data)
{
	union {
		void (*ours)(struct req *, void *);
		fuse_interrupt_func_t theirs;
	} u = {.ours = fn};

	/* libfuse would call it with the request's lock, which an answer frees. */
	if (fn && fuse_req_interrupted(native(req)))
		fn(req, data);
	else
		fuse_req_interrupt_func(native(req), u.theirs, data);
}

/* How long the kernel may take names and attributes for true, in seconds. */
static const struct {
	double name, attr;
} keeps[] = {
	[REPLY_KEEP_NOTHING] = {VOLATILE, VOLATILE}, [REPLY_KEEP_NAME] = {STABLE, VOLATILE},
	[REPLY_KEEP_ATTR] = {VOLATILE, BRIEF},	     [REPLY_KEEP_WALK] = {BRIEF, BRIEF},
	[REPLY_KEEP_ALL] = {STABLE, STABLE},
};

static struct fuse_entry_param entry_param(const struct reply_entry *e)
{
	struct fuse_entry_param p = {
		.ino = e->ino,
		.attr = e->st,
		.attr_timeout = keeps[e->keep].attr,
		.entry_timeout = keeps[e->keep].name,
	};

	if (!p.attr.st_ino)
		p.attr.st_ino = e->ino;
	return p;
}

static struct fuse_file_info file_info(const struct reply_open *o)
{
	struct fuse_file_info fi = {.fh = o->fh,
				    .direct_io = o->direct_io,
				    .noflush = o->noflush,
				    .nonseekable = o->stream};

	return fi;
}

void reply_err(struct req *req, int err)
{
	(void)fuse_reply_err(native(req), -err);
}

void reply_attr(struct req *req, const struct stat *st, enum reply_keep keep)
{
	(void)fuse_reply_attr(native(req), st, keeps[keep].attr);
}

void reply_entry(struct req *req, const struct reply_entry *e)
{
	struct fuse_entry_param p = entry_param(e);

	(void)fuse_reply_entry(native(req), &p);
}

void reply_create(struct req *req, const struct reply_entry *e, const struct reply_open *o)
{
	struct fuse_entry_param p = entry_param(e);
	struct fuse_file_info fi = file_info(o);

	(void)fuse_reply_create(native(req), &p, &fi);
}

/* libfuse 3.14 has no name for it. Where the kernel keeps a position, a read that waits has the
 * lock of it. */
static void reply_open_duplex(struct req *req, const struct reply_open *o)
{
	const struct fuse_open_out out = {
		.fh = o->fh,
		.open_flags = FOPEN_DIRECT_IO | FOPEN_STREAM | (o->noflush ? FOPEN_NOFLUSH : 0u),
	};

	(void)fuse_reply_buf(native(req), (const char *)&out, sizeof(out));
}

void reply_open(struct req *req, const struct reply_open *o)
{
	struct fuse_file_info fi = file_info(o);

	if (o->duplex)
		reply_open_duplex(req, o);
	else
		(void)fuse_reply_open(native(req), &fi);
}

void reply_buf(struct req *req, const void *data, size_t size)
{
	(void)fuse_reply_buf(native(req), data, size);
}

void reply_buf_at_once(struct req *req, const void *data, size_t size)
{
	at_once = true;
	reply_buf(req, data, size);
	at_once = false;
}

bool reply_is_at_once(void)
{
	return at_once;
}

void reply_write(struct req *req, size_t size)
{
	(void)fuse_reply_write(native(req), size);
}

void reply_readlink(struct req *req, const char *target)
{
	(void)fuse_reply_readlink(native(req), target);
}

void reply_xattr(struct req *req, const char *value, size_t len, size_t size)
{
	if (!size)
		(void)fuse_reply_xattr(native(req), len);
	else if (len > size)
		reply_err(req, -ERANGE);
	else
		reply_buf(req, value, len);
}

void reply_statfs(struct req *req, const struct statvfs *st)
{
	(void)fuse_reply_statfs(native(req), st);
}

void reply_lseek(struct req *req, uint64_t offset)
{
	(void)fuse_reply_lseek(native(req), (off_t)offset);
}

void reply_poll(struct req *req, unsigned revents)
{
	(void)fuse_reply_poll(native(req), revents);
}

void reply_lock(struct req *req, int type, uint64_t start, uint64_t end, uint32_t pid)
{
	static const short native_type[] = {[PROTO_UNLOCK] = F_UNLCK,
					    [PROTO_LOCK_SHARED] = F_RDLCK,
					    [PROTO_LOCK_EXCLUSIVE] = F_WRLCK};
	const struct flock fl = {.l_type = native_type[type],
				 .l_whence = SEEK_SET,
				 .l_start = (off_t)start,
				 .l_len = end == INT64_MAX ? 0 : (off_t)(end - start + 1),
				 .l_pid = (pid_t)pid};

	(void)fuse_reply_lock(native(req), &fl);
}

void reply_none(struct req *req)
{
	fuse_reply_none(native(req));
}

bool reply_dirent(struct req *req, char *buf, size_t cap, size_t *ret_len, const char *name,
		  uint64_t ino, uint32_t type, uint64_t next)
{
	const struct stat st = {.st_ino = ino, .st_mode = type};
	size_t n = fuse_add_direntry(native(req), buf + *ret_len, cap - *ret_len, name, &st,
				     (off_t)next);

	if (n > cap - *ret_len)
		return false;
	*ret_len += n;
	return true;
}

void kernel_drop_attr(struct kernel *kernel, uint64_t ino)
{
	/* A range that begins below 0 is none: attributes alone are dropped, for which the kernel
	 * takes no lock that a request which is not answered yet could hold. */
	if (kernel)
		(void)fuse_lowlevel_notify_inval_inode((struct fuse_session *)kernel, ino, -1, 0);
}

void pollwait_notify(struct pollwait *pw)
{
	(void)fuse_lowlevel_notify_poll((struct fuse_pollhandle *)pw);
}

void pollwait_free(struct pollwait *pw)
{
	fuse_pollhandle_destroy((struct fuse_pollhandle *)pw);
}
