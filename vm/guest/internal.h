/* SPDX-License-Identifier: Apache-2.0 */
/* What the three files of a sandbox share: its life, its link to the agent, its runs. */
#ifndef XSBX_VM_GUEST_INTERNAL_H
#define XSBX_VM_GUEST_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "vm/base/context.h"
#include "vm/host/admission.h"
#include "vm/backend/backend.h"
#include "channel.h"
#include "files.h"
#include "vm/host/slots.h"
#include "vm/base/tail.h"
#include "vm/pool/template.h"
#include "vm/jail/view.h"
#include "vm/vm.h"
#include "clock.h"

/* How far it has come. Each phase but the last has a deadline. */
enum sandbox_phase {
	PHASE_WAIT,	/* for a place */
	PHASE_IMAGE,	/* for its image to be built; before it waits for a place */
	PHASE_PACKAGES, /* for its packages to be installed; likewise */
	PHASE_BOOT,	/* the backend runs, the agent has not answered yet */
	PHASE_SETUP,	/* HELLO was answered, SETUP not yet */
	PHASE_WARM,	/* WARM was not answered yet; only of what nobody uses so far */
	PHASE_SETTLE,	/* before it is copied */
	PHASE_SAVE,	/* it is being copied */
	PHASE_RESET,	/* RESET was not answered yet */
	PHASE_UP,
	SANDBOX_NPHASES,
};

enum sandbox_kind {
	SANDBOX_USER,
	SANDBOX_POOL,  /* until somebody takes it */
	SANDBOX_BUILD, /* to be copied */
};

enum sandbox_start { START_COLD, START_SNAPSHOT, START_WARM, START_NKINDS };

enum sandbox_pooled { POOLED_NOT, POOLED_FILLING, POOLED_READY };

/* A clone that does not work is replaced by a machine that boots. */
enum sandbox_retry {
	RETRY_NONE,
	RETRY_WANTED, /* nothing is heard or said any more */
	RETRY_ENDING, /* the clone is being taken down */
};

/* A run on its way through the sandbox; `id` is 0 if there is none. */
struct turn {
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
	uint64_t oom_kills; /* of the sandbox, before the run */
	unsigned reached;   /* VM_REACHED_*, seen during the run */
	bool settled;	    /* how it ended is known although the agent is silent: */
	enum vm_outcome outcome;
};

/*
 * - `state` is what callers see, `reported` what the `state` callback said last.
 * - From CLOSING on no frame is handled and nothing is sent; `problem` is set unless `asked`.
 * - `nopen` counts what must be gone before `closed`: the timers, the channel, the backend.
 * - `channel.open` and `backend` from PHASE_BOOT on.
 */
struct sandbox {
	struct vm *vm;
	const struct sandbox_events *events;
	void *data;

	/* The spec, owned. */
	const struct backend_ops *ops;
	char *name, *image, *language, *packages, *warmup;
	struct sandbox_env *env;
	size_t nenv;
	unsigned memory_mb, cpus;
	struct view view;
	struct sandbox_limits limits;
	bool networked;		 /* its machine has a network card */
	struct network *network; /* of a user's: where it leads to; or NULL */

	enum sandbox_state state, reported;
	enum sandbox_phase phase;
	bool asked, torn_down;
	bool lingers;	 /* was taken down, and is not gone since long */
	bool introduced; /* the console says what it is, if it did not boot */
	enum sandbox_kind kind;
	enum sandbox_start start;
	enum sandbox_retry retry;
	char layer_key[DIGEST_HEX]; /* of its packages, once it has waited for them */
	struct layer *layer;	    /* holds a reference; or NULL */
	bool warmed_up;		    /* `warmup` was run, or sent */
	struct tail said;	    /* by `warmup` */
	struct template *template;  /* holds a reference; or NULL */
	enum sandbox_pooled pooled;
	bool waits;	     /* for the template's snapshot */
	bool awaits;	     /* its user is to be told what it waits for */
	uint32_t generation; /* of HELLO */
	unsigned exercises;  /* runs still to be made before anybody uses it */
	unsigned unsettled;  /* adopted: answers to HELLO and SETUP that are still due */
	TAILQ_ENTRY(sandbox) template_link;
	struct problem problem;

	struct ticket ticket;
	struct slot slot; /* HELD from before a run until its end; WAITING only while READY */
	struct backend *backend;
	struct channel channel;
	struct guestfiles files;
	struct turn turn;
	uint64_t oom_kills; /* in it, when the last run ended */
	struct wallclock wallclock;
	uv_timer_t deadline;	/* of the phase, or of the run */
	char shown[DIGEST_HEX]; /* of one in the pool: view_stamp() when it was begun */
	uint64_t allowed_ms;	/* from when that was set until it is over */
	uv_timer_t heartbeat;	/* from the first answer on */
	uv_timer_t grace;	/* the agent is gone: its machine may say why */
	unsigned nopen;
	unsigned unheard; /* heartbeats since the last frame */
	unsigned beats;	  /* heartbeats while it was up */

	struct tail console;
	char interpreter[128];
	uint64_t asked_at, admitted_at, hello_at, ready_at; /* ms of the loop's clock, or 0 */
	struct sandbox_usage usage;
	bool usage_known;
	bool usage_stale; /* something happened since it was asked for */

	bool freezing;	      /* FROZEN is due */
	struct deferred work; /* sandbox_work() is to be called from the loop */
	TAILQ_ENTRY(sandbox) link;
};

/* Restarts the one deadline; 0: none. */
void sandbox_deadline(struct sandbox *s, uint64_t ms);

void sandbox_set_state(struct sandbox *s, enum sandbox_state state);

/* Frees the copy of what was asked for. */
void sandbox_spec_free(struct sandbox *s);

/* A run that was put off with -EAGAIN may be sent now. */
void sandbox_may_run(struct slot *slot);

/* Has its place, and knows how to start. */
void sandbox_go(struct sandbox *s);

/* A timer, the channel, or the backend is gone. */
void sandbox_part_closed(struct sandbox *s);

/* Does what was put off. */
void sandbox_work(struct sandbox *s);

/* Brings `usage` up to date, some time soon. */
void sandbox_ask_usage(struct sandbox *s);

/* ---- dispatch.c, handshake.c ---- */

/* Starts the backend and opens the channel. Return: false if it has failed. */
bool link_start(struct sandbox *s);

/* For handshake.c. */
extern const struct channel_events link_channel_events;
void link_hello(struct sandbox *s);
void link_boot_failed(struct sandbox *s, const struct problem *why);

/* Called by clock.c: what wallclock_hold() has held up may go on. */
void link_clock_settled(struct sandbox *s);

/* Greets the machine of a clone that was taken from the pool, and sets it up; runs may follow at
 * once. */
void link_adopt(struct sandbox *s);

/* Takes the clone down, to boot afterwards. Called from sandbox_work(). */
void link_retry(struct sandbox *s);

/* The far end hung up: gives its machine a moment to say why, then ends the sandbox. */
void link_hangup(struct sandbox *s);

/* What the phase waited for did not come. */
void link_overdue(struct sandbox *s);

/* ---- exec.c ---- */

int turn_on_output(struct sandbox *s, const struct proto_header *h, struct proto_in *in);
int turn_on_exit(struct sandbox *s, const struct proto_header *h, struct proto_in *in);
int turn_on_stdin_credit(struct sandbox *s, const struct proto_header *h, struct proto_in *in);

/* Sends of the standard input what may be sent. */
void turn_pump_stdin(struct sandbox *s);

/* The agent did not end the run in time; or, without a run, there has been none for a moment. */
void turn_overdue(struct sandbox *s);

/* Ends the active run, if there is one, because the sandbox ends. */
void turn_abandon(struct sandbox *s);

/* Notes what its jail has counted by now: what happens later is news. */
void turn_look(struct sandbox *s);

/* It is known that the active run, if there is one, ended for want of memory. */
void turn_out_of_memory(struct sandbox *s);

#endif
