/* SPDX-License-Identifier: Apache-2.0 */
/* Standard input of a run: from STDIN frames into a pipe. */
#ifndef XSBX_AGENT_RUN_STDIN_H
#define XSBX_AGENT_RUN_STDIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/core/loop.h"
#include "agent/protocol.h"

struct conn;
struct guest_env;

#define STDIN_WINDOW (64u << 10) /* most bytes the host may be ahead of the program */

struct stdin_pipe {
	struct loop *loop;
	struct conn *conn;
	struct loop_source src; /* write end of the pipe, -1 once closed */
	uint32_t run;
	bool active;	   /* the run was started with PROTO_RUN_STDIN */
	bool eof;	   /* the host has sent everything */
	bool closed;	   /* the program has closed its end; further input is dropped */
	bool typed;	   /* on a terminal, whose end of file is a character */
	uint32_t granted;  /* bytes the host may still send */
	uint32_t consumed; /* bytes taken since credit was last given */
	size_t first, end;
	uint8_t data[STDIN_WINDOW];
};

/**
 * stdin_start() - Start the input of a run, and grant the first credit
 * @f: Pipe with loop and conn set
 * @run: Number of the run
 * @env: Names the user who will own the pipe
 * @ret_fd: The program's end, to be passed on and closed
 *
 * Return: 0 or -errno.
 */
int stdin_start(struct stdin_pipe *f, uint32_t run, const struct guest_env *env, int *ret_fd);

/**
 * stdin_type() - Start the input of a run on a terminal
 * @f: Pipe with loop and conn set
 * @run: Number of the run
 * @fd: The terminal's master, non-blocking; owned from now on
 *
 * At the end of the input ^D is typed (VEOF), and the terminal stays as it is.
 *
 * Return: 0 or -errno.
 */
int stdin_type(struct stdin_pipe *f, uint32_t run, int fd);

/**
 * stdin_frame() - Handle a STDIN frame
 * @f: Pipe
 * @data: Bytes
 * @eof: They are the last
 *
 * Return: 0, or -EPROTO if there are more than were granted.
 */
int stdin_frame(struct stdin_pipe *f, struct proto_str data, bool eof);

/** stdin_stop() - The run is over: close the pipe and drop pending input. */
void stdin_stop(struct stdin_pipe *f);

#endif
