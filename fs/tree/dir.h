/* SPDX-License-Identifier: Apache-2.0 */
/* The fixed tree: attributes, lookup and listings of all nodes except those below `files/`. */
#ifndef XSBX_FS_TREE_DIR_H
#define XSBX_FS_TREE_DIR_H

#include <stdint.h>
#include <sys/stat.h>

#include "fs/session/node.h"

struct fs;
struct handle;
struct req;

/* Attributes of a node other than NODE_FILE. Return: 0 or -errno. */
int dir_stat(const struct node *n, struct stat *ret_st);

/**
 * dir_lookup() - Find a name in a directory of the fixed tree
 * @dir: Directory, not one below `files/`
 * @name: Name
 * @ret_n: Result
 *
 * Return: 0, -ENOENT, -ENOTDIR.
 */
int dir_lookup(const struct node *dir, const char *name, struct node *ret_n);

/* Makes the listing of @dir in an open handle: later reads show this, whatever happens. Return: 0
 * or -ENOMEM. */
int dir_open(struct handle *h, const struct node *dir);
void dir_read(struct handle *h, struct req *req, size_t size, uint64_t offset);

#endif
