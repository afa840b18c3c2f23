/* SPDX-License-Identifier: Apache-2.0 */
/* One run: code goes to the interpreter, output and exit status come back. */
#ifndef XSBX_AGENT_RUN_RUN_H
#define XSBX_AGENT_RUN_RUN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>

#include "acct.h"
#include "agent/interp/driver.h"
#include "stdin.h"
#include "killer.h"
#include "agent/core/loop.h"
#include "agent/core/proc.h"
#include "agent/protocol.h"
#include "drain.h"

struct conn;
struct files;
struct interp;
struct loss;
struct guest_env;

enum run_state {
	RUN_NONE,
	RUN_WAITING,  /* for an interpreter */
	RUN_ACTIVE,   /* the interpreter has the code */
	RUN_KILLING,  /* its processes are being ended */
	RUN_DRAINING, /* it has ended; what is in the pipes is being sent */
	RUN_NSTATES,
};

enum stream_state {
	STREAM_IDLE,	/* no run, or it is draining: not watched */
	STREAM_WATCHED, /* the next write wakes us */
	STREAM_QUIET,	/* it was read a moment ago: not watched until the next tick */
	STREAM_PAUSED,	/* not watched, for want of credit or of room in the queue */
	STREAM_NSTATES,
};

/* Standard output or standard error. */
struct stream {
	struct loop_source src; /* read end; -1 once nobody can write any more */
	struct run *run;
	enum proto_stream which;
	int spare[2]; /* a pipe for the next run, or -1 */
	enum stream_state state;
	uint64_t limit_left; /* bytes that may still be sent */
	uint64_t dropped;
	size_t drain_left; /* RUN_DRAINING: bytes in the pipe that belong to the run */
};

struct run {
	/* Set once. */
	struct loop *loop;
	struct conn *conn;
	struct interp *interp;
	const struct guest_env *env;
	const struct files *files;

	enum run_state state;
	uint32_t id;
	uint32_t timeout_ms, grace_ms;
	bool trial; /* PROTO_RUN_TRIAL */
	uint32_t code_len;
	int child_fds[DRIVER_NFDS]; /* RUN_WAITING: stdin, stdout, stderr, code */
	int null_fd;		    /* standard input of runs that have none */
	int code_fd;		    /* empty, for the code of the next run, or -1 */
	struct stream out[2];
	struct stream *wrote; /* of these, the one that woke us last, or NULL */
	uint32_t sequence;
	uint64_t credit;
	struct stdin_pipe in;
	struct loop_timer deadline;
	struct loop_timer interrupt; /* one that has to wait for the driver */
	struct loop_timer tick;	     /* reads the stream that is STREAM_QUIET */
	struct killer killer;
	bool abandoned; /* nobody waits for it: no EXIT */

	uint64_t began; /* now_us() */
	struct acct acct;
	uint64_t orphans_user_us, orphans_system_us;
	struct proto_exit result;

	/* Of all runs. */
	struct drains drains;
	struct proc_set background; /* user code that was there before the run */
	pid_t background_at;	    /* proc_last_pid() when that was looked up */
	uint64_t oom_kills;	    /* proc_oom_kills() before the run */
	uint64_t oom_at;	    /* now_us() when that was looked up */
	struct loop_timer settle;
};

/**
 * run_init() - Prepare for runs
 * @r: Run with loop, conn, interp, env and files set, the rest zeroed
 */
void run_init(struct run *r);

/**
 * run_submit() - Take a RUN frame
 * @r: In state RUN_NONE; goes to RUN_WAITING
 * @id: Number of the run
 * @req: The request; nothing of it is kept
 *
 * Return: 0 or -errno; then the run is as before.
 */
int run_submit(struct run *r, uint32_t id, const struct proto_run *req);

/** run_begin() - Hand a waiting run to the interpreter, which is idle, with a seed or NULL. */
void run_begin(struct run *r, const uint8_t *seed);

/** run_refuse() - No interpreter can be had: end a waiting run with PROTO_HOW_REFUSED. */
void run_refuse(struct run *r);

/**
 * run_gone() - The state it counts on is lost, and it was not begun: end it with PROTO_HOW_GONE
 * @r: In RUN_WAITING, or in RUN_ACTIVE if the driver never took the code
 * @l: What has become of the state
 */
void run_gone(struct run *r, const struct loss *l);

/** run_saw_oom() - Has the kernel of our guest killed a process for want of memory since the last run? */
bool run_saw_oom(struct run *r);

/** run_send_refused() - Answer a RUN frame that could not be taken at all. */
void run_send_refused(struct conn *c, uint32_t id);

/** run_on_done() - The driver says that the turn is over. */
void run_on_done(struct run *r, int status);

/** run_on_death() - The interpreter ended during the run. */
void run_on_death(struct run *r, int wait_status, const struct rusage *ru);

/**
 * run_on_orphan() - A process has ended that was nobody's child any more
 * @r: Run, to which its time is added, unless it was there before
 * @pid: Process
 * @ru: What it has used, with all that it had waited for
 */
void run_on_orphan(struct run *r, pid_t pid, const struct rusage *ru);

/** run_signal() - The host asks to interrupt or kill. */
void run_signal(struct run *r, enum proto_signal sig);

/**
 * run_out_of_memory() - End the active run: it takes more memory than there is
 * @r: Run
 * @all: All user code is to go, also what earlier runs left behind
 *
 * Return: false if no run is active, true also if it is being ended already.
 */
bool run_out_of_memory(struct run *r, bool all);

/** run_credit() - The host grants more output. */
void run_credit(struct run *r, uint32_t bytes);

/** run_resume() - The connection has room again. */
void run_resume(struct run *r);

/** run_abandon() - Nobody waits for the run any more: end what it started, say nothing. */
void run_abandon(struct run *r);

/** run_fini() - Close what runs left behind. */
void run_fini(struct run *r);

#endif
