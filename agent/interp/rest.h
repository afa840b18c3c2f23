/* SPDX-License-Identifier: Apache-2.0 */
/* Determines where the main thread of a process waits, from /proc/PID/syscall, and whether that can
 * end by itself. */
#ifndef XSBX_AGENT_INTERP_REST_H
#define XSBX_AGENT_INTERP_REST_H

#include <stdbool.h>
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
	int file;	   /* /proc/PID/syscall, to be read again; -1: not open */
};

/**
 * rest_find() - Record the place where a driver waits for its first request
 * @pid: Process that has not received any code yet
 * @ret_r: The place, if REST_THERE is returned; to be given up by rest_forget()
 */
enum rest_state rest_find(pid_t pid, struct rest *ret_r);

/** rest_forget() - There is no such place, any more or yet. */
void rest_forget(struct rest *r);

/** rest_look() - Does the main thread of that process wait at the place @r, at the same stack depth? */
enum rest_state rest_look(const struct rest *r);

/** rest_socket() - What tells a socket from all others there ever were, or 0. */
uint64_t rest_socket(int fd);

/**
 * rest_lasts() - Will a call at the place @r that begins now wait until a message comes, for
 * however long?
 * @pid: Process
 * @r: The place
 * @socket: The one that it is to wait at, by rest_socket()
 *
 * No for anything but a reader of that very socket, for one that has a limit of time, and where
 * messages are sorted out before they are read.
 */
bool rest_lasts(pid_t pid, const struct rest *r, uint64_t socket);

#endif
