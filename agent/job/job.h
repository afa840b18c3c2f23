/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs: programs beside the interpreter, any number at once. */
#ifndef XSBX_AGENT_JOB_JOB_H
#define XSBX_AGENT_JOB_JOB_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "agent/core/loop.h"
#include "agent/output/drain.h"
#include "agent/output/output.h"
#include "agent/protocol.h"
#include "agent/run/killer.h"
#include "agent/run/oom.h"
#include "agent/run/stdin.h"
#include "tty.h"

struct conn;
struct files;
struct guest_env;
struct interp_config;
struct jobs;

enum job_state {
	JOB_STARTING, /* its holder was started */
	JOB_ACTIVE,   /* it was executed */
	JOB_KILLING,  /* its processes are being killed */
	JOB_DRAINING, /* it has ended; output left in the pipes is being sent */
	JOB_ENDED,    /* EXIT or FAILED was sent; what it has started may go on */
	JOB_CLEARING, /* it was forgotten: all that is left is being killed */
	JOB_NSTATES,
};

struct job {
	TAILQ_ENTRY(job) link;
	struct jobs *all;
	uint32_t id;
	enum job_state state;
	pid_t holder;		   /* 0 once it was reaped */
	pid_t pid;		   /* of the program, while it runs; or 0 */
	int pidfd;		   /* the same */
	struct loop_source report; /* what the holder says */
	struct output output;
	struct stdin_pipe in;
	struct tty tty;
	struct killer killer;
	struct loop_timer deadline;
	uint32_t nice, timeout_ms, grace_ms;
	bool root;
	uint64_t began;	    /* now_us() */
	uint64_t ending;    /* likewise, when it was first to be killed; or 0 */
	uint64_t oom_kills; /* by the kernel, before it or some seconds ago */
	uint64_t early
		[2]; /* signals that came before it was known to have started: a bit each; to its group */
	bool open;   /* its pipes are */
	bool adrift; /* what it has left, if anything, belongs to nobody */
	bool heard;  /* of its start */
	bool mute;   /* the host has dropped it: no JOB_GONE */
	bool shot;   /* the host has sent it SIGKILL */
	struct proto_exit result;
};

struct jobs {
	/* Set once. */
	struct loop *loop;
	struct conn *conn;
	const struct guest_env *env;
	const struct interp_config *config;
	struct files *files;
	struct loop_source *signals;

	TAILQ_HEAD(job_list, job) list;
	unsigned n;
	struct drains drains;
	struct oom oom;
	struct loop_timer look; /* while one runs, at what the kernel has killed */
	uint64_t looked;	/* oom.kills at that time */
};

/** jobs_init() - Prepare; what is set once is set. */
void jobs_init(struct jobs *all);

/**
 * jobs_start() - Handle a JOB frame
 * @all: Jobs
 * @id: Of the job
 * @req: The request; not kept
 *
 * Return: 0 if there will be EXIT or FAILED; -EPROTO if there is such a job, or there are PROTO_JOBS_MAX.
 */
int jobs_start(struct jobs *all, uint32_t id, const struct proto_job *req);

/** jobs_find() - Return: the job with this id, or NULL. */
struct job *jobs_find(struct jobs *all, uint32_t id);

/** jobs_active() - Does any job run? What it has left behind does not count. */
bool jobs_active(const struct jobs *all);

/** jobs_reaped() - A child of the agent has ended, with this status. Return: false if it is no holder. */
bool jobs_reaped(struct jobs *all, pid_t pid, int wait_status);

/** jobs_advance() - Forget those of which nothing is left, and say so. */
void jobs_advance(struct jobs *all);

/** jobs_resume() - The connection has room again. */
void jobs_resume(struct jobs *all);

/** jobs_ending() - All user code is being killed, by another: so is each job, with this as its end. */
void jobs_ending(struct jobs *all, enum proto_how how);

/** jobs_let_go() - The host does not know of those that have ended: what they have left behind goes on, and is nobody's. */
void jobs_let_go(struct jobs *all);

/** jobs_abandon() - The host has dropped them all: end them without an answer. */
void jobs_abandon(struct jobs *all);

/** jobs_fini() - Close everything; the processes have been ended. */
void jobs_fini(struct jobs *all);

/** job_signal() - The host wants this sent: enum proto_signal, or PROTO_SIGNAL_NUMBER + N. Return: 0 or -EPROTO. */
int job_signal(struct job *j, uint32_t sig);

/** job_resize() - Its terminal has another size, see struct proto_job. */
void job_resize(struct job *j, uint32_t window);

/** job_credit() - The host has granted more output. */
void job_credit(struct job *j, uint32_t bytes);

/** job_forget() - The host wants nothing to be left of it. */
void job_forget(struct job *j);

#endif
