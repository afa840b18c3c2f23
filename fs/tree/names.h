/* SPDX-License-Identifier: Apache-2.0 */
/* Creating, removing and renaming names of the fixed tree: what mkdir, rm and mv do there. */
#ifndef XSBX_FS_TREE_NAMES_H
#define XSBX_FS_TREE_NAMES_H

#include "fs/session/node.h"
#include "fs/request/reply.h"

/* mkdir: a session, where @dir is a template. Return: 0 or -errno. */
int names_mkdir(const struct node *dir, const char *name, const struct req_ctx *ctx,
		struct node *ret_n);

/* rmdir: a session; the directory of a run; anything else of a session stays, without an
 * error, so that `rm -r` of a session gets to the end. Return: 0 or -errno. */
int names_rmdir(const struct node *dir, const char *name);

/* unlink: a scratch file, or `in` (until it is made again). Other nodes of a session stay where they are,
 * without an error, for the sake of `rm -r`. Return: 0 or -errno. */
int names_unlink(const struct node *dir, const char *name);

/**
 * names_create() - open(O_CREAT) of a name that is not there
 * @dir: Directory
 * @name: `in` after its removal, or the name of a scratch file in a session's directory
 * @mode: Permissions
 * @ret_n: Result
 *
 * Return: 0 or -errno.
 */
int names_create(const struct node *dir, const char *name, mode_t mode, struct node *ret_n);

/**
 * names_rename() - Rename within a session's directory and net/
 * @dir: Directory of @name
 * @name: A scratch file, or `in`, `config`, `net/allow`
 * @newdir: Directory of @newname
 * @newname: A scratch name, or `in`, `stdin`, `config`, `net/allow`: the content of the file is then written
 *	to that node, and the file removed
 * @flags: RENAME_NOREPLACE or 0
 *
 * Return: 0, -ENOENT, -EPERM (another node), -EXDEV, -EEXIST, -EINVAL, or as for write(2).
 */
int names_rename(const struct node *dir, const char *name, const struct node *newdir,
		 const char *newname, unsigned flags);

#endif
