/* SPDX-License-Identifier: Apache-2.0 */
/* Inode numbers: which node each stands for. */
#ifndef XSBX_FS_SESSION_INO_H
#define XSBX_FS_SESSION_INO_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Theory of operation
 * -------------------
 * All nodes except those below `files/` are fixed, so an inode number is not an index
 * into a table of objects, but encodes the node:
 *
 *	bit 62..56   55..40   39..32       31..0
 *	    kind     slot     generation   sub
 *
 * The slot is that of the session (or of the template, for its nodes), the generation distinguishes
 * the session from earlier ones in that slot, and `sub` is the number of a run or of a job, or an
 * index into the session's table of files or of scratch files. No state is kept when the kernel
 * looks up or forgets a node, and an old number resolves to ESTALE, never to another object. Bit 63
 * stays clear for programs that take it for a sign.
 */

#define INO_GENERATIONS 0xffu /* eight bits, and then from 0 again */

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
	NODE_NET_REFUSED,
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
	NODE_CHECKPOINTS,
	NODE_CHECKPOINT, /* `sub` of these is its number */
	NODE_CHECKPOINT_STATUS,
	NODE_CHECKPOINT_WAIT,
	NODE_CHECKPOINT_FILES,
	NODE_CHECKPOINT_FILE, /* below that: an index, as of NODE_FILE, but into another table */
	NODE_CHECKPOINT_ERROR,
	NODE_ROOT_PAGE, /* `sub` is whose */
	NODE_PAGE,
	NODE_NET_RULES,
	NODE_NET_SECRETS,
	NODE_NET_LOG,
	NODE_NET_PENDING,
	NODE_NET_ALLOWED,
	NODE_NET_DENIED,
	NODE_QUESTION, /* `sub` of these is its number */
	NODE_QUESTION_WHO,
	NODE_QUESTION_WHAT,
	NODE_QUESTION_WHY,
	NODE_QUESTION_UNTIL,
	NODE_QUESTION_DECISION,
	NODE_QUESTION_STATUS,
	NODE_QUESTION_DECIDED,
	NODE_ROOT_QUOTA, /* `sub` is whose. */
	NODE_LEARNED,
	NODE_NET_LEARNED,
	NODE_RUN_REPLAY, /* the last: an heir of another version knows the others by their numbers */
	NODE_NKINDS,
};

/* Is it a node of a session? */
static inline bool ino_is_of_session(enum node_kind kind)
{
	return kind >= NODE_SESSION && kind != NODE_ROOT_PAGE && kind != NODE_ROOT_QUOTA;
}

/* Is it of a run, by whose number it is told? */
static inline bool node_is_run(enum node_kind kind)
{
	return (kind >= NODE_RUN && kind <= NODE_RUN_WAIT) || kind == NODE_RUN_REPLAY;
}

/* Makes a number. @slot and @generation are of a session, or @slot a template's; 0 where there is
 * neither. */
uint64_t ino_make(enum node_kind kind, unsigned slot, unsigned generation, uint32_t sub);
/* ... of a node of a session, or of one of its runs or jobs. */
uint64_t ino_of_session(const struct session *s, enum node_kind kind, uint32_t sub);

/* The kind that a number has; may be none that there is. */
enum node_kind ino_kind(uint64_t ino);
unsigned ino_slot(uint64_t ino);
unsigned ino_generation(uint64_t ino);

#endif
