/* SPDX-License-Identifier: Apache-2.0 */
/* A program that runs in the background for the daemon, and its output. */
#ifndef XSBX_VM_SPAWN_PROGRAM_H
#define XSBX_VM_SPAWN_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

#include "vm/base/reader.h"
#include "child.h"

#define PROGRAM_OUTPUT 4096u

struct lines;

/*
 * Embedded by its owner, who zeroes it, sets the first members, and keeps it and the lines until
 * `over`.
 *
 * - `over` is called once for each program_start() that returned 0, from the loop, when the program
 *   has ended and all of its output was read. It may start the next one, or free the owner.
 * - `nopen` is not 0 from program_start() to `over`. To end the program early:
 *   child_kill(&p->child).
 */
struct program {
	const int *fds; /* its descriptors besides the output; only used in program_start() */
	size_t nfds;
	/* Likewise, as in struct spawn_spec; with any of them the output's end is one as well. */
	const int *near;
	size_t nnear;
	/* Receivers of its output; without either its beginning is kept in `output`. */
	struct lines *lines;
	void (*bytes)(struct program *p, const void *bytes, size_t len);
	const struct log_label *label; /* as in struct child */
	unsigned limit_ms;	       /* it is killed after this time, and is `late`; 0: never */
	void (*started)(struct program *p); /* may be NULL */
	/* What its record says is another; `over` follows. May be NULL. */
	void (*exited)(struct program *p);
	void (*over)(struct program *p);
	void *data;

	struct child child;
	struct reader reader;
	uv_timer_t timer;
	unsigned nopen; /* of these three */
	bool late;
	int status;			/* exit status, as from wait(2) */
	int failed;			/* or -errno if it could not be started, */
	char step[JAIL_WHAT_MAX + 128]; /* and the step that failed */
	char output[PROGRAM_OUTPUT];	/* terminated when `over` is called */
	size_t len;
};

/**
 * program_start() - Start a program
 * @p: See struct program
 * @loop: Loop
 * @sp: Spawner
 * @request: Which, as for child_start(); its last descriptor is for the output
 * @size: Its size
 *
 * Return: 0 or -errno; if the program can't be executed, that is reported by `over`.
 */
int program_start(struct program *p, uv_loop_t *loop, struct spawner *sp, const void *request,
		  size_t size);

/* The parts of that, for one that runs already: its child's callbacks are set; its output comes
 * from @output, if that is not -1, and it counts as open from now on. */
void program_prepare(struct program *p);
void program_listen(struct program *p, uv_loop_t *loop, int output);

#endif
