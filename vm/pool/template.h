/* SPDX-License-Identifier: Apache-2.0 */
/* Templates: the common configuration of sandboxes, the snapshot they are cloned from, their idle
 * clones. */
#ifndef XSBX_VM_POOL_TEMPLATE_H
#define XSBX_VM_POOL_TEMPLATE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "ahead.h"
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

#define TEMPLATE_BUILD_FAILURES 3u /* in a row; it is broken then */

enum template_state {
	TEMPLATE_UNKNOWN,  /* a snapshot was not looked for yet */
	TEMPLATE_LOADING,  /* it is being read and verified */
	TEMPLATE_NONE,	   /* there is none; one is built when there is time */
	TEMPLATE_BUILDING, /* a machine is booting that will be saved */
	TEMPLATE_READY,	   /* can be cloned */
	TEMPLATE_PLAIN,	   /* the backend has no snapshots; the state never changes */
	TEMPLATE_BROKEN,   /* does not work here: sandboxes boot */
	TEMPLATE_NSTATES,
};

enum idle_state {
	IDLE_STANDBY, /* a clone whose memory is not restored yet */
	IDLE_FILLING, /* it is starting */
	IDLE_READY,
	IDLE_NSTATES,
};

/* An idle guest. */
struct idle {
	TAILQ_ENTRY(idle) link;
	struct template *template;
	struct guest *guest;
	struct ticket ticket;
	enum idle_state state;
	bool brief;		/* it is exercised no more than is needed */
	char shown[DIGEST_HEX]; /* view_stamp() when it was started */
	uint64_t asked_at;	/* ms of the loop's clock */
};

TAILQ_HEAD(idle_list, idle);
TAILQ_HEAD(template_list, template);

/*
 * - `snapshot` is open if and only if READY; `recording` only while BUILDING.
 * - `builder` is set from the start of BUILDING until that guest is gone; `builder_ticket` holds
 *   its place.
 * - `waits` has the waits of sandboxes that have a place, for LOADING to end.
 * - `idle` has the unused guests, ready ones first; `nidle` has their number by state.
 * - `refs` counts the sandboxes and jobs that point here.
 */
/* clang-format off */ /* which takes the name for C++ */
struct template {
	/* clang-format on */
	struct pool *pool;
	TAILQ_ENTRY(template) link;
	unsigned refs;

	struct sandbox_spec spec; /* common to all its sandboxes; owned */
	const struct backend_ops *ops;
	struct layer *layer; /* of its packages, as long as it is in use; or NULL */
	struct ahead ahead;  /* what of them its snapshot has imported */

	enum template_state state;
	char key[DIGEST_HEX]; /* of the snapshot that is current, or would be */
	struct snapshot snapshot, recording;
	struct guest *builder;
	struct ticket builder_ticket;
	bool recorded; /* the builder was saved */
	struct wait_list waits;
	unsigned clone_failures, build_failures; /* in a row */
	uint64_t retry_at;			 /* ms of the loop's clock */
	char problem[512];
	bool packages_failed;	 /* because of `problem` */
	bool asked;		 /* the store was queried for this key */
	bool fetching;		 /* it is being fetched from the store */
	bool damaged;		 /* the store's copy is unusable */
	bool fetched;		 /* it came from the store */
	bool shared;		 /* it is the one that root has made for all */
	bool shuns_shared;	 /* ... which does not work */
	bool saved, save_failed; /* it is on the disk; it could not be written */

	bool prepared; /* to be kept ready before its first use */
	bool ad_hoc; /* not from the configuration: a snapshot is built at its second use, see ad_hoc.h */
	unsigned uses; /* sandboxes requested */

	struct idle_list idle;
	struct vm_pool want;
	unsigned grown;	   /* idle guests beyond its target, for sessions that found none */
	uint64_t grown_at; /* or shrunk: ms of the loop's clock */
	bool refilling;	   /* it fell below the low-water mark, and is not full again */
	bool filled;	   /* a clone was ready since it was empty for want of use */
	unsigned nidle[IDLE_NSTATES];
	uint64_t taken_at;	   /* the last one: ms of the loop's clock */
	uint64_t standby_at;	   /* ms of the loop's clock: not before */
	unsigned standby_failures; /* in a row */
	uint64_t used_at, refreshed_at, hits, misses, built_ms;
	uint64_t refills, refill_ms, refill_sum_ms;
};

/**
 * template_get() - Find or create the template of a sandbox, and update it
 * @p: Pool
 * @spec: Spec of the sandbox
 *
 * Return: the template, or NULL if there can't be any; sandboxes then boot.
 */
struct template *template_get(struct pool *p, const struct sandbox_spec *spec);

/* Starts looking for the snapshot of a template in state UNKNOWN, if its key is known. */
void template_load(struct template *t);

/* Recomputes the key; if it has changed, everything made with the old one is discarded. */
void template_refresh(struct template *t);

/* Discards what the template has ready: the snapshot, its idle guests, a machine being built. */
void template_drop(struct template *t);

/* Are its packages installed, or has it none? If so, they stay installed while the template is in
 * use. */
bool template_layer(struct template *t);

/* Releases the packages of templates that are not in use, so that they can be evicted. */
void template_free_layers(struct pool *p);

/* Installs missing packages of a template that is to be kept ready. */
void template_install(struct template *t);

/* Is it known how to start? If not, @w waits for that. Return: whether it waits. */
bool template_wait(struct template *t, struct wait *w);

/* A clone has worked; a clone has failed because of @problem. */
void template_clone_works(struct template *t);
void template_clone_failed(struct template *t, const struct problem *problem);

/* More digests are known than before: recomputes all keys. */
void template_refresh_all(struct pool *p);

/* Its snapshot could not be made because of @why: it is tried again later, and given up for a while
 * after some times. */
void template_build_failed(struct template *t, const char *why);

/* Writes its snapshot to the disk, in the background. */
void template_store(struct template *t);

/* Queries the store for the snapshot, once for each key. Return: whether an answer is pending. */
bool template_fetch(struct template *t);

/**
 * template_start() - Start a guest that no user has asked for
 * @t: Of this template
 * @brief: Sessions come fast, or it is no clone: it is exercised only as much as is needed
 * @standby: It is to stand by; only with MACHINE_CLONE
 * @mode: MACHINE_RECORD, into the template's `recording`; MACHINE_CLONE, of its snapshot; MACHINE_COLD
 * @ticket: Zeroed; receives a place
 * @events: Events of the guest
 * @data: Their first argument
 * @ret_guest: Result
 *
 * Return: false if there is no place for it now, or no memory.
 */
bool template_start(struct template *t, enum machine_mode mode, bool brief, bool standby,
		    struct ticket *ticket, const struct guest_events *events, void *data,
		    struct guest **ret_guest);

/* Ends all idle guests of @t. */
void template_empty(struct template *t);

/* Host memory in bytes held by snapshots for clones to start from. It is not charged to any
 * sandbox, and can't be evicted. The memory of a machine being saved is charged to that machine,
 * and counted here when it is gone. */
uint64_t template_memory(const struct pool *p);

const char *template_state_str(enum template_state state);

/* A user waits for memory: releases the least recently used snapshot that no sandbox needs.
 * Return: whether there was one. */
bool template_yield(struct pool *p);

/* When struct vm ends. */
void template_free_all(struct pool *p);

#endif
