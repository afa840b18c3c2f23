/* SPDX-License-Identifier: Apache-2.0 */
/* What the networks of all sandboxes share: the process that makes connections. */
#ifndef XSBX_VM_NET_DIALER_PROCESS_H
#define XSBX_VM_NET_DIALER_PROCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "dialer.h"
#include "vm/base/context.h"
#include "vm/jail/jail.h"

struct dial_child;

/* Embedded in the machinery, with `ctx` set, the rest zeroed. Nothing of it is there before its first use. */
struct dialer_process {
	struct context *ctx;
	struct dialer dialer;
	bool there;	  /* `dialer` is */
	uint64_t version; /* of the files that the process sees */
	uint32_t last_owner;
	bool seen; /* `report` is of the last one that was started */
	struct jail_report report;
	LIST_HEAD(dial_children, dial_child)
	children; /* one that runs, others that are about to end */
};

/* The dialer; its process is only started when it is used. */
struct dialer *dialer_process_get(struct dialer_process *p);

/* A number for a network, by which the dialer tells them apart. */
uint32_t dialer_process_new_owner(struct dialer_process *p);

/* What holds of the process's jail, or NULL if none has been started. */
const struct jail_report *dialer_process_report(const struct dialer_process *p);

/* Ends it, when there is no network any more. Return: whether there is nothing left; if not, context_wake() is
 * called when there is. */
bool dialer_process_close(struct dialer_process *p);

#endif
