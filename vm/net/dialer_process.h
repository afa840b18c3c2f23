/* SPDX-License-Identifier: Apache-2.0 */
/* The process that makes connections, shared by the networks of all sandboxes. */
#ifndef XSBX_VM_NET_DIALER_PROCESS_H
#define XSBX_VM_NET_DIALER_PROCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "dialer.h"
#include "vm/base/context.h"
#include "vm/jail/jail.h"

struct dial_child;

/* Embedded in struct vm, with `ctx` set and the rest zeroed. Nothing is started before its first use. */
struct dialer_process {
	struct context *ctx;
	struct dialer dialer;
	bool there;	  /* `dialer` is initialized */
	uint64_t version; /* of the resolver's files that the process sees */
	uint32_t last_owner;
	bool seen; /* `report` is valid, for the last process that was started */
	struct jail_report report;
	/* The current process, and others that are about to end. */
	LIST_HEAD(dial_children, dial_child) children;
};

/* Gets the dialer; its process is started on first use. */
struct dialer *dialer_process_get(struct dialer_process *p);

/* Allocates a number that identifies a network to the dialer. */
uint32_t dialer_process_new_owner(struct dialer_process *p);

/* The report of the process's jail, or NULL if none was started. */
const struct jail_report *dialer_process_report(const struct dialer_process *p);

/* Ends it, after all networks have ended. Return: true if nothing is left; else context_wake() is called
 * when that is so. */
bool dialer_process_close(struct dialer_process *p);

#endif
