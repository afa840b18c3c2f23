/* SPDX-License-Identifier: Apache-2.0 */
/* Templates: what sandboxes have in common, the snapshot they are cloned from, the pool of clones. */
#ifndef XSBX_VM_POOL_TEMPLATE_H
#define XSBX_VM_POOL_TEMPLATE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "vm/backend/backend.h"
#include "vm/base/problem.h"
#include "vm/base/spec.h"
#include "vm/base/wait.h"
#include "vm/guest/guest.h"
#include "vm/host/admission.h"
#include "vm/image/snapshot.h"
#include "vm/jail/view.h"

struct layer;
struct pool;

enum template_state {
	TEMPLATE_UNKNOWN,  /* nobody has looked for a snapshot yet */
	TEMPLATE_LOADING,  /* it is being read and checked */
	TEMPLATE_NONE,	   /* there is none; one is made when there is time */
	TEMPLATE_BUILDING, /* a machine boots that will be copied */
	TEMPLATE_READY,	   /* can be cloned */
	TEMPLATE_PLAIN,	   /* of a backend that has no snapshots, and never another state */
	TEMPLATE_BROKEN,   /* does not work here: sandboxes boot */
	TEMPLATE_NSTATES,
};

/* A guest that waits for somebody to need it. */
struct idle {
	TAILQ_ENTRY(idle) link;
	struct template *template;
	struct guest *guest;
	struct ticket ticket;
	bool ready;		/* else it is on its way up */
	char shown[DIGEST_HEX]; /* view_stamp() when it was begun */
	uint64_t asked_at;	/* ms of the loop's clock */
};

TAILQ_HEAD(idle_list, idle);
TAILQ_HEAD(template_list, template);

/*
 * - `snapshot` is open if and only if READY; `recording` only while BUILDING.
 * - `builder` is set from the start of BUILDING until that guest is gone, and has its place by `builder_ticket`.
 * - `waits` has who has a place and waits for LOADING to end.
 * - `idle` has the guests that nobody uses, ready ones first; `nready` and `nfilling` add up to it.
 * - `refs` counts the sandboxes and jobs that point here.
 */
struct template
{
	struct pool *pool;
	TAILQ_ENTRY(template) link;
	unsigned refs;

	struct sandbox_spec spec; /* what all of them have in common; owned */
	const struct backend_ops *ops;
	struct layer *layer; /* of its packages, as long as it is in use; or NULL */

	enum template_state state;
	char key[DIGEST_HEX]; /* of the snapshot that is or would be right now */
	struct snapshot snapshot, recording;
	struct guest *builder;
	struct ticket builder_ticket;
	bool recorded; /* the builder was copied */
	struct wait_list waits;
	unsigned clone_failures, build_failures; /* in a row */
	uint64_t retry_at;			 /* ms of the loop's clock */
	char problem[512];
	bool packages_failed;	 /* as `problem` says */
	bool asked;		 /* the store was asked for what has this key */
	bool fetching;		 /* it is, right now */
	bool damaged;		 /* what the store has of it is of no use */
	bool fetched;		 /* it is from there */
	bool saved, save_failed; /* it is on the disk; it should be, and can't */

	bool prepared; /* to be ready before it is used, and to stay so */
	bool ad_hoc;   /* not as the configuration says: a snapshot is made at its second use */
	unsigned uses; /* sandboxes that were asked for */

	struct idle_list idle;
	struct vm_pool want;
	bool refilling; /* there were fewer than the low-water mark, and are not yet as many as wanted */
	unsigned nready, nfilling;
	uint64_t used_at, refreshed_at, hits, misses, built_ms;
	uint64_t refills, refill_ms, refill_sum_ms;
};

/**
 * template_get() - The template of a sandbox, made if it is new, brought up to date
 * @p: Pool
 * @spec: What the sandbox is to be
 *
 * Return: The template, or NULL if there can't be any; sandboxes then boot.
 */
struct template *template_get(struct pool *p, const struct sandbox_spec *spec);

/* Begins to look for the snapshot of a template in state UNKNOWN, if its key is known. */
void template_load(struct template *t);

/* Brings the key up to date; if it has changed, what was made with the old one is given up. */
void template_refresh(struct template *t);

/* Gives up what the template has ready: the snapshot, its idle guests, a machine that is being made. */
void template_drop(struct template *t);

/* Are its packages there, or has it none? They stay there then, as long as the template is in use. */
bool template_layer(struct template *t);

/* Lets go of the packages of templates that nobody uses now: if room is needed, theirs can go. */
void template_free_layers(struct pool *p);

/* Has the packages of a template that is to be ready before it is used installed, if they are missing. */
void template_install(struct template *t);

/* Has it what is needed to know how to start? If not, @w waits for that. Return: whether it waits. */
bool template_wait(struct template *t, struct wait *w);

/* A clone works; a clone does not work because of @problem. */
void template_clone_works(struct template *t);
void template_clone_failed(struct template *t, const struct problem *problem);

/* More is known about files than before: brings all keys up to date. */
void template_refresh_all(struct pool *p);

/* Has a guest booted that is copied. Called in the background. */
void template_build(struct template *t);

/* Of that: it failed; or it is READY, and put on the disk by a worker thread. Return: 0 or -errno. */
void template_build_failed(struct template *t, const char *why);
int template_store(struct template *t);

/* Has the store asked for the snapshot, once for each key. Return: whether an answer is to come. */
bool template_fetch(struct template *t);

/**
 * template_start() - Start a guest that nobody has asked for
 * @t: Of this template
 * @mode: MACHINE_RECORD, into the template's `recording`; MACHINE_CLONE, of its snapshot; MACHINE_COLD
 * @ticket: Zeroed; gets a place
 * @events: Of the guest, with
 * @data: their first argument
 * @ret_guest: Result
 *
 * Return: false if there is no place for it now, or no memory.
 */
bool template_start(struct template *t, enum machine_mode mode, struct ticket *ticket,
		    const struct guest_events *events, void *data, struct guest **ret_guest);

/* Ends all idle guests of @t. */
void template_empty(struct template *t);

/* Bytes of the host's memory that snapshots hold for clones to start from. It is not in any sandbox's
 * claim, and it can't be evicted. The memory of a machine that is being recorded is in that machine's
 * claim, and moves here when it is gone. */
uint64_t template_memory(const struct pool *p);

const char *template_state_str(enum template_state state);

/* Somebody waits for memory: lets go of the snapshot that was not used for longest, of those that no
 * sandbox needs. Return: whether there was one. */
bool template_yield(struct pool *p);

/* At the end of the machinery. */
void template_free_all(struct pool *p);

#endif
