/* SPDX-License-Identifier: Apache-2.0 */
/* Private to runs: from the pipes of a run to OUTPUT frames. */
#ifndef XSBX_AGENT_RUN_STREAM_H
#define XSBX_AGENT_RUN_STREAM_H

#include "run.h"

/**
 * stream_pipe() - Make a pipe between the agent and user code
 * @env: Whose user it is to belong to
 * @ours: 0 or 1: which end is the agent's, and never blocks
 * @ret_fds: Its ends
 *
 * Return: 0 or -errno.
 */
int stream_pipe(const struct guest_env *env, int ours, int ret_fds[2]);

/** stream_prepare() - Make the pipe for the next run, if there is none: ahead, while nobody waits. Return: 0 or
 * -errno. */
int stream_prepare(struct stream *s);

/**
 * stream_open() - Take the pipe of a stream, or make it
 * @s: Stream of a run
 * @limit: Most bytes to send
 * @ret_fd: The program's end, to be passed on and closed
 *
 * Return: 0 or -errno.
 */
int stream_open(struct stream *s, uint64_t limit, int *ret_fd);

/** stream_watch() - Begin to read. Return: 0 or -errno. */
int stream_watch(struct stream *s);

/** stream_resume() - Read again if that was paused and can go on. */
void stream_resume(struct stream *s);

/** stream_tick() - The run's tick: read a stream that is STREAM_QUIET. */
void stream_tick(struct stream *s);

/** stream_settle() - The run has ended: fix how much of the pipe belongs to it, stop watching. */
void stream_settle(struct stream *s);

/**
 * stream_drain() - After stream_settle(): move what belongs to the run
 * @s: Stream
 *
 * Return: true when all of it was moved, false if credit or room is wanting.
 */
bool stream_drain(struct stream *s);

#endif
