/* SPDX-License-Identifier: Apache-2.0 */
/* Idle guests that wait for somebody to need them, and everything else done in the background. */
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
	/* Brings up to date what the admission knows of the host. */
	void (*look)(void *data);
	/* Is a sandbox starting that somebody has asked for? */
	bool (*starting)(void *data);
};

/* Embedded in the machinery, which sets all up to `data`. */
struct pool {
	struct context *ctx;
	struct backends *backends;
	struct guests *guests;
	struct image_jobs *images;
	struct package_jobs *packages;
	struct store_client *store;
	struct admission *admission;
	const struct slots *slots;
	uint64_t snapshot_bytes; /* most on the disk */
	const struct pool_ops *ops;
	void *data;

	struct template_list templates;
	unsigned ntemplates;
	uv_timer_t timer; /* the caller's to close */
};

void pool_init(struct pool *p);

/* Something is to be done in the background now or soon. */
void pool_wake(struct pool *p);

/**
 * pool_take() - Take an idle guest
 * @t: Of this template
 * @ticket: For whoever takes it, in state TICKET_NONE: gets the guest's place
 *
 * Return: a guest, for guest_introduce() at once; NULL if there is none that is well.
 */
struct guest *pool_take(struct template *t, struct ticket *ticket);

/* Somebody waits for a place: ends one that nobody has asked for. Return: whether there was one, or
 * one is still on its way out. */
bool pool_yield(struct pool *p);

/* Idle guests and machines being copied; they have places in the admission. */
unsigned pool_places(const struct pool *p);

/* At the end of the machinery: nothing is begun any more, and what nobody has asked for ends. */
void pool_close(struct pool *p);

#endif
