/* SPDX-License-Identifier: Apache-2.0 */
/* Between the daemon (client.c) and the spawner (spawner.c): datagrams on a SEQPACKET socket. */
#ifndef XSBX_VM_SPAWN_WIRE_H
#define XSBX_VM_SPAWN_WIRE_H

#include <stdint.h>

#include "vm/jail/cgroup_stat.h"
#include "vm/jail/jail.h"

#define SPAWN_MESSAGE_MAX 32768u /* bytes of one request */
#define SPAWN_FDS_MAX	  16u
#define SPAWN_NOTE_FDS	  (2 + CGROUP_STAT_NFILES)
#define SPAWN_STRINGS_MAX 256u

enum spawn_op {
	SPAWN_OP_SPAWN = 1, /* what its rules understand follows; descriptors in SCM_RIGHTS */
	SPAWN_OP_MOUNTED,   /* the mount is there, and to be cleared away at the end */
	SPAWN_OP_UNMOUNT, /* the guarded mount point, of which the daemon knows that it is its own */
	SPAWN_OP_STOP,
	SPAWN_OP_KILL, /* the process that was started for the request of this id */
	SPAWN_OP_LOG,  /* `id` is the enum log_level from now on */
};

/* How a job is done. */
#define SPAWN_OOM_FIRST	  0x01u /* the kernel should kill it before it kills the daemon */
#define SPAWN_NICE	  0x04u /* it is in no hurry */
#define SPAWN_TOOL	  0x08u /* a program of the user's: it may need one that gains privileges */
#define SPAWN_SMALL_PAGES 0x10u /* no huge pages: it has many places that it uses little of */
#define SPAWN_TREE	  0x20u /* no program: overlay_diff_serve() with the arguments */
#define SPAWN_KVM_PROBE	  0x02u /* no program: run the accelerator probe, its verdict goes to 1 */

struct spawn_request {
	uint32_t op, id;
};

enum spawn_note_op {
	SPAWN_NOTE_STARTED = 1, /* in SCM_RIGHTS a pidfd, and what there is of struct cgroup_stat */
	SPAWN_NOTE_FAILED,
	SPAWN_NOTE_EXITED,
	SPAWN_NOTE_LOG, /* a line for the daemon's log, about this id; may be lost */
};

struct spawn_note {
	uint32_t op, id;
	int32_t pid;
	int32_t error;		   /* FAILED: -errno */
	uint32_t step;		   /* FAILED: enum spawn_step; LOG: enum log_level */
	int32_t status;		   /* EXITED: as from wait(2) */
	uint32_t oom_kills;	   /* EXITED: in its jail, for want of memory */
	uint32_t stats;		   /* STARTED: bits of enum cgroup_stat_file */
	uint32_t kept;		   /* STARTED: behind these there is the directory that is kept */
	uint32_t jail_step;	   /* FAILED in SPAWN_STEP_JAIL: which of its steps */
	char what[JAIL_WHAT_MAX];  /* LOG: the line */
	uint64_t at;		   /* LOG: log_now() when it was said */
	struct jail_report report; /* STARTED: what holds of the jail */
};

/* What went wrong between fork and the program's first instruction. */
enum spawn_step {
	SPAWN_STEP_REFUSED, /* it is no order, or not allowed */
	SPAWN_STEP_PROGRAM, /* what belongs to it is not there */
	SPAWN_STEP_FORK,
	SPAWN_STEP_PDEATHSIG,
	SPAWN_STEP_PRIVILEGES,
	SPAWN_STEP_DESCRIPTORS,
	SPAWN_STEP_JAIL,
	SPAWN_STEP_EXEC,
	SPAWN_NSTEPS,
};

#endif
