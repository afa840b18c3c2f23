/* SPDX-License-Identifier: Apache-2.0 */
/* Messages between the daemon (spawner.c) and the spawner (server.c): packets on a SEQPACKET
 * socket. */
#ifndef XSBX_VM_SPAWN_WIRE_H
#define XSBX_VM_SPAWN_WIRE_H

#include <assert.h>
#include <stdint.h>

#include "vm/jail/cgroup_stat.h"
#include "vm/jail/jail.h"

#define SPAWN_MESSAGE_MAX 32768u /* bytes of one request */
#define SPAWN_FDS_MAX	  16u
#define SPAWN_NOTE_FDS	  (2 + CGROUP_STAT_NFILES)
#define SPAWN_STRINGS_MAX 256u

enum spawn_op {
	SPAWN_OP_SPAWN = 1, /* followed by a request for its rules; descriptors in SCM_RIGHTS */
	/* The file system is mounted, and has to be detached at the end; its /dev/fuse. */
	SPAWN_OP_MOUNTED,
	SPAWN_OP_UNMOUNT, /* detach the guarded mount point, which is the daemon's own */
	SPAWN_OP_STOP,
	SPAWN_OP_KILL, /* the process that was started by the request with this id */
	SPAWN_OP_LOG,  /* `id` is the new enum log_level */
	SPAWN_OP_HOLD, /* descriptors to be kept for the child asked for next, with this id */
	/* It was heard that the child with this id has ended: nothing of it is needed any more. */
	SPAWN_OP_FORGET,
	/* All was given to the heir of this number (SPAWN_NOTE_HEIR); the daemon stands still until
	 * it is told to resume, or killed. */
	SPAWN_OP_YIELD,
	/* Of an heir (heir.h): */
	SPAWN_OP_CLAIM,	 /* the child with this id is its own */
	SPAWN_OP_READY,	 /* it can serve; what nobody has claimed is killed */
	SPAWN_OP_REFUSE, /* it can't, for the reason that follows, in words */
	/* Of the daemon again: */
	/* Here is going to be what it leaves if it dies; `id` is 1, and the descriptor may be lost
	 * on its way. SPAWN_NOTE_HOLDER is the answer, always. 0: nothing any more. Of an heir
	 * likewise, before it is ready; of one whose daemon has died, a copy, and nothing is
	 * answered. */
	SPAWN_OP_ESTATE,
	/* Now it is there, and the holder has all that it speaks of: if this daemon dies, there is to
	 * be another one. An heir's counts with SPAWN_OP_READY. */
	SPAWN_OP_SURVIVES,
	SPAWN_OP_ALIVE, /* of an heir: it gets on with what it loads */
	/* Of an heir again, before all else: what it goes by, in a sealed file in memory, for those who may
	 * have to go on where it has died. */
	SPAWN_OP_CONF,
	/* Of the daemon again: */
	/* The holder does not hear: what is written down from now on can't be relied on. If there is
	 * to be another one, SPAWN_OP_ESTATE follows, and SPAWN_OP_SURVIVES. */
	SPAWN_OP_UNHELD,
};

/* Flags of a job. */
#define SPAWN_OOM_FIRST	  0x01u /* the OOM killer should prefer it to the daemon */
#define SPAWN_NICE	  0x04u /* low priority */
#define SPAWN_TOOL	  0x08u /* a program of the user: it may need to execute set-uid programs */
#define SPAWN_SMALL_PAGES 0x10u /* no huge pages: its memory use is sparse */
#define SPAWN_TREE	  0x20u /* no program: overlay_diff_serve() with the arguments */
#define SPAWN_RAM	  0x40u /* no program: ram_copy_serve() with what the job says */
#define SPAWN_SECRET	  0x80u /* no program: secret_source_serve() with what the job says */
#define SPAWN_KVM_PROBE	  0x02u /* no program: run the accelerator probe, its verdict goes to 1 */

struct spawn_request {
	uint32_t op, id;
};
/* An heir of another version says that it is one by SPAWN_OP_REFUSE, so that, like heir_wire.h, is
 * for ever. */
static_assert(SPAWN_OP_REFUSE == 12 && sizeof(struct spawn_request) == 8,
	      "refusals are understood");

enum spawn_note_op {
	SPAWN_NOTE_STARTED = 1, /* in SCM_RIGHTS a pidfd, and open files of struct cgroup_stat */
	SPAWN_NOTE_FAILED,
	SPAWN_NOTE_EXITED,
	SPAWN_NOTE_LOG,	   /* a line for the daemon's log, about this id; may be lost */
	SPAWN_NOTE_HEIR,   /* there is one, `id` is its number; in SCM_RIGHTS a socket to it */
	SPAWN_NOTE_RESUME, /* it is not to be: the daemon goes on */
	/* To the heir: it is the daemon; `status` is the signal by which it was asked to end
	 * before, or 0. */
	SPAWN_NOTE_SUCCEED,
	/* To SPAWN_OP_ESTATE with 1, always: in SCM_RIGHTS a socket to the holder, or none: there is
	 * no holder. */
	SPAWN_NOTE_HOLDER,
	SPAWN_NOTE_UNHELD, /* the holder has ended; as SPAWN_OP_UNHELD, if that was not said yet */
};

struct spawn_note {
	uint32_t op, id;
	int32_t pid;
	int32_t error;		  /* FAILED, and HOLDER without a socket: -errno */
	uint32_t step;		  /* FAILED: enum spawn_step; LOG: enum log_level */
	int32_t status;		  /* EXITED: as from wait(2) */
	uint32_t oom_kills;	  /* EXITED: processes of its jail killed by the OOM killer */
	uint32_t stats;		  /* STARTED: bits of enum cgroup_stat_file */
	uint32_t kept;		  /* STARTED: the kept directory follows these descriptors */
	uint32_t jail_step;	  /* FAILED in SPAWN_STEP_JAIL: enum jail_step */
	char what[JAIL_WHAT_MAX]; /* LOG: the line */
	/* LOG: log_now() of the line; EXITED: microseconds of processor time that it and its jail have
	 * used, 0: not known, as by spawners of older versions. */
	uint64_t at;
	struct jail_report report; /* STARTED: layers of the jail in effect */
};

/* The step that failed between the request and the program's first instruction. */
enum spawn_step {
	SPAWN_STEP_REFUSED, /* the request is malformed, or not allowed */
	SPAWN_STEP_PROGRAM, /* something it needs is missing */
	SPAWN_STEP_FORK,
	SPAWN_STEP_PDEATHSIG,
	SPAWN_STEP_PRIVILEGES,
	SPAWN_STEP_DESCRIPTORS,
	SPAWN_STEP_JAIL,
	SPAWN_STEP_EXEC,
	SPAWN_NSTEPS,
};

#endif
