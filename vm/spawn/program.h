/* SPDX-License-Identifier: Apache-2.0 */
/* A program that works for the daemon in the background, and says how far it is. */
#ifndef XSBX_VM_SPAWN_PROGRAM_H
#define XSBX_VM_SPAWN_PROGRAM_H

#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "vm/base/reader.h"
#include "client.h"

struct words;

/*
 * Embedded by its owner, who zeroes it, sets `words`, `over` and `data`, and keeps it and the words
 * until `over`.
 *
 * - `over` is called once for each tool_start() that returned 0, from the loop, when the program is gone
 *   and all that it said was added to `words`. It may start the next one, or free the owner.
 * - To end it early: child_kill(&t->child).
 */
struct tool {
	struct child child;
	struct reader reader;
	unsigned nopen;	     /* the child, and what reads its words */
	int status;	     /* how it ended, as from wait(2) */
	int failed;	     /* or -errno if it could not be started */
	struct words *words; /* what it writes on standard output and error */
	void (*over)(struct tool *t);
	void *data;
};

/**
 * tool_start() - Start a program
 * @t: See struct tool
 * @loop: Loop
 * @sp: Spawner
 * @request: Which, as for child_start(); its one descriptor is for all that it says
 * @size: Its size
 *
 * Return: 0, also if it turns out later that the program can't be started, or -errno.
 */
int tool_start(struct tool *t, uv_loop_t *loop, struct spawner *sp, const void *request,
	       size_t size);

#endif
