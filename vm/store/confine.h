/* SPDX-License-Identifier: Apache-2.0 */
/* xsbxfs-store gives up what it does not need. */
#ifndef XSBX_VM_STORE_CONFINE_H
#define XSBX_VM_STORE_CONFINE_H

#include <stdbool.h>

struct store_confinement {
	const char *writable, *readable; /* directories with all below them, or NULL */
	const char *ca_file;		 /* or NULL */
	bool network;
	const char *why; /* if it fails: what did */
};

/* For ever; where the kernel has no Landlock, without that. Return: 0 or -errno. */
int store_confine(struct store_confinement *c);

#endif
