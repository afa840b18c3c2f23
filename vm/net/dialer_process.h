/* SPDX-License-Identifier: Apache-2.0 */
/* What the networks of all sandboxes share: the process that makes connections. */
#ifndef XSBX_VM_NET_DIALER_PROCESS_H
#define XSBX_VM_NET_DIALER_PROCESS_H

#include <stdbool.h>
#include <stdint.h>

struct dialer;
struct jail_report;
struct vm;

/* The dialer; its process is only started when it is used. Return: NULL for want of memory. */
struct dialer *hub_dialer(struct vm *vm);

/* A number for a network, by which the dialer tells them apart. */
uint32_t hub_new_owner(struct vm *vm);

/* What holds of the process's jail, or NULL if none has been started. */
const struct jail_report *hub_report(const struct vm *vm);

/* Ends it, when there is no network any more. Return: whether there is nothing left; if not, context_wake() is
 * called when there is. */
bool hub_close(struct vm *vm);

#endif
