/* SPDX-License-Identifier: Apache-2.0 */
/* Synthetic addresses: one for each name that the guest has looked up. */
#ifndef XSBX_VM_NET_FILTER_ALIAS_H
#define XSBX_VM_NET_FILTER_ALIAS_H

#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "vm/base/allow.h"

#define ALIAS_MAX  2048
#define ALIAS_TTL  60	      /* seconds for which the guest may cache one */
#define ALIAS_BASE 0xc6120400 /* 198.18.4.0 */

struct alias {
	char *name;
	uint32_t hash;
	unsigned users; /* open connections */
	time_t used;	/* time of the last lookup or use */
};

/* All zeroes is a valid, empty table. */
struct aliases {
	struct alias *slots;
	size_t nslots, cap;
};

/**
 * alias_get() - Get the address of a name, a new one if it has none
 * @t: Table
 * @name: Canonical name
 * @now: Seconds of a monotonic clock
 * @ret_address: In network order
 *
 * Return: 0; -ENOSPC if the table is full of recently used names; -ENOMEM.
 */
int alias_get(struct aliases *t, const char *name, time_t now, uint32_t *ret_address);

/* Finds the name of an address, or NULL; counts as a use. */
struct alias *alias_find(struct aliases *t, uint32_t address, time_t now);

void alias_fini(struct aliases *t);

#endif
