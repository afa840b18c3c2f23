/* SPDX-License-Identifier: Apache-2.0 */
/* Variable names in the fixed tree: templates, sessions, runs, scratch files. */
#ifndef XSBX_FS_TREE_CHILDREN_H
#define XSBX_FS_TREE_CHILDREN_H

#include "table.h"

/* For struct node_def. */
int templates_find(const struct node *dir, const char *name, uint64_t *ret_ino);
void templates_list(const struct node *dir, node_put_fn put, void *data);
int sessions_find(const struct node *dir, const char *name, uint64_t *ret_ino);
void sessions_list(const struct node *dir, node_put_fn put, void *data);
int runs_find(const struct node *dir, const char *name, uint64_t *ret_ino);
void runs_list(const struct node *dir, node_put_fn put, void *data);
int beside_find(const struct node *dir, const char *name, uint64_t *ret_ino);
void beside_list(const struct node *dir, node_put_fn put, void *data);

/* The target of runs/latest, and its length. */
void latest_target(const struct node *n, char target[16]);
int latest_size(const struct node *n, uint64_t *ret_size);

#endif
