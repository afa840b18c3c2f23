/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel's requests: resolve the node, pass on what is below files/, answer the rest. */
#include "ops.h"

#include <errno.h>
#include <limits.h>

#include "fs/files/filelink.h"
#include "fs/files/files.h"
#include "fs/session/scratch.h"
#include "fs/session/session.h"
#include "fs/tree/nodes.h"
#include "fs/tree/dir.h"
#include "fs/tree/names.h"
#include "fs/tree/table.h"
#include "ops_internal.h"

/*
 * Theory of operation
 * -------------------
 * One thread answers everything, in the order in which the kernel asks; nothing here blocks. An
 * inode number resolves to a struct node (node.c). Nodes below files/ are the agent's (files.c),
 * and so is every operation on them; the others are looked up and described by dir.c, changed by
 * names.c, and once open they are a struct handle with an ops table of its own (text.c, stream.c,
 * input.c, scratch.c, events.c). Permissions are the kernel's business: what reaches
 * this file has been allowed by the modes and owners that dir.c showed (default_permissions), or
 * comes from the only user who can enter (owner.h).
 */

static void op_init(void *userdata, struct fuse_conn_info *conn)
{
	(void)userdata;
	/* Sizes and bytes come from this process alone; nothing may be cached or moved around
	 * it. */
	conn->want &= ~(unsigned)(FUSE_CAP_SPLICE_READ | FUSE_CAP_SPLICE_WRITE |
				  FUSE_CAP_SPLICE_MOVE | FUSE_CAP_READDIRPLUS |
				  FUSE_CAP_READDIRPLUS_AUTO | FUSE_CAP_WRITEBACK_CACHE);
	/* RELEASE is a background request, and that of `in` begins a run: it must not starve. So it
	 * is the only one. With these two, which libfuse wants by itself, reads by io_submit(2)
	 * with O_DIRECT, and those that fill the page cache, would be such as well, and one user's
	 * that wait would use up what there is of them for everybody. */
	conn->want &= ~(unsigned)(FUSE_CAP_ASYNC_DIO | FUSE_CAP_ASYNC_READ);
	conn->want |= conn->capable & (FUSE_CAP_ATOMIC_O_TRUNC | FUSE_CAP_HANDLE_KILLPRIV);
	conn->max_background = 256;
	conn->max_write = MIN(conn->max_write, OPS_WRITE_MAX);
}

static void op_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct vm_file rq = {.op = VM_LOOKUP, .name = name};
	struct node dir, n;

	if (!ops_look(req, parent, &dir))
		return;
	if (ops_in_files(&dir)) {
		files_request(&dir, NULL, core(req), &rq, NULL, 0);
		return;
	}
	ops_reply_node(req, dir_lookup(&dir, name, &n), &n);
}

static void forget(struct fs *fs, fuse_ino_t ino, uint64_t lookups)
{
	struct node n;

	if (node_resolve(fs, ino, &n) == 0 &&
	    (n.kind == NODE_FILE || n.kind == NODE_CHECKPOINT_FILE))
		files_forget(&n, lookups);
}

static void op_forget(fuse_req_t req, fuse_ino_t ino, uint64_t lookups)
{
	forget(ops_fs(req), ino, lookups);
	reply_none(core(req));
}

static void op_forget_multi(fuse_req_t req, size_t count, struct fuse_forget_data *forgets)
{
	for (size_t i = 0; i < count; i++)
		forget(ops_fs(req), forgets[i].ino, forgets[i].nlookup);
	reply_none(core(req));
}

static void reply_stat(fuse_req_t req, int e, const struct node *n, const struct stat *st)
{
	if (e < 0)
		reply_err(core(req), e);
	else
		reply_attr(core(req), st, node_defs[n->kind].keep);
}

static void op_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct fs *fs = ops_fs(req);
	struct vm_file rq = {.op = VM_GETATTR};
	struct handle *h = NULL;
	struct stat st;
	struct node n;
	int e;

	if (!ops_look(req, ino, &n))
		return;
	if (ops_asks_files(&n)) {
		if (fi)
			h = handle_get(&fs->handles, fi->fh);
		files_request(&n, h, core(req), &rq, NULL, 0);
		return;
	}
	e = dir_stat(&n, &st);
	/* With a handle it is for lseek(2), which wants the end of what this open reads. */
	if (n.kind == NODE_EVENTS && fi && (h = handle_get(&fs->handles, fi->fh)) &&
	    h->ops == &events_ops)
		st.st_size = (off_t)events_size(fs, h);
	reply_stat(req, e, &n, &st);
}

static void files_setattr(fuse_req_t req, const struct node *n, const struct stat *attr, int valid,
			  struct handle *h)
{
	struct vm_file rq = {
		.op = VM_SETATTR,
		.mode = attr->st_mode & 07777,
		.length = (uint64_t)attr->st_size,
		.atime = attr->st_atim,
		.mtime = attr->st_mtim,
	};

	rq.valid = (valid & FUSE_SET_ATTR_MODE ? PROTO_SET_MODE : 0) |
		   (valid & FUSE_SET_ATTR_SIZE ? PROTO_SET_SIZE : 0) |
		   (valid & FUSE_SET_ATTR_ATIME ? PROTO_SET_ATIME : 0) |
		   (valid & FUSE_SET_ATTR_MTIME ? PROTO_SET_MTIME : 0) |
		   (valid & FUSE_SET_ATTR_ATIME_NOW ? PROTO_SET_ATIME_NOW : 0) |
		   (valid & FUSE_SET_ATTR_MTIME_NOW ? PROTO_SET_MTIME_NOW : 0);
	if (!rq.valid)
		rq.op = VM_GETATTR;
	files_request(n, h, core(req), &rq, NULL, 0);
}

static int fixed_truncate(const struct node *n, struct handle *h, uint64_t size)
{
	const struct node_def *def = &node_defs[n->kind];

	if (h)
		return h->ops && h->ops->truncate ? h->ops->truncate(h, size) : -EACCES;
	return def->truncate ? def->truncate(n, size) : -EACCES;
}

/* Copying tools set modes and times on what they have written; editors set the mode. */
static void fixed_setattr(const struct node *n, const struct stat *attr, int valid)
{
	struct scratch_file *f = n->kind == NODE_SCRATCH ? scratch_by_id(n->s, n->sub) : NULL;
	struct handle *w =
		n->kind == NODE_IN || n->kind == NODE_JOB_IN ? input_writer(n->front) : NULL;

	if (f && (valid & FUSE_SET_ATTR_MODE))
		f->mode = attr->st_mode & 0777;
	if (f && (valid & FUSE_SET_ATTR_MTIME))
		f->mtime = attr->st_mtim;
	if ((n->kind == NODE_IN || n->kind == NODE_JOB_IN) && (valid & FUSE_SET_ATTR_MTIME)) {
		if (w) {
			w->mtime = attr->st_mtim;
			handle_touch(w);
		} else {
			n->front->in_mtime = attr->st_mtim;
		}
	}
}

/* Owners do not change. Tools that copy give the session's, or that of another file below
 * files/. */
static bool keeps_owner(const struct node *n, const struct stat *attr, int valid)
{
	const uid_t uid = valid & FUSE_SET_ATTR_UID ? attr->st_uid : UINT32_MAX;
	const gid_t gid = valid & FUSE_SET_ATTR_GID ? attr->st_gid : UINT32_MAX;

	if (n->kind == NODE_FILE)
		return owner_is_kept(n->s, uid, gid);
	return (uid == UINT32_MAX || uid == (n->s ? n->s->uid : n->fs->uid)) &&
	       (gid == UINT32_MAX || gid == (n->s ? n->s->gid : n->fs->gid));
}

static void op_setattr(fuse_req_t req, fuse_ino_t ino, struct stat *attr, int valid,
		       struct fuse_file_info *fi)
{
	struct fs *fs = ops_fs(req);
	struct handle *h = fi ? handle_get(&fs->handles, fi->fh) : NULL;
	struct node n;
	struct stat st;
	int e = 0;

	if (!ops_resolve(req, ino, &n))
		return;
	if (h)
		handle_touch(h);
	if (!keeps_owner(&n, attr, valid)) {
		reply_err(core(req), -EPERM);
		return;
	}
	if (ops_asks_files(&n) || n.kind == NODE_CHECKPOINT_FILES) {
		files_setattr(req, &n, attr, valid, h);
		return;
	}
	if (valid & FUSE_SET_ATTR_SIZE)
		e = fixed_truncate(&n, h, (uint64_t)attr->st_size);
	if (e == 0 && n.s)
		fixed_setattr(&n, attr, valid);
	if (e == 0)
		e = dir_stat(&n, &st);
	reply_stat(req, e, &n, &st);
}

/* Only asked where the kernel does not check permissions, and so only by whoever mounted. */
static void op_access(fuse_req_t req, fuse_ino_t ino, int mask)
{
	struct vm_file rq = {.op = VM_GETATTR, .flags = (uint32_t)mask & (R_OK | W_OK | X_OK)};
	struct stat st;
	struct node n;
	int e = 0;

	if (!ops_look(req, ino, &n))
		return;
	if (!rq.flags || n.fs->caller == 0) {
		reply_err(core(req), 0);
	} else if (ops_asks_files(&n)) {
		files_request(&n, NULL, core(req), &rq, NULL, 0);
	} else {
		e = dir_stat(&n, &st);
		reply_err(core(req), e < 0 ? e : files_access(st.st_mode, rq.flags));
	}
}

static void op_readlink(fuse_req_t req, fuse_ino_t ino)
{
	struct vm_file rq = {.op = VM_READLINK};
	char target[16];
	struct node n;

	if (!ops_look(req, ino, &n))
		return;
	if (n.kind == NODE_FILE || n.kind == NODE_CHECKPOINT_FILE) {
		files_request(&n, NULL, core(req), &rq, NULL, 0);
	} else if (n.kind == NODE_LATEST) {
		latest_target(&n, target);
		reply_readlink(core(req), target);
	} else {
		reply_err(core(req), -EINVAL);
	}
}

/* ---- names ---- */

static void op_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode)
{
	struct vm_file rq = {.op = VM_MKDIR, .name = name, .mode = mode & 01777};
	struct req_ctx ctx;
	struct node dir, n;
	int e;

	if (!ops_resolve(req, parent, &dir))
		return;
	if (ops_in_files(&dir)) {
		files_request(&dir, NULL, core(req), &rq, NULL, 0);
		return;
	}
	req_ctx(core(req), &ctx);
	e = names_mkdir(&dir, name, &ctx, &n);
	complaint_mkdir(dir.fs, &dir, name, ctx.uid, e);
	ops_reply_node(req, e, &n);
}

static void remove_name(fuse_req_t req, fuse_ino_t parent, const char *name, enum vm_file_op op)
{
	struct vm_file rq = {.op = op, .name = name};
	struct node dir;

	if (!ops_resolve(req, parent, &dir))
		return;
	if (ops_in_files(&dir))
		files_request(&dir, NULL, core(req), &rq, NULL, 0);
	else
		reply_err(core(req),
			  op == VM_RMDIR ? names_rmdir(&dir, name) : names_unlink(&dir, name));
}

static void op_unlink(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	remove_name(req, parent, name, VM_UNLINK);
}

static void op_rmdir(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	remove_name(req, parent, name, VM_RMDIR);
}

static void op_symlink(fuse_req_t req, const char *target, fuse_ino_t parent, const char *name)
{
	char stored[PATH_MAX];
	struct vm_file rq = {.op = VM_SYMLINK, .name = name, .newname = stored};
	struct node dir;
	int e;

	if (!ops_resolve(req, parent, &dir))
		return;
	e = ops_in_files(&dir) ? filelink_stored(target, stored, sizeof(stored)) : -EPERM;
	if (e < 0)
		reply_err(core(req), e);
	else
		files_request(&dir, NULL, core(req), &rq, NULL, 0);
}

static void op_link(fuse_req_t req, fuse_ino_t ino, fuse_ino_t newparent, const char *newname)
{
	struct vm_file rq = {.op = VM_LINK, .newname = newname};
	struct node n, dir;

	if (!ops_resolve(req, ino, &n) || !ops_resolve(req, newparent, &dir))
		return;
	if (n.kind == NODE_CHECKPOINT_FILE)
		reply_err(core(req), -EROFS);
	else if (n.kind != NODE_FILE || !ops_in_files(&dir))
		reply_err(core(req), -EPERM);
	else if (n.s != dir.s)
		reply_err(core(req), -EXDEV);
	else
		files_request(&n, NULL, core(req), &rq, &dir, 0);
}

static void op_rename(fuse_req_t req, fuse_ino_t parent, const char *name, fuse_ino_t newparent,
		      const char *newname, unsigned flags)
{
	struct vm_file rq = {.op = VM_RENAME, .name = name, .newname = newname, .flags = flags};
	struct node dir, newdir;

	if (!ops_resolve(req, parent, &dir) || !ops_resolve(req, newparent, &newdir))
		return;
	if (!ops_in_files(&dir) && !ops_in_files(&newdir))
		reply_err(core(req), names_rename(&dir, name, &newdir, newname, flags));
	else if (ops_in_files(&dir) && ops_in_files(&newdir) && dir.s == newdir.s)
		files_request(&dir, NULL, core(req), &rq, &newdir, 0);
	else
		reply_err(core(req), -EXDEV); /* makes mv(1) copy */
}

static void op_mknod(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, dev_t rdev)
{
	(void)parent;
	(void)name;
	(void)mode;
	(void)rdev;
	reply_err(core(req), -EPERM); /* no devices, pipes, sockets; files are made by open(2) */
}

static void op_statfs(fuse_req_t req, fuse_ino_t ino)
{
	const struct statvfs st = {.f_bsize = 4096, .f_frsize = 4096, .f_namemax = NAME_MAX};
	struct vm_file rq = {.op = VM_STATFS};
	struct node n;

	if (!ops_resolve(req, ino, &n))
		return;
	if (ops_asks_files(&n) || n.kind == NODE_CHECKPOINT_FILES)
		files_request(&n, NULL, core(req), &rq, NULL, 0);
	else
		reply_statfs(core(req), &st);
}

const struct fuse_lowlevel_ops ops = {
	.init = op_init,
	.lookup = op_lookup,
	.forget = op_forget,
	.forget_multi = op_forget_multi,
	.getattr = op_getattr,
	.setattr = op_setattr,
	.access = op_access,
	.readlink = op_readlink,
	.mknod = op_mknod,
	.mkdir = op_mkdir,
	.unlink = op_unlink,
	.rmdir = op_rmdir,
	.symlink = op_symlink,
	.rename = op_rename,
	.link = op_link,
	.open = op_open,
	.create = op_create,
	.read = op_read,
	.write = op_write,
	.flush = op_flush,
	.release = op_release,
	.fsync = op_fsync,
	.fallocate = op_fallocate,
	.lseek = op_lseek,
	.getlk = op_getlk,
	.setlk = op_setlk,
	.flock = op_flock,
	.poll = op_poll,
	.opendir = op_opendir,
	.readdir = op_readdir,
	.releasedir = op_releasedir,
	.fsyncdir = op_fsync,
	.statfs = op_statfs,
	.getxattr = op_getxattr,
	.setxattr = op_setxattr,
	.removexattr = op_removexattr,
};
