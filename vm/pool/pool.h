/* SPDX-License-Identifier: Apache-2.0 */
/* The pool: idle guests ready to be taken, and all other background work. */
#ifndef XSBX_VM_POOL_POOL_H
#define XSBX_VM_POOL_POOL_H

#include <stdbool.h>

#include "template.h"
#include "vm/backend/backend.h"
#include "vm/build/image_job.h"
#include "vm/build/package_job.h"
#include "vm/build/store_client.h"
#include "vm/guest/guest.h"
#include "vm/host/admission.h"
#include "vm/host/slots.h"

/* Set once, by whoever embeds a pool. */
struct pool_ops {
	/* Updates what the admission knows about the host. */
	void (*look)(void *data);
	/* How many sandboxes are starting that users have asked for? */
	unsigned (*starting)(void *data);
};

/* Embedded in struct vm, which sets the members up to `data`. */
struct pool {
	struct context *ctx;
	struct backends *backends;
	struct guests *guests;
	struct image_jobs *images;
	struct package_jobs *packages;
	struct store_client *store;
	struct admission *admission;
	const struct slots *slots;
	uint64_t snapshot_bytes; /* limit on the disk */
	const struct pool_ops *ops;
	void *data;

	struct template_list templates;
	unsigned ntemplates;
	unsigned cpus;	  /* of this host: to ask for them takes files */
	uv_timer_t timer; /* closed by the caller */
};

void pool_init(struct pool *p);

/* Schedules background work, now or soon. */
void pool_wake(struct pool *p);

/**
 * pool_take() - Take an idle guest
 * @t: Of this template
 * @ticket: The taker's, in state TICKET_NONE: receives the guest's place
 *
 * Return: a guest, to be passed to guest_introduce() at once; NULL if no healthy one is available.
 */
struct guest *pool_take(struct template *t, struct ticket *ticket);

/**
 * pool_take_early() - Take a guest that is still starting
 * @t: Of this template; it has no idle guest
 * @ticket: As for pool_take()
 *
 * It has a lead over one that would be started now.
 *
 * Return: a guest, to be passed to guest_introduce() at once, or NULL.
 */
struct guest *pool_take_early(struct template *t, struct ticket *ticket);

/* A user waits for a place: ends one guest that no user has asked for. Return: whether there was one, or
 * one is still ending. */
bool pool_yield(struct pool *p);

/* How many idle guests there should be: what the configuration says, and more if sessions come faster. */
unsigned pool_wanted(const struct template *t);

/* Number of idle guests and of machines being saved; they occupy places in the admission. */
unsigned pool_places(const struct pool *p);

/* When struct vm ends: nothing new starts, and guests without a user end. */
void pool_close(struct pool *p);

#endif
