/* SPDX-License-Identifier: Apache-2.0 */
/* A program that works for the daemon in the background, and what it says. */
#ifndef XSBX_VM_SPAWN_PROGRAM_H
#define XSBX_VM_SPAWN_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

#include "vm/base/reader.h"
#include "client.h"

#define PROGRAM_OUTPUT 4096u

struct lines;

/*
 * Embedded by its owner, who zeroes it, sets what comes first, and keeps it and the lines until `over`.
 *
 * - `over` is called once for each program_start() that returned 0, from the loop, when the program is gone
 *   and all that it said was taken. It may start the next one, or free the owner.
 * - `nopen` is not 0 from program_start() to `over`. To end it early then: child_kill(&p->child).
 */
struct program {
	const int *fds; /* what it is given beside its output; only needed in program_start() */
	size_t nfds;
	/* These take what it writes; without either the first of it goes to `output`. */
	struct lines *lines;
	void (*bytes)(struct program *p, const void *bytes, size_t len);
	const struct log_label *label; /* as in struct child */
	unsigned limit_ms;	       /* it is killed after so long, and is `late`; 0: never */
	void (*started)(struct program *p); /* may be NULL */
	void (*over)(struct program *p);
	void *data;

	struct child child;
	struct reader reader;
	uv_timer_t timer;
	unsigned nopen; /* of these three */
	bool late;
	int status;			/* how it ended, as from wait(2) */
	int failed;			/* or -errno if it could not be started, */
	char step[JAIL_WHAT_MAX + 128]; /* ... at this step */
	char output[PROGRAM_OUTPUT];	/* terminated when `over` is called */
	size_t len;
};

/**
 * program_start() - Start a program
 * @p: See struct program
 * @loop: Loop
 * @sp: Spawner
 * @request: Which, as for child_start(); its last descriptor is for all that it says
 * @size: Its size
 *
 * Return: 0, also if it turns out later that the program can't be started, or -errno.
 */
int program_start(struct program *p, uv_loop_t *loop, struct spawner *sp, const void *request,
		  size_t size);

#endif
