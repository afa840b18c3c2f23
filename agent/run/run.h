/* SPDX-License-Identifier: Apache-2.0 */
/* One run: sends code to the interpreter, returns output and exit status. */
#ifndef XSBX_AGENT_RUN_RUN_H
#define XSBX_AGENT_RUN_RUN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>

#include "acct.h"
#include "agent/interp/driver.h"
#include "stdin.h"
#include "killer.h"
#include "oom.h"
#include "agent/core/loop.h"
#include "agent/core/proc.h"
#include "agent/protocol.h"
#include "agent/output/drain.h"
#include "agent/output/output.h"

struct conn;
struct files;
struct interp;
struct loss;
struct guest_env;

enum run_state {
	RUN_NONE,
	RUN_WAITING,  /* for an interpreter */
	RUN_ACTIVE,   /* the interpreter has the code */
	RUN_KILLING,  /* its processes are being killed */
	RUN_DRAINING, /* it has ended; output left in the pipes is being sent */
	RUN_NSTATES,
};

struct run {
	/* Set once. */
	struct loop *loop;
	struct conn *conn;
	struct interp *interp;
	const struct guest_env *env;
	struct files *files;
	struct loop_source *signals; /* those of the agent, or NULL */

	enum run_state state;
	uint32_t id;
	uint32_t timeout_ms, grace_ms;
	bool trial;  /* PROTO_RUN_TRIAL */
	bool import; /* PROTO_RUN_IMPORT */
	bool place;  /* it has a directory or variables of its own */
	uint32_t code_len;
	int child_fds[DRIVER_NFDS]; /* RUN_WAITING: stdin, stdout, stderr, code, records */
	int null_fd;		    /* standard input of runs that have none */
	int code_fd;		    /* empty, for the code of the next run, or -1 */
	struct output output;
	struct stdin_pipe in;
	struct loop_timer deadline;
	struct loop_timer interrupt; /* an interrupt that has to wait for the driver */
	struct killer killer;
	bool abandoned; /* the host has dropped it: no EXIT */

	uint64_t began; /* now_us() */
	struct acct acct;
	uint64_t orphans_user_us, orphans_system_us;
	struct proto_exit result;

	/* Of all runs. */
	struct drains drains;
	struct proc_set background; /* user code that existed before the run */
	pid_t background_at;	    /* proc_last_pid() at that time */
	struct oom oom;		    /* before the run */
	struct loop_timer settle;
};

/**
 * run_init() - Prepare for runs
 * @r: Run with loop, conn, interp, env and files set, the rest zeroed
 */
void run_init(struct run *r);

/**
 * run_submit() - Accept a RUN frame
 * @r: In state RUN_NONE; goes to RUN_WAITING
 * @id: Number of the run
 * @req: The request; not kept
 *
 * Return: 0 or -errno; on failure the run is unchanged.
 */
int run_submit(struct run *r, uint32_t id, const struct proto_run *req);

/** run_begin() - Send a waiting run to the idle interpreter, with a seed or NULL. */
void run_begin(struct run *r, const uint8_t *seed);

/** run_refuse() - No interpreter is available: end a waiting run with PROTO_HOW_REFUSED. */
void run_refuse(struct run *r);

/**
 * run_gone() - The interpreter's state was lost before the run: end it with PROTO_HOW_GONE
 * @r: In RUN_WAITING, or in RUN_ACTIVE if the driver has not read the code
 * @l: How the state was lost
 */
void run_gone(struct run *r, const struct loss *l);

/** run_saw_oom() - Has the OOM killer of our guest killed a process since the last run? */
bool run_saw_oom(struct run *r);

/** run_send_refused() - Answer a RUN frame that could not be accepted. */
void run_send_refused(struct conn *c, uint32_t id);

/** run_on_done() - The driver has reported the end of the turn. */
void run_on_done(struct run *r, int status);

/** run_on_death() - The interpreter ended during the run. */
void run_on_death(struct run *r, int wait_status, const struct rusage *ru);

/**
 * run_on_orphan() - An orphaned process has ended
 * @r: Run that is charged for its time, unless the process is older
 * @pid: Process
 * @ru: Its resource usage, including children that it waited for
 */
void run_on_orphan(struct run *r, pid_t pid, const struct rusage *ru);

/** run_signal() - The host requests an interrupt or a kill. */
void run_signal(struct run *r, enum proto_signal sig);

/**
 * run_out_of_memory() - End the active run because memory is exhausted
 * @r: Run
 * @all: End all user code, including processes left by earlier runs
 *
 * Return: false if no run is active; true even if it is being ended already.
 */
bool run_out_of_memory(struct run *r, bool all);

/** run_credit() - The host has granted more output. */
void run_credit(struct run *r, uint32_t bytes);

/** run_resume() - The connection has room again. */
void run_resume(struct run *r);

/** run_abandon() - The host has dropped the run: end its processes without an answer. */
void run_abandon(struct run *r);

/** run_fini() - Close what runs left behind. */
void run_fini(struct run *r);

#endif
