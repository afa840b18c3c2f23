/* SPDX-License-Identifier: Apache-2.0 */
/* Private to outputs: reads the pipes of a run and sends OUTPUT frames. */
#ifndef XSBX_AGENT_OUTPUT_STREAM_H
#define XSBX_AGENT_OUTPUT_STREAM_H

#include <sys/types.h>

#include "output.h"

#define STREAM_TICK_US 1000u /* for how long what was just read is left alone */

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

/**
 * stream_put() - Send bytes of a stream that were read already
 * @s: Stream
 * @data: The bytes
 * @len: At most the run's credit; what is beyond the limit is dropped
 *
 * Return: 0 or -ENOMEM.
 */
int stream_put(struct stream *s, const void *data, size_t len);

/**
 * stream_fill() - Have bytes in the stream's piece
 * @s: Stream whose writes are kept apart
 * @avail: What stream_avail() said, less what was moved since
 *
 * Return: how many are there and wait, 0 or -errno.
 */
ssize_t stream_fill(struct stream *s, size_t avail);

/** stream_avail() - Return: how many bytes are in the pipe, or were read and have to wait. */
size_t stream_avail(const struct stream *s);

/**
 * stream_catch_up() - Send what was read of both streams and had to wait
 * @r: Run
 *
 * To be called before anything else of the run is looked for.
 *
 * Return: 0, -EAGAIN if it still has to wait, or another -errno.
 */
int stream_catch_up(struct output *o);

/**
 * stream_move() - Send what is in the pipe
 * @s: Stream
 * @avail: At most so many bytes: what stream_avail() said, less what was moved since, or a part of what is in the
 *	   piece. Of a stream whose writes are kept apart, those of one piece are moved
 *
 * Return: how many, 0 if there are none, -EAGAIN if that has to wait for credit or room, or another -errno.
 */
ssize_t stream_move(struct stream *s, size_t avail);

/**
 * stream_sweep() - Send what is in the pipe, wherever a write ends
 * @s: Stream
 * @avail: As stream_fill()
 * @lines: Adds of how many lines, or NULL
 *
 * Return: as stream_move().
 */
ssize_t stream_sweep(struct stream *s, size_t avail, unsigned *lines);

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

/** stream_leave() - All of the run was sent. The pipe stays open. */
void stream_leave(struct stream *s);

#endif
