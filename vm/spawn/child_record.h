/* SPDX-License-Identifier: Apache-2.0 */
/* Children in a record: a process that runs becomes another daemon's; so does the end of one. */
#ifndef XSBX_VM_SPAWN_CHILD_RECORD_H
#define XSBX_VM_SPAWN_CHILD_RECORD_H

#include "child.h"
#include "program.h"
#include "vm/base/fdbag.h"
#include "vm/base/record.h"

/* Appends the fields of a child that runs, also if it is to be killed, or has run, and how it
 * ended; of another none, and nobody can take that. */
void child_put(const struct child *c, struct buf *out, struct fdbag *fds);

/**
 * child_take() - Take over a child that another daemon has started
 * @sp: Spawner, attached to a loop
 * @r: Fields
 * @fds: What it is held by
 * @c: As for child_start(); `started` is not called
 *
 * Return: 0; -EBADMSG; -EPIPE if the spawner is gone. On failure it is none of ours, and the
 * spawner ends it.
 */
int child_take(struct spawner *sp, struct record_reader r, struct fdbag *fds, struct child *c);

/* The same of a program, and of what reads its output; without a limit of its time. */
void program_put(const struct program *p, struct buf *out, struct fdbag *fds);
int program_take(struct program *p, uv_loop_t *loop, struct spawner *sp, struct record_reader r,
		 struct fdbag *fds);

#endif
