/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes: what an inode number stands for, and handles on them. */
#ifndef XSBX_FS_SESSION_NODE_H
#define XSBX_FS_SESSION_NODE_H

#include <stdint.h>

#include "fs/config/daemon.h"
#include "fs/request/handle.h"
#include "ino.h"
#include "run.h"

struct fs;
struct session;

/* A resolved inode number; valid until control returns to the loop. */
struct node {
	struct fs *fs;
	enum node_kind kind;
	uint64_t ino;
	uint32_t sub;
	const struct conf_template *t; /* of a template's or session's node */
	unsigned template_index;
	struct session *s;	       /* of a session's node */
	struct run *r;		       /* of a run's node */
	struct job *job;	       /* of a job's node */
	struct checkpoint *checkpoint; /* of a checkpoint's node, but not below its files/ */
	struct question *question;     /* of a question's node */
	struct front *front;	       /* of a job's or else a session's node */
};

/* The inode number of another node of the same session as @n, or of one of its runs. */
uint64_t node_sibling(const struct node *n, enum node_kind kind, uint32_t sub);

/**
 * node_fresh() - Another inode number of a node, by which it is known as well
 * @ino: Number of a node
 *
 * The kernel locks an inode while it is written to. Where writes may wait, each lookup answers with
 * a number of its own, so that nobody waits for the lock of another, in which he could not be
 * interrupted. Likewise where each open has a size of its own: the kernel asks for it by number.
 *
 * Return: the number; @ino itself if the node has one.
 */
uint64_t node_fresh(struct fs *fs, uint64_t ino);

/* The one of these numbers that stat(2) shows. */
uint64_t node_shown(uint64_t ino);

/* Return: 0, or -ESTALE if the node is gone. */
int node_resolve(struct fs *fs, uint64_t ino, struct node *ret_node);

/* Which output of a run is shown by nodes of this kind. */
enum run_output node_output(enum node_kind kind);

/* Return: a handle in the mount's table, which has references on @n's session and run until it is
 * freed, or NULL if out of memory. quota_open() checks whether another one is allowed. */
struct handle *node_open(const struct node *n, const struct handle_ops *ops, int flags);

/* For handles on nodes: gives up their references. */
void node_disown(struct handle *h);

#endif
