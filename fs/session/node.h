/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes: what an inode number stands for, and handles on them. */
#ifndef XSBX_FS_SESSION_NODE_H
#define XSBX_FS_SESSION_NODE_H

#include <stdint.h>

#include "fs/config/daemon.h"
#include "fs/request/handle.h"
#include "run.h"

/*
 * Theory of operation
 * -------------------
 * All nodes except those below `files/` are fixed, so an inode number is not an index
 * into a table of objects, but encodes the node:
 *
 *	bit 62..56   55..43   42..32       31..0
 *	    kind     slot     generation   sub
 *
 * The slot is that of the session (or of the template, for its nodes), the generation distinguishes
 * the session from earlier ones in that slot, and `sub` is the number of a run or of a job, or an index into the
 * session's table of files or of scratch files. No state is kept when the kernel looks up or
 * forgets a node, and an old number resolves to ESTALE, never to another object.
 * Bit 63 stays clear for programs that take it for a sign.
 */

#define NODE_GENERATIONS 0x7ffu /* eleven bits, and then from 0 again */

struct fs;
struct session;

enum node_kind {
	NODE_NONE,
	NODE_ROOT,
	NODE_ROOT_README,
	NODE_ROOT_STATUS,
	NODE_ISOLATION,
	NODE_DOCTOR,
	NODE_METRICS,
	NODE_EVENTS,
	NODE_ROOT_ERROR, /* `sub` is whose */
	NODE_ROOT_CTL,
	NODE_TEMPLATE,
	NODE_TEMPLATE_JSON,
	NODE_TEMPLATE_README,
	NODE_SESSION,
	NODE_IN,
	NODE_STDIN,
	NODE_STDOUT,
	NODE_STDERR,
	NODE_OUTPUT,
	NODE_EXIT_CODE,
	NODE_SUMMARY,
	NODE_STATE,
	NODE_STATUS,
	NODE_ERROR,
	NODE_CONFIG,
	NODE_CTL,
	NODE_CONSOLE,
	NODE_CHANGES,
	NODE_FILE_EVENTS,
	NODE_FILES,
	NODE_RUNS,
	NODE_README,
	NODE_NET,
	NODE_NET_ALLOW,
	NODE_NET_DENIED,
	NODE_PORTS,
	NODE_SCRATCH,
	NODE_LATEST,
	NODE_RUN,
	NODE_RUN_IN,
	NODE_RUN_STDOUT,
	NODE_RUN_STDERR,
	NODE_RUN_OUTPUT,
	NODE_RUN_EXIT_CODE,
	NODE_RUN_STATE,
	NODE_RUN_STATUS,
	NODE_RUN_SUMMARY,
	NODE_RUN_WAIT,
	NODE_SESSION_EVENTS,
	NODE_JOBS,
	NODE_JOB, /* `sub` of these is its number */
	NODE_JOB_IN,
	NODE_JOB_STDIN,
	NODE_JOB_STDOUT,
	NODE_JOB_STDERR,
	NODE_JOB_OUTPUT,
	NODE_JOB_EXIT_CODE,
	NODE_JOB_SUMMARY,
	NODE_JOB_STATE,
	NODE_JOB_STATUS,
	NODE_JOB_ERROR,
	NODE_JOB_CONFIG,
	NODE_JOB_TTY,
	NODE_JOB_CTL,
	NODE_FILE,
	NODE_NKINDS,
};

/* A resolved inode number; valid until control returns to the loop. */
struct node {
	struct fs *fs;
	enum node_kind kind;
	uint64_t ino;
	uint32_t sub;
	const struct conf_template *t; /* of a template's or session's node */
	unsigned template_index;
	struct session *s;   /* of a session's node */
	struct run *r;	     /* of a run's node */
	struct job *job;     /* of a job's node */
	struct front *front; /* of a job's or else a session's node */
};

uint64_t node_ino(enum node_kind kind, unsigned slot, unsigned generation, uint32_t sub);

/* The kind encoded in an inode number; may be invalid. */
enum node_kind node_kind_of(uint64_t ino);

/* The inode number of another node of the same session as @n, or of one of its runs. */
uint64_t node_sibling(const struct node *n, enum node_kind kind, uint32_t sub);
uint64_t node_of_session(const struct session *s, enum node_kind kind, uint32_t sub);

/**
 * node_fresh() - Another inode number of a node, by which it is known as well
 * @ino: Number of a node
 *
 * The kernel locks an inode while it is written to. Where writes may wait, each lookup answers with a number of its own, so
 * that nobody waits for the lock of another, in which he could not be interrupted.
 *
 * Return: the number; @ino itself if writes to the node do not wait.
 */
uint64_t node_fresh(struct fs *fs, uint64_t ino);

/* Return: 0, or -ESTALE if the node is gone. */
int node_resolve(struct fs *fs, uint64_t ino, struct node *ret_node);

/* Which output of a run is shown by nodes of this kind. */
enum run_output node_output(enum node_kind kind);

/* Return: a handle in the mount's table, which has references on @n's session and run until it is freed, or NULL if out
 * of memory. quota_open() checks whether another one is allowed. */
struct handle *node_open(const struct node *n, const struct handle_ops *ops, int flags);

#endif
