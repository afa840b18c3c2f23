/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of a guest share: its life, the way up, its frames, its run. */
#ifndef XSBX_VM_GUEST_INTERNAL_H
#define XSBX_VM_GUEST_INTERNAL_H

#include "agent_trace.h"
#include "clock.h"
#include "files.h"
#include "guest.h"
#include "vm/base/context.h"
#include "vm/base/lines.h"

/* How far it has come. Each phase but UP has a deadline. */
enum guest_phase {
	GUEST_BOOT,   /* the backend runs, the agent has not answered yet */
	GUEST_SETUP,  /* it prepares the interpreter */
	GUEST_WARM,   /* the interpreter is exercised, or does what its template wants */
	GUEST_SETTLE, /* nothing is on its way; then it is copied */
	GUEST_SAVE,   /* it is being copied */
	GUEST_RESET,  /* a fresh interpreter is on its way */
	GUEST_UP,
	GUEST_ENDING, /* see guest.c */
	GUEST_NPHASES,
};

/* The answer of the agent's that is due, without which it does not go on. */
enum guest_due {
	DUE_NOTHING,
	DUE_HELLO,
	DUE_READY, /* to SETUP, WARM or RESET */
	DUE_RUN,   /* the end of an exercise */
};

/* A run on its way through the guest; `id` is 0 if there is none. */
struct exec {
	uint32_t id;
	bool sent;    /* a byte of RUN has left: the code may run */
	bool killing; /* SIGNAL(KILL) was sent */
	unsigned timeout_ms;
	uint32_t sequence; /* expected of the next OUTPUT */
	uint64_t limit[VM_NSTREAMS], got[VM_NSTREAMS];
	uint32_t credit;   /* bytes of OUTPUT the agent may still send */
	uint32_t consumed; /* bytes that were taken and not granted again */
	bool held;	   /* none is granted, see sandbox_hold() */
	bool late;	   /* ... but it had to be, so that the run could end */
	const uint8_t *stdin_data;
	size_t stdin_len, stdin_sent;
	bool stdin_open; /* the last STDIN was not sent yet */
	uint64_t stdin_credit;
	uint64_t oom_kills; /* in the guest, before the run */
	unsigned reached;   /* VM_REACHED_*, seen during the run */
	bool settled;	    /* how it ended is known although the agent is silent: */
	enum vm_outcome outcome;
};

/*
 * - In ENDING no frame is handled and nothing is sent; `problem` is set unless `asked`.
 * - `nopen` counts what must be gone before `closed`: the timers, the channel, the backend.
 * - `due` is DUE_RUN only in WARM; in UP it is something only after guest_introduce().
 */
struct guest {
	struct guests *all;
	const struct backend_ops *ops;
	const struct guest_events *events;
	void *data;

	struct sandbox_spec spec; /* owned */
	struct log_label label;	  /* of `spec`; with the run that it has, while it has one */
	struct agent_trace trace;
	struct layer *layer; /* holds a reference; or NULL */
	enum machine_mode mode;
	bool background, networked;

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
	uint64_t oom_kills; /* in it, when the last run ended */
	struct guest_clock clock;
	uint32_t generation; /* of HELLO */
	bool warm_sent, warmed_up;
	unsigned exercises; /* still to be made */
	struct tail said;   /* by the template's warm-up */
	bool freezing;	    /* FROZEN is due */

	uv_timer_t deadline;  /* of the phase, or of the run */
	uint64_t allowed_ms;  /* from when that was set until it is over */
	uv_timer_t heartbeat; /* see guest.c */
	uv_timer_t grace;     /* the agent is gone: its machine may say why */
	unsigned unheard;     /* heartbeats since the last frame */
	unsigned beats;	      /* heartbeats while it was up */

	struct tail console;
	char interpreter[128];
	uint64_t started_at, hello_at, ready_at; /* ms of the loop's clock, or 0 */
	struct sandbox_usage usage;
	bool usage_known;
	bool usage_stale; /* something happened since it was asked for */
};

/* As problem_set(), and guest_fail(). */
void guest_failf(struct guest *g, enum problem_code code, const char *fix, const char *cause, ...)
	printf_like(4, 5);

/* Restarts the one deadline; 0: none. */
void guest_deadline(struct guest *g, uint64_t ms);

/* A timer, the channel, or the backend is gone. */
void guest_part_closed(struct guest *g);

/* Brings `usage` up to date, some time soon. */
void guest_ask_usage(struct guest *g);

/* The far end hung up: gives what it runs in a moment to say why, then ends it. */
void guest_hangup(struct guest *g);

/* ---- handshake.c: the way up ---- */

/* Starts the backend and opens the channel; what fails ends the guest. @ram, @state: as for backend_ops.start. */
void handshake_start(struct guest *g, int ram, int state);

/* Something that was due is there: goes on to the next phase, if nothing else is due. */
void guest_advance(struct guest *g);

/* Greets the agent, under the next generation, and asks for its clock. */
void handshake_hello(struct guest *g);
void handshake_setup(struct guest *g);

/* What the phase waited for did not come. */
void handshake_overdue(struct guest *g);

/* Frames that belong to it. Return: 0 or -EPROTO. */
int handshake_on_hello(struct guest *g, struct proto_in *in);
int handshake_on_ready(struct guest *g, struct proto_in *in);
int handshake_on_failed(struct guest *g, struct proto_in *in);
int handshake_on_exercise(struct guest *g, const struct proto_header *h, struct proto_in *in);

/* ---- dispatch.c: frames ---- */

extern const struct channel_events dispatch_events;

/* ---- exec.c ---- */

int exec_on_output(struct guest *g, const struct proto_header *h, struct proto_in *in);
int exec_on_exit(struct guest *g, const struct proto_header *h, struct proto_in *in);
int exec_on_stdin_credit(struct guest *g, const struct proto_header *h, struct proto_in *in);

/* Sends of the standard input what may be sent. */
void exec_pump_stdin(struct guest *g);

/* The agent did not end the run in time; or, without a run, there has been none for a moment. */
void exec_overdue(struct guest *g);

/* Ends the active run, if there is one, because the guest ends. */
void exec_abandon(struct guest *g);

/* Notes what its jail has counted by now: what happens later is news. */
void exec_look(struct guest *g);

/* It is known that the active run, if there is one, ended for want of memory. */
void exec_out_of_memory(struct guest *g);

#endif
