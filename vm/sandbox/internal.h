/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of sandbox/: struct vm, which runs all sandboxes, and struct sandbox. */
#ifndef XSBX_VM_SANDBOX_INTERNAL_H
#define XSBX_VM_SANDBOX_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <uv.h>

#include "installer.h"
#include "meter.h"
#include "restore.h"
#include "save.h"
#include "vm/backend/backend.h"
#include "vm/base/context.h"
#include "vm/base/wait.h"
#include "vm/build/image_job.h"
#include "vm/build/package_job.h"
#include "vm/build/store_client.h"
#include "vm/guest/guest.h"
#include "vm/host/admission.h"
#include "vm/host/host.h"
#include "vm/host/slots.h"
#include "vm/net/dialer_process.h"
#include "vm/pool/pool.h"
#include "vm/vm.h"

struct network_ops;

enum sandbox_start { START_COLD, START_SNAPSHOT, START_WARM, START_SAVED, START_NKINDS };

TAILQ_HEAD(sandbox_list, sandbox);

/* All parts of vm/. They know each other only by the callbacks that vm.c has set. */
struct vm {
	struct context ctx;
	const struct vm_events *events;
	void *data;

	char *agent;
	struct backends backends;
	struct guests guests;
	struct image_jobs image_jobs;
	struct store_client store;
	struct trace_client *trace; /* see vm/trace_client.h; or NULL */
	struct package_jobs package_jobs;
	struct installer installer;
	struct pool pool;
	struct dialer_process dialer_process;
	struct vault *vault;   /* or NULL: nothing is kept on a disk; see keep.c */
	bool key_command;      /* there is one that tells its key, */
	unsigned key_limit_ms; /* and that has so long */
	struct vm_host_ports host_ports;
	int trust_fd;  /* the certificates in memory, for filters; or -1: not needed yet */
	bool net_seen; /* `net_report` was filled in by the last network's filter */
	struct jail_report net_report;

	/* See schedule.c. */
	unsigned admission_s;
	unsigned max_points; /* machines' memories that are saved in memory */
	struct admission admission;
	struct admission_owner *owners; /* with limits of their own */
	struct slots slots;
	struct host host;
	struct host_reading reading;
	uint64_t read_at;    /* ms of the loop's clock */
	uv_timer_t metering; /* while there are sandboxes; see meter.c */
	unsigned meterings;  /* how often */
	uv_timer_t recheck;  /* while someone waits for a resource whose release is not notified */

	struct saved_packs packs; /* while records are read */
	struct sandbox_list sandboxes;
	uint64_t started, failed, refused, starts[START_NKINDS];
	TAILQ_HEAD(workdir_tasks, workdir_task) workdir_tasks; /* see workdir.c */

	unsigned nparts; /* handles of its own */
	void (*closed)(void *data);
	void *closed_data;
};

/* As vm_new(), with another machine backend than the usual one. */
int vm_new_with(const struct backend_ops *machine, uv_loop_t *loop, struct spawner *spawner,
		const struct vm_config *cfg, const struct vm_events *events, void *data,
		struct vm **ret_vm);

/* What a sandbox is waiting for. Each but NEEDS_NOTHING has a deadline. */
enum sandbox_needs {
	NEEDS_NOTHING,
	NEEDS_IMAGE,
	NEEDS_PACKAGES,
	NEEDS_PLACE,	/* in the admission */
	NEEDS_SNAPSHOT, /* it is being read */
	NEEDS_SAVED,	/* likewise, what it begins from */
	NEEDS_DIGESTS,	/* whether that fits */
};

/*
 * - `state` is what callers see, `reported` the last one given to the `state` callback.
 * - From CLOSING on nothing new starts; `problem` is set unless `asked`.
 * - `wait` is active while it needs IMAGE, PACKAGES, SNAPSHOT or SAVED; `guest` is NULL while it
 *   needs anything, but SAVED files, and between a clone that failed and the machine that boots
 *   instead.
 * - `nopen` counts what must be closed before `closed`: the timer, the guest, the network.
 */
struct sandbox {
	struct vm *vm;
	const struct sandbox_events *events;
	void *data;
	struct sandbox_spec spec; /* owned */
	struct log_label label;	  /* of `spec`; with the run that it has, while it has one */
	const struct backend_ops *ops;

	enum sandbox_state state, reported;
	enum sandbox_needs needs;
	bool asked, torn_down;
	bool was_up;
	bool took_early;       /* its guest was begun for the pool, and is not up yet */
	bool introduced;       /* its start was noted on the console, if it did not boot */
	bool awaits;	       /* its user is to be told what it waits for */
	bool still;	       /* stopped by sandbox_freeze() */
	bool kept, files_only; /* it began from a saved one's memory; without that */
	bool wants;	       /* it was taken over, and waits for processors; until vm_go() */
	bool unfreezes;	       /* likewise, and was being saved, of which nothing comes */
	enum sandbox_start start;
	struct problem problem;
	unsigned nopen;
	struct deferred work; /* reports a new state, or tears everything down */

	struct wait wait;
	struct saved *from; /* reference, or NULL: it begins from nothing, or has begun */
	struct restore restore;
	struct save save;
	struct layer *layer;	   /* of its packages; or NULL */
	struct template *template; /* holds a reference; or NULL */
	struct meter meter;
	struct ticket ticket;
	struct slot slot; /* HELD while a run or a job is there; WAITING only while READY */
	struct guest *guest;
	struct network *network;	/* or NULL */
	uv_timer_t deadline;		/* of what it needs */
	uint64_t asked_at, admitted_at; /* ms of the loop's clock, or 0 */
	TAILQ_ENTRY(sandbox) link;
};

/* Does it run anything? Else its processors are others'. */
static inline bool sandbox_computes(const struct sandbox *s)
{
	return s->state == SANDBOX_RUNNING || (s->guest && guest_has_jobs(s->guest));
}

/* ---- sandbox.c ---- */

extern const struct network_ops sandbox_network_ops;

/* The two parts of sandbox_new() before it begins: a sandbox without a network, and the list of
 * all. Return: 0 or -errno. */
int sandbox_make(struct vm *vm, const struct sandbox_spec *spec,
		 const struct sandbox_events *events, void *data, struct sandbox **ret_sandbox);
void sandbox_enter(struct sandbox *s);

/* ---- state.c ---- */

/* Frees one that nothing of is open. */
void sandbox_free(struct sandbox *s);

/* Ends a sandbox because of @problem, unless it is ending already. */
void sandbox_fail(struct sandbox *s, const struct problem *problem);
void printf_like(4, 5) sandbox_failf(struct sandbox *s, enum problem_code code, const char *fix,
				     const char *cause, ...);
void sandbox_no_memory(struct sandbox *s);

/* Something about it has changed: the loop looks after it. */
void sandbox_defer(struct sandbox *s);
void sandbox_on_work(struct deferred *d);

void sandbox_set_state(struct sandbox *s, enum sandbox_state state);

/* Tells its owner the state, unless he knows it. */
void sandbox_report(struct sandbox *s);

/* Does at once what a new state asks for, instead of when the loop comes to it. */
void sandbox_work(struct sandbox *s);

/* One of what `nopen` counts has ended. The last one frees @s. */
void sandbox_part_closed(struct sandbox *s);

/* With a turn: what sandbox_put() writes has changed, or is about to. */
static inline void sandbox_touch(struct sandbox *s)
{
	if (turn_is_on(s->vm->ctx.turn))
		tell_owner(s, touched);
}

/* Stops waiting for whatever it waits for. */
void sandbox_leave(struct sandbox *s);

/* ---- sandbox.c ---- */

/* More digests are known than before. */
void sandbox_on_digests(struct sandbox *s);

/* ---- start.c ---- */

extern const struct guest_events sandbox_guest_events;

/* Its run is over: lines about @s name none. */
void sandbox_unlabel(struct sandbox *s);

/* Takes a guest from the pool: an idle one, or else one that is on its way there. Return: false if
 * there is none. */
bool sandbox_take(struct sandbox *s);

/* Clones or boots a guest for @s, which has a place. */
void sandbox_start(struct sandbox *s);

/* ---- schedule.c ---- */

/* Sets the limits from the host's resources and the configuration. Return: 0 or -errno. */
int schedule_init(struct vm *vm, const struct vm_config *cfg);
void schedule_fini(struct vm *vm);

/* Admits those for whom there is a place or processors now. */
void schedule_all(struct vm *vm);

/* Updates what the admission knows about the host. */
void schedule_look(struct vm *vm);

/* Why @s waits for a place, and what to do about it. */
void schedule_explain(const struct sandbox *s, char *ret_why, size_t size, const char **ret_fix);

/* ---- workdir.c ---- */

/* When struct vm ends: cancels pending lists. */
void workdir_cut(struct vm *vm);

#endif
