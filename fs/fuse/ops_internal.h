/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of the request handlers. */
#ifndef XSBX_FS_FUSE_OPS_INTERNAL_H
#define XSBX_FS_FUSE_OPS_INTERNAL_H

#include <fuse_lowlevel.h>

#include "fs/session/fs.h"
#include "fs/session/node.h"
#include "fs/request/reply.h"

static inline struct req *core(fuse_req_t req)
{
	return (struct req *)req;
}

/* The mount; also records the caller of the request in it. */
struct fs *ops_fs(fuse_req_t req);

/* Resolves an inode number, or answers with an error. Return: false if it was answered. */
bool ops_look(fuse_req_t req, fuse_ino_t ino, struct node *ret_n);
/* Likewise; what is there may be changed. */
bool ops_resolve(fuse_req_t req, fuse_ino_t ino, struct node *ret_n);

/* What a request may change that is one on a node of this kind, which is of the session or of the
 * job; either may be NULL. */
void ops_touch(struct session *s, struct job *j, enum node_kind kind, uint32_t sub);

/* Is this node served by the agent, or read from what was saved of its files? */
bool ops_in_files(const struct node *n);
/* ... and are its attributes? Those of files/ are not where there is neither. */
bool ops_asks_files(const struct node *n);

/* Answers a lookup with what there is at @n, or with @err if that is one. */
void ops_reply_node(fuse_req_t req, int err, const struct node *n);

/* Handlers in ops_handle.c. */
void op_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void op_create(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode,
	       struct fuse_file_info *fi);
void op_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset, struct fuse_file_info *fi);
void op_write(fuse_req_t req, fuse_ino_t ino, const char *data, size_t size, off_t offset,
	      struct fuse_file_info *fi);
void op_flush(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void op_release(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void op_fsync(fuse_req_t req, fuse_ino_t ino, int datasync, struct fuse_file_info *fi);
void op_fallocate(fuse_req_t req, fuse_ino_t ino, int mode, off_t offset, off_t length,
		  struct fuse_file_info *fi);
void op_lseek(fuse_req_t req, fuse_ino_t ino, off_t offset, int whence, struct fuse_file_info *fi);
void op_poll(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi, struct fuse_pollhandle *ph);
void op_getlk(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi, struct flock *fl);
void op_setlk(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi, struct flock *fl,
	      int sleep);
void op_flock(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi, int op);
void op_opendir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void op_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset,
		struct fuse_file_info *fi);
void op_releasedir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);

/* Handlers in ops_xattr.c. */
void op_getxattr(fuse_req_t req, fuse_ino_t ino, const char *name, size_t size);
void op_setxattr(fuse_req_t req, fuse_ino_t ino, const char *name, const char *value, size_t size,
		 int flags);
void op_removexattr(fuse_req_t req, fuse_ino_t ino, const char *name);

#endif
