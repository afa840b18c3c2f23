/* SPDX-License-Identifier: Apache-2.0 */
/* What waits for leave, and what was decided: net/pending/N, net/allowed/N, net/denied/N. */
#ifndef XSBX_FS_TREE_QUESTION_NODE_H
#define XSBX_FS_TREE_QUESTION_NODE_H

#include <stdbool.h>

#include "fs/session/ino.h"

struct node;

/* Is it one of the three directories? */
bool question_moves(enum node_kind dir);

/* For rename(2) from or to one of them: a question that waits is decided by it. Return: 0 or -errno; `error` says why. */
int question_rename(const struct node *dir, const char *name, const struct node *newdir,
		    const char *newname, unsigned flags);

#endif
