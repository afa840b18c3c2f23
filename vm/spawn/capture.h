/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a program through the spawner and keeps the first bytes it prints. */
#ifndef XSBX_VM_SPAWN_CAPTURE_H
#define XSBX_VM_SPAWN_CAPTURE_H

#include <stdbool.h>
#include <uv.h>

#include "vm/base/reader.h"
#include "client.h"

/* Embedded by its owner, who zeroes it, sets `data`, and keeps it until `done`. */
struct capture {
	struct child child;
	struct reader reader;
	uv_timer_t timer;
	unsigned nopen;
	char output[4096]; /* terminated when `done` is called */
	size_t len;
	bool late;  /* killed at its deadline */
	int failed; /* -errno if it could not be started */
	int status; /* as from wait(2) */
	void (*done)(struct capture *c);
	void *data;
};

/**
 * capture_start() - Run a program
 * @c: See struct capture
 * @loop: Loop
 * @sp: Spawner
 * @request: Which, as for child_start(); its one descriptor is what it prints to
 * @size: Its size
 * @ms: Deadline
 * @done: Called once from the loop, also if the program could not be started
 *
 * Return: 0, or -errno; @done is only called if 0.
 */
int capture_start(struct capture *c, uv_loop_t *loop, struct spawner *sp, const void *request,
		  size_t size, unsigned ms, void (*done)(struct capture *c));

/* Ends it early; @done is still called. */
void capture_kill(struct capture *c);

#endif
