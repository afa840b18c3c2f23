/* SPDX-License-Identifier: Apache-2.0 */
/* Private to outputs: pipes whose writes the kernel tells of, and keeps apart, see journal.c. */
#ifndef XSBX_AGENT_OUTPUT_APART_H
#define XSBX_AGENT_OUTPUT_APART_H

#include "output.h"

#define APART_MIN \
	64u /* so many writes have to find room in a pipe; and so many at a time are many */
#define APART_PAGE 4096u /* what takes more is in several pieces */

/**
 * apart_listen() - Hear of writes to the pipes of one program
 * @ret_signal: A signal's number of its own, for apart_mark() and apart_deafen()
 *
 * Return: a signalfd, which tells of that one and of SIGIO, of which all are told; or -1: there are too many.
 */
int apart_listen(int *ret_signal);

/** apart_deafen() - No more; closes the signalfd. */
void apart_deafen(int *fd, int signal);

/**
 * apart_mark() - Have the kernel tell of each write to a pipe, and keep writes apart
 * @fds: The pipe, nobody has written to yet
 * @signal: By this one
 *
 * Return: how many writes find room in it, or 0 if that is not to be had; then the pipe is as it was.
 */
unsigned apart_mark(const int fds[2], int signal);

/** apart_even_out() - If one output of the run is such a pipe and the other one is not, make neither one. */
void apart_even_out(struct output *o);

/** apart_is_on() - Are both outputs of the run such pipes? */
bool apart_is_on(const struct output *o);

/** apart_keep() - Have the writes of a stream kept apart, or merged. Return: is it so? */
bool apart_keep(const struct stream *s, bool apart);

/** apart_mute() - Have the kernel not tell of a stream's writes any more, or tell again. */
void apart_mute(struct stream *s, bool muted);

/** apart_leave() - The run of a stream has ended: what is still written to it is of no interest. */
void apart_leave(struct stream *s);

#endif
