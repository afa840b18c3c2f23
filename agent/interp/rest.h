/* SPDX-License-Identifier: Apache-2.0 */
/* Where a process waits: what the kernel says of its main thread. */
#ifndef XSBX_AGENT_INTERP_REST_H
#define XSBX_AGENT_INTERP_REST_H

#include <stdint.h>
#include <sys/types.h>

enum rest_state {
	REST_AWAY,    /* it runs, or waits elsewhere */
	REST_THERE,   /* it waits at the place */
	REST_UNKNOWN, /* the kernel does not tell us */
};

/* A system call that blocks, and from where it was made. */
struct rest {
	uint64_t call, fd; /* its number and first argument */
	uint64_t sp, pc;   /* 0: no place */
};

/**
 * rest_find() - Take where a driver waits for its first request as its place
 * @pid: Process that has not been given any code
 * @ret_r: The place, if that is REST_THERE
 */
enum rest_state rest_find(pid_t pid, struct rest *ret_r);

/** rest_look() - Is the main thread of @pid at the place @r, at the same depth of its stack? */
enum rest_state rest_look(pid_t pid, const struct rest *r);

#endif
