/* SPDX-License-Identifier: Apache-2.0 */
/* Determines where the main thread of a process waits, from /proc/PID/syscall. */
#ifndef XSBX_AGENT_INTERP_REST_H
#define XSBX_AGENT_INTERP_REST_H

#include <stdint.h>
#include <sys/types.h>

enum rest_state {
	REST_AWAY,    /* it runs, or waits elsewhere */
	REST_THERE,   /* it waits at the expected place */
	REST_UNKNOWN, /* the kernel does not tell */
};

/* A blocking system call, and the place of its call. */
struct rest {
	uint64_t call, fd; /* number and first argument */
	uint64_t sp, pc;   /* stack and instruction pointers; 0: none */
};

/**
 * rest_find() - Record the place where a driver waits for its first request
 * @pid: Process that has not received any code yet
 * @ret_r: The place, if REST_THERE is returned
 */
enum rest_state rest_find(pid_t pid, struct rest *ret_r);

/** rest_look() - Does the main thread of @pid wait at the place @r, at the same stack depth? */
enum rest_state rest_look(pid_t pid, const struct rest *r);

#endif
