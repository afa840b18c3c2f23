/* SPDX-License-Identifier: Apache-2.0 */
/* Handles that are given out before the agent has opened the file. */
#ifndef XSBX_VM_GUEST_EARLY_H
#define XSBX_VM_GUEST_EARLY_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <uv/tree.h>

#include "file.h"

/*
 * Theory of operation
 * -------------------
 * Programs open small files, read them to the end and close them. If all that is known (known.h),
 * the agent need not hear of it: the handle is one of ours, reads are answered, and when it is
 * closed nothing was ever opened.
 *
 * What opening means must still be true later: a file that is open can be read whatever becomes of
 * its name and mode. So the agent is asked to open what is HELD before anything is sent that could
 * change that: code to run, a new mode or name. It carries out what it is sent in that order. While
 * a new mode or name is on its way, only the agent can say whether a file may be opened, and
 * nothing is opened here.
 *
 * It is asked, too, when a request comes that only the open file can answer; such requests wait
 * until it has answered, and go on with its handle. And of what is held for long, for it drops
 * nodes that it was not asked about for very many requests, unless they are open (the agent's
 * node.h).
 *
 * The table only remembers; files.c asks.
 */

#define EARLY_HANDLE   (1ull << 63) /* in the numbers of such handles; the agent counts from 1 */
/* An agent lets at least so many be open: what it is asked to open later is not refused for their
 * number. Nor has it to wait for a place among what is in flight. */
#define EARLY_OPEN_MAX 32u
static_assert(EARLY_OPEN_MAX <= PROTO_FILES_INFLIGHT / 2, "the others need places too");
#define EARLY_REQUESTS_MAX 256u /* held for so many others, it is opened */

enum early_state {
	EARLY_HELD,  /* the agent does not know of it */
	EARLY_ASKED, /* it was asked to open the file */
	EARLY_OPEN,
	EARLY_FAILED,
};

/* A request that waits. */
struct early_request {
	STAILQ_ENTRY(early_request) link;
	struct vm_file req; /* without names and data */
	vm_file_fn fn;
	void *data;
};

STAILQ_HEAD(early_requests, early_request);

struct early {
	RB_ENTRY(early) link;
	TAILQ_ENTRY(early) held; /* of those that are HELD */
	uint64_t handle, node;
	uint64_t since; /* HELD: since this request */
	enum early_state state;
	uint64_t remote; /* OPEN: the agent's handle */
	int err;	 /* FAILED */
	bool closed;	 /* ASKED: to be released when it is open */
	struct early_requests waiting;
	void *owner;
};

RB_HEAD(early_tree, early);

struct early_table {
	struct early_tree tree;
	uint64_t last, requests;
	TAILQ_HEAD(early_list, early) held;
	unsigned nheld;
};

void early_init(struct early_table *t);
/* All have to be without requests. */
void early_fini(struct early_table *t);

/* Return: a handle that is held, or NULL if out of memory. */
struct early *early_new(struct early_table *t, uint64_t node, void *owner);
/* One that another process has given out, with this handle, node, state and so on. Return: 0,
 * -EBADMSG if there is such a handle, or -ENOMEM. */
int early_restore(struct early_table *t, const struct early *from, void *owner);
void early_free(struct early_table *t, struct early *e);
struct early *early_find(const struct early_table *t, uint64_t handle);
/* All, in the order of their handles: the first, and the one behind @e; or NULL. */
const struct early *early_first(const struct early_table *t);
const struct early *early_next(const struct early *e);
/* Return: one that is held, or NULL. */
struct early *early_held(const struct early_table *t);
/* Another request is made. Return: is one held for very long? */
bool early_is_old(struct early_table *t);
void early_set(struct early_table *t, struct early *e, enum early_state state);

/* @req waits for the file to be open. Return: 0, -ENOMEM, or -EBADF for one that has names or data. */
int early_wait(struct early *e, const struct vm_file *req, vm_file_fn fn, void *data);
/* Return: the handle on which the request for a lock with this token waits, or NULL. */
struct early *early_locking(const struct early_table *t, uint64_t token);

#endif
