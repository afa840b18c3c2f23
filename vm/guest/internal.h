/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of guest/: struct guest, its start-up, frames, and runs. */
#ifndef XSBX_VM_GUEST_INTERNAL_H
#define XSBX_VM_GUEST_INTERNAL_H

#include "agent_trace.h"
#include "clock.h"
#include "files.h"
#include "guest.h"
#include "resume.h"
#include "starved.h"
#include "still.h"
#include "vm/base/context.h"
#include "vm/base/lines.h"
#include "vm/checkpoint/pack_maker.h"

/* The phase of a guest. Each phase except STANDBY and UP has a deadline. */
enum guest_phase {
	GUEST_STANDBY, /* a clone whose memory is not restored yet; without a deadline */
	GUEST_BOOT,    /* the backend is running, the agent has not answered yet */
	GUEST_SETUP,   /* it prepares the interpreter */
	GUEST_WARM,    /* the interpreter is exercised, or runs the template's warm-up */
	GUEST_SETTLE,  /* waiting until nothing is pending, before it is saved */
	GUEST_SAVE,    /* it is being saved */
	GUEST_RESET,   /* a fresh interpreter is starting */
	GUEST_UP,
	GUEST_ENDING, /* see guest.c */
	GUEST_NPHASES,
};

/* The agent's answer that the phase waits for. */
enum guest_due {
	DUE_NOTHING,
	DUE_HELLO,
	DUE_READY, /* to SETUP, WARM or RESET */
	DUE_RUN,   /* the end of an exercise */
};

#define EXEC_LATE_MS \
	25000u /* of its own time: what the agent may take on top of a run's, or a job's */
#define GUEST_BEAT_MS 5000u	 /* between heartbeats */
#define EXEC_WINDOW   (1u << 20) /* bytes of output under way at most, of a run or a job */

/* The run of a guest, `id` is 0 if there is none; or one of its jobs. */
struct exec {
	uint32_t id;
	uint64_t ticket; /* of RUN or JOB: see exec_sent() */
	bool killing;	 /* SIGNAL(KILL) was sent */
	bool place;	 /* it has a directory or variables of its own */
	unsigned timeout_ms;
	uint32_t sequence; /* expected of the next OUTPUT */
	uint64_t limit[VM_NSTREAMS], got[VM_NSTREAMS];
	uint32_t credit;   /* bytes of OUTPUT the agent may still send */
	uint32_t consumed; /* bytes received and not granted again */
	bool held;	   /* no credit is granted, see sandbox_hold() */
	bool late;	   /* ... except that it was needed for the run to end */
	bool stdin_open;   /* the last STDIN was not sent yet, and it is read */
	bool stdin_waits;  /* for room in the channel */
	uint64_t stdin_credit;
	uint64_t oom_kills; /* in its jail, before it; or, of a job, some seconds ago */
	unsigned reached;   /* VM_REACHED_*, seen during the run */
	bool settled;	    /* the outcome is known although the agent is silent: */
	enum vm_outcome outcome;
};

/* What is done of a copy of it. See point.c. */
enum guest_point_step {
	POINT_NONE,
	POINT_PREPARES, /* the backend and the agent do, while it runs */
	POINT_READY,
	POINT_ASKED,  /* POINT is sent, and nothing behind it */
	POINT_COPIED, /* POINTED has come, and nothing behind it: it is, or will be */
	POINT_RUNS,   /* it goes on, and the backend ends its work */
	POINT_CANCELLED,
};

/* A job, from guest_job() until JOB_GONE. */
struct guest_job {
	TAILQ_ENTRY(guest_job) link;
	struct exec exec;
	bool ended;	     /* `exit` was told */
	bool forgotten;	     /* guest_job_forget() */
	bool untold;	     /* ... and there was no memory for JOB_FORGET */
	bool shot;	     /* it was sent SIGKILL, by its user */
	uint64_t overdue;    /* beat at which it is, or 0 */
	struct starved late; /* since then */
};

TAILQ_HEAD(guest_jobs, guest_job);

/* All its files are being read, into `maker`, or put back, out of `from`; if both are NULL, neither. */
struct guest_pack {
	uint32_t id; /* of the frames, never used again */
	struct pack_maker *maker;
	struct pack *from; /* reference */
	uint64_t sent;	   /* of its records */
	uint32_t credit;   /* bytes that may be sent */
	unsigned quiet;	   /* heartbeats since the agent's last frame about it */
};

/* A machine that is to be copied gives way to all others, and may take so many times as long as another. */
#define RECORD_TIMES 5u

/*
 * - In ENDING no frame is handled and nothing is sent; `problem` is set unless `asked`.
 * - `nopen` counts the parts to be closed before `closed`: timers, channel, backend.
 * - `due` is DUE_RUN only in WARM; in UP it is only set after guest_introduce().
 */
struct guest {
	struct guests *all;
	TAILQ_ENTRY(guest) link;
	const struct backend_ops *ops;
	const struct guest_events *events;
	void *data;

	struct sandbox_spec spec; /* owned */
	struct log_label label;	  /* of `spec`; with the current run, if there is one */
	struct agent_trace trace;
	struct layer *layer; /* holds a reference; or NULL */
	enum machine_mode mode;
	bool background, brief, networked;

	enum guest_phase phase;
	enum guest_due due;
	bool asked, torn_down, lingers;
	struct problem problem;
	unsigned nopen;
	struct deferred work; /* its end */

	struct backend *backend;
	struct channel channel;
	struct guest_files files;
	struct exec exec;
	struct guest_jobs jobs;
	unsigned njobs;
	uint64_t oom_kills; /* in its jail, when the last run ended */
	uint64_t oom_look;  /* likewise, at the last heartbeat */
	struct guest_clock clock;
	struct guest_still still;
	struct guest_resume resume;
	uint32_t version;    /* of its agent's protocol */
	uint32_t generation; /* of HELLO */
	bool warming, warmed_up;
	char *imports;	       /* names of packages, one a line; or NULL */
	bool imports_unproven; /* they were begun with, and what follows has not worked yet */
	bool importing, import_failed;
	uint32_t run; /* id of the one that is due, while `due` is DUE_RUN */
	char culprit
		[GUEST_CULPRIT_MAX]; /* the package that was being imported at the end; "" if it is not known */
	bool changed;		     /* it has a new owner, of whom it is told when it is up */
	unsigned exercises; /* number of remaining ones */
	struct tail said;   /* output of the template's warm-up, or what its imports say */
	bool freezing;	    /* FROZEN is due */
	bool freezes_again; /* ... to what nobody wants to know any more, or the end of a job is, and behind it FREEZE */
	bool preparing;			  /* ... to PROTO_FREEZE_PREPARE */
	struct guest_unstopped unstopped; /* by the last FROZEN */
	struct guest_pack pack;
	enum guest_point_step point_step;
	struct point *point;			/* being made; or NULL */
	int point_err;				/* why nothing comes of it, or 0 */
	bool point_ready;			/* the backend is */
	uint32_t points_asked, points_answered; /* ids of the last POINT, and of the last POINTED */
	bool copy;				/* HELLO is to say that it is one */
	bool watched;				/* CHANGED is wanted */

	uv_timer_t deadline;  /* of the phase, or of the run */
	uint64_t allowed_ms;  /* duration of `deadline` */
	uint64_t deadline_at; /* uv_now() at which it ends, if it is active */
	uv_timer_t grace;     /* the agent is gone: time for the backend to report why */
	unsigned unheard;     /* heartbeats since the last frame, in which it had a processor */
	struct starved quiet; /* ... while there are some */
	struct starved late;  /* the run's end is due, or that of the reset */

	struct tail console;
	char interpreter[128];
	uint64_t started_at, hello_at, ready_at; /* ms of the loop's clock, or 0 */
	struct sandbox_usage usage;
	bool usage_known;
	bool usage_stale; /* something has changed since it was requested */
	uint64_t used_us; /* see guest_used_us(); once its backend is gone */
};

/* Makes one, without a backend. Return: as guest_new(). */
int guest_make(struct guests *all, const struct guest_config *cfg,
	       const struct guest_events *events, void *data, struct guest **ret_guest);

/* As problem_set(), and guest_fail(). */
void guest_failf(struct guest *g, enum problem_code code, const char *fix, const char *cause, ...)
	printf_like(4, 5);

/* What guest_put() writes has changed, or is about to, and neither because of a frame nor by a call of guest.h. */
void guest_touch(struct guest *g);

/* Restarts the one deadline; 0: none. */
void guest_deadline(struct guest *g, uint64_t ms);

/* A timer, the channel, or the backend was closed. */
void guest_part_closed(struct guest *g);

/* FROZEN has come, or a job is gone: asks what is to be asked behind it. */
void guest_freeze_again(struct guest *g);

/* Requests an update of `usage`. */
void guest_ask_usage(struct guest *g);

/* The agent, or the machine, hung up: gives the backend a moment to report why, then ends the guest. */
void guest_hangup(struct guest *g);

/* ---- handshake.c: start-up ---- */

/* Starts the backend and opens the channel; a failure ends the guest. Of @cfg what backend_ops.start needs. */
void handshake_start(struct guest *g, const struct guest_config *cfg);
void handshake_restore(struct guest *g);

/* What may be stored in its working directory. */
void guest_files_limits(const struct guest *g, uint64_t *ret_bytes, uint32_t *ret_inodes);

/* A pending answer has arrived: enters the next phase, if nothing else is due. */
void guest_advance(struct guest *g);

/* Sends HELLO with the next generation, and queries the agent's clock. */
void handshake_hello(struct guest *g);

/* Tells a guest that is up of its new owner. Runs are frames of the same class, so they follow. */
void handshake_again(struct guest *g);

/* Sends code that no user has written. */
void handshake_run(struct guest *g, uint32_t id, struct proto_run *run);

/* Takes over its backend and channel; a failure ends the guest. */
void handshake_take(struct guest *g, const struct record_reader *backend,
		    const struct record_reader *channel, struct fdbag *fds);

/* The deadline of the phase has passed. */
void handshake_overdue(struct guest *g);

/* Handle its frames. Return: 0 or -EPROTO. */
int handshake_on_hello(struct guest *g, struct proto_in *in);
int handshake_on_ready(struct guest *g, struct proto_in *in);
int handshake_on_failed(struct guest *g, struct proto_in *in);
int handshake_on_exercise(struct guest *g, const struct proto_header *h, struct proto_in *in);

/* ---- imports.c: packages that are imported before a machine is copied ---- */

/* Begins, if there are any that were not imported yet. Return: whether it did; guest_advance() follows. */
bool imports_begin(struct guest *g);

/* It ends while it imports: at which package was it? Fills in `culprit`, with one of those that were asked for, or
 * nothing. Return: length of what it has said of that, up to a reason. */
size_t imports_blame(struct guest *g);

/* Is this the run that imports? */
bool imports_is_run(uint32_t id);

/* Handle its frames. */
void imports_on_output(struct guest *g, const struct proto_header *h, struct proto_in *in);
void imports_on_exit(struct guest *g, const struct proto_exit *e);

/* ---- dispatch.c: frames ---- */

extern const struct channel_events dispatch_events;
/* Logs how many lines of the trace were dropped and not reported yet: they belong to the run that ends. */
void dispatch_end_trace(struct guest *g);

/* ---- exec.c ---- */

int exec_on_output(struct guest *g, const struct proto_header *h, struct proto_in *in);
int exec_on_exit(struct guest *g, const struct proto_header *h, struct proto_in *in);

/* Is it late for longer than anybody waits for the agent, or for those who hold its output? */
bool exec_late_over(const struct guest *g, const struct exec *x, struct starved *late);

/* The run or job @id, which is sent next, is called @author where somebody asks who wrote a file; NULL: nothing. */
void exec_name(struct guest *g, uint32_t id, const char *author);

/* Unpacks EXIT, and fills in all of the result that it tells. Return: 0 or -EPROTO. */
int exec_take_exit(struct proto_in *in, struct proto_exit *ret_e, struct vm_result *ret_r);

/* Return: how many processes of its jail the OOM killer has killed so far; 0 where that is not counted. */
uint64_t exec_oom_kills(const struct guest *g);

/* By how it has ended and by that number, has it for lack of memory? Then that is its outcome. Return: the number. */
uint64_t exec_see_oom(const struct guest *g, const struct exec *x, struct vm_result *r);

/* If it has ended for lack of memory: says so in words. */
void exec_explain_memory(const struct guest *g, struct vm_result *r);

/* Does the agent know of it? Else it never ran, and what the agent says of it makes no sense. */
bool exec_sent(const struct guest *g, const struct exec *x);

/* Takes OUTPUT of @x. Return: 0 or -EPROTO. */
int exec_take_output(struct guest *g, struct exec *x, const struct proto_header *h,
		     struct proto_in *in);
void exec_hold(struct guest *g, struct exec *x, bool hold);

/* Every few seconds: grants what there was no memory for when it was due. */
void exec_beat(struct guest *g, struct exec *x);

/* The agent has not ended the run in time; or, without a run, it was idle for a moment. */
void exec_overdue(struct guest *g);

/* Ends the active run, if any, because the guest ends. */
void exec_abandon(struct guest *g);

/* Records the current counters of its jail, to recognize later events. */
void exec_look(struct guest *g);

/* The active run, if any, was ended because memory was exhausted. */
void exec_out_of_memory(struct guest *g);

/* ---- input.c ---- */

/* Handle frames about standard input, of runs and jobs. Return: 0 or -EPROTO. */
int input_on_credit(struct guest *g, const struct proto_header *h, struct proto_in *in);
int input_on_closed(struct guest *g, const struct proto_header *h, struct proto_in *in);

/* The channel has room again; or there may be memory again, every few seconds. */
void input_drained(struct guest *g);

/* ---- watch.c ---- */

/* Handles CHANGED. Return: 0 or -EPROTO. */
int watch_on_learned(struct guest *g, struct proto_in *in);
int watch_on_changed(struct guest *g, struct proto_in *in);

/* ---- pack.c ---- */

/* Handle its frames. Return: 0 or -EPROTO. */
int pack_on_packed(struct guest *g, const struct proto_header *h, struct proto_in *in);
int pack_on_unpacked(struct guest *g, const struct proto_header *h, struct proto_in *in);

/* Every few seconds: does it go on? Return: false if the guest ends because it does not. */
bool pack_check(struct guest *g);

/* Nothing comes of it, and nobody is told. */
void guest_pack_cancel(struct guest *g);

/* ---- point.c ---- */

/* Handles POINTED. Return: 0 or -EPROTO. */
void point_on_prepared(struct guest *g);
bool point_is_silent(const struct guest *g);
int point_on_pointed(struct guest *g, const struct proto_header *h, struct proto_in *in);

/* ---- job.c ---- */

/* Is there one that its owner has not forgotten, and that has not ended? */
bool guest_has_own_jobs(const struct guest *g);

/* The job of this id, or NULL. */
struct guest_job *guest_job_find(struct guest *g, uint32_t id);

/* Handle frames of jobs. Return: 0 or -EPROTO. */
int job_on_output(struct guest *g, const struct proto_header *h, struct proto_in *in);
int job_on_exit(struct guest *g, const struct proto_header *h, struct proto_in *in);
int job_on_failed(struct guest *g, const struct proto_header *h, struct proto_in *in);
int job_on_gone(struct guest *g, const struct proto_header *h, struct proto_in *in);

/* Every few seconds: has one not ended that should have? Return: false if the guest ends because of that. */
bool jobs_check(struct guest *g);

/* What the OOM killer has killed up to now, so many, says nothing of those that go on. */
void jobs_note_oom(struct guest *g, uint64_t kills);

/* The agent was told to end all of them. */
void jobs_ending(struct guest *g);

/* Ends all of them, because the guest ends. */
void jobs_abandon(struct guest *g);

#endif
