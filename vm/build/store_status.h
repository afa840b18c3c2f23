/* SPDX-License-Identifier: Apache-2.0 */
/* Status of the store. Part of vm.h. */
#ifndef XSBX_VM_BUILD_STORE_STATUS_H
#define XSBX_VM_BUILD_STORE_STATUS_H

#include <stdbool.h>
#include <stdint.h>

/* Status of the store; numbers since the start. */
struct vm_store_status {
	const char *url;   /* NULL: there is none */
	const char *state; /* "none", "idle", "busy", "left-alone" because it does not answer */
	bool read, write;
	uint64_t fetched, absent, damaged, put, failed;
	uint64_t again_s;  /* until the next attempt, if it is "left-alone" */
	char problem[500]; /* the last failure, if nothing has succeeded since; or "" */
};

#endif
