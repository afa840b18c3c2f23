/* SPDX-License-Identifier: Apache-2.0 */
/* Private to runs: reads the pipes of a run and sends OUTPUT frames. */
#ifndef XSBX_AGENT_RUN_STREAM_H
#define XSBX_AGENT_RUN_STREAM_H

#include "run.h"

/**
 * stream_pipe() - Make a pipe between the agent and user code
 * @env: Its user will own it
 * @ours: 0 or 1: the agent's end, which never blocks
 * @ret_fds: Its ends
 *
 * Return: 0 or -errno.
 */
int stream_pipe(const struct guest_env *env, int ours, int ret_fds[2]);

/** stream_prepare() - Make the pipe for the next run, in advance, while idle, if there is none. Return: 0 or
 * -errno. */
int stream_prepare(struct stream *s);

/**
 * stream_open() - Use the prepared pipe of a stream, or make one
 * @s: Stream of a run
 * @limit: Most bytes to send
 * @ret_fd: The program's end, to be passed on and closed
 *
 * Return: 0 or -errno.
 */
int stream_open(struct stream *s, uint64_t limit, int *ret_fd);

/** stream_watch() - Start reading. Return: 0 or -errno. */
int stream_watch(struct stream *s);

/** stream_resume() - Resume reading if it was paused and can continue. */
void stream_resume(struct stream *s);

/** stream_tick() - The run's tick: read a stream that is STREAM_QUIET. */
void stream_tick(struct stream *s);

/** stream_settle() - The run has ended: determine how much of the pipe belongs to it, stop watching. */
void stream_settle(struct stream *s);

/**
 * stream_drain() - After stream_settle(): send what belongs to the run
 * @s: Stream
 *
 * Return: true when all of it was sent, false if credit or room is lacking.
 */
bool stream_drain(struct stream *s);

#endif
