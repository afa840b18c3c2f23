/* SPDX-License-Identifier: Apache-2.0 */
/* Confines xsbxfs-store to what it needs. */
#ifndef XSBX_VM_STORE_CONFINE_H
#define XSBX_VM_STORE_CONFINE_H

#include <stdbool.h>

struct store_confinement {
	const char *writable, *readable; /* directories, including everything below, or NULL */
	const char *ca_file;		 /* or NULL */
	bool network;
	const char *why; /* if it fails: the step that failed */
};

/* Permanent; without Landlock if the kernel does not have it. Return: 0 or -errno. */
int store_confine(struct store_confinement *c);

#endif
