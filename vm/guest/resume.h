/* SPDX-License-Identifier: Apache-2.0 */
/* A guest that another process had before: its agent is told, and what it says is compared. */
#ifndef XSBX_VM_GUEST_RESUME_H
#define XSBX_VM_GUEST_RESUME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct guest;
struct proto_header;
struct proto_in;
struct vm_held_node;

/* Embedded in a guest, zeroed. */
struct guest_resume {
	bool due;		   /* the agent is to be told, before anything else */
	uint64_t asked;		   /* ticket of RESUME, while RESUMED is due; or 0 */
	uint32_t id;		   /* of the last RESUME, of this process or one before it */
	struct vm_held_node *held; /* what it is to be told that we hold; owned */
	size_t nheld;
	bool holds; /* ... and of that */
};

void resume_fini(struct guest_resume *r);

/* A frame is about to be queued: the agent is told first, if it is to be. */
void resume_on_push(struct guest *g);

/* Tells it now. */
void resume_send(struct guest *g);

/* Handles RESUMED. Return: 0 or -EPROTO. */
int resume_on_resumed(struct guest *g, const struct proto_header *h, struct proto_in *in);

#endif
