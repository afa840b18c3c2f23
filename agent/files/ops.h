/* SPDX-License-Identifier: Apache-2.0 */
/* Private to the file server: one function for each request. */
#ifndef XSBX_AGENT_FILES_OPS_H
#define XSBX_AGENT_FILES_OPS_H

#include "files.h"

/*
 * Each reads its arguments from @in, executes the request with the user's permissions, and
 * packs the answer, except its errno, into @out.
 *
 * Return: 0 or -errno. If the payload was malformed, nothing was done and @in is bad.
 */
int files_lookup(struct files *f, struct proto_in *in, struct proto_out *out);
int files_forget(struct files *f, struct proto_in *in, struct proto_out *out);
int files_hold(struct files *f, struct proto_in *in, struct proto_out *out);
int files_getattr(struct files *f, struct proto_in *in, struct proto_out *out);
int files_origin(struct files *f, struct proto_in *in, struct proto_out *out);
int files_setattr(struct files *f, struct proto_in *in, struct proto_out *out);
int files_readlink(struct files *f, struct proto_in *in, struct proto_out *out);
int files_mkdir(struct files *f, struct proto_in *in, struct proto_out *out);
int files_symlink(struct files *f, struct proto_in *in, struct proto_out *out);
int files_link(struct files *f, struct proto_in *in, struct proto_out *out);
int files_unlink(struct files *f, struct proto_in *in, struct proto_out *out);
int files_rmdir(struct files *f, struct proto_in *in, struct proto_out *out);
int files_rename(struct files *f, struct proto_in *in, struct proto_out *out);
int files_open(struct files *f, struct proto_in *in, struct proto_out *out);
int files_create(struct files *f, struct proto_in *in, struct proto_out *out);
int files_opendir(struct files *f, struct proto_in *in, struct proto_out *out);

int files_read(struct files *f, struct proto_in *in, struct proto_out *out);
int files_write(struct files *f, struct proto_in *in, struct proto_out *out);
int files_touch(struct files *f, struct proto_in *in, struct proto_out *out);
int files_release(struct files *f, struct proto_in *in, struct proto_out *out);
int files_fsync(struct files *f, struct proto_in *in, struct proto_out *out);
int files_fallocate(struct files *f, struct proto_in *in, struct proto_out *out);
int files_seek(struct files *f, struct proto_in *in, struct proto_out *out);
int files_readdir(struct files *f, struct proto_in *in, struct proto_out *out);
int files_statfs(struct files *f, struct proto_in *in, struct proto_out *out);

int files_lock(struct files *f, struct proto_in *in, struct proto_out *out);
int files_test_lock(struct files *f, struct proto_in *in, struct proto_out *out);
int files_drop_locks(struct files *f, struct proto_in *in, struct proto_out *out);
int files_cancel_lock(struct files *f, struct proto_in *in, struct proto_out *out);

/* Until files_leave(), the file system sees the user and not root. */
void files_enter(const struct files *f);
void files_leave(const struct files *f);

/* Added to every open: it must not block, become a controlling terminal, or be inherited. */
#define FILES_OPEN_ADD	(O_NONBLOCK | O_NOCTTY | O_CLOEXEC)

/* Permissions that are passed on: all except the set-id bits. */
#define FILES_MODE_MASK (S_IRWXU | S_IRWXG | S_IRWXO | S_ISVTX)

/* The name of a descriptor in /proc/self/fd. */
struct files_fd_name {
	char text[16];
};

struct files_fd_name files_fd_name(int fd);

/**
 * files_reopen() - Open the file of a node
 * @f: Server
 * @n: Node of a regular file or a directory
 * @flags: O_*
 *
 * Return: descriptor, -ELOOP for a symbolic link, -ENXIO for a type that must not be opened, or
 * another -errno.
 */
int files_reopen(const struct files *f, const struct node *n, int flags);

/** files_attr() - Get the attributes of a descriptor. Return: 0 or -errno. */
int files_attr(const struct files *f, int fd, struct proto_attr *ret_a);

/** files_malformed() - Mark a request as malformed. Return: -EPROTO. */
int files_malformed(struct proto_in *in);

#endif
