/* SPDX-License-Identifier: Apache-2.0 */
/* Private to outputs: what a driver writes for its interpreter's own streams, see agent/interp/driver.h. */
#ifndef XSBX_AGENT_OUTPUT_RECORDS_H
#define XSBX_AGENT_OUTPUT_RECORDS_H

#include "output.h"

/**
 * records_init() - Initialize, without a pipe
 * @r: Records
 * @run: Run that they belong to
 * @put: Sends bytes of a stream
 * @catch_up: Sends what is older than records
 */
void records_init(struct records *r, struct output *output, records_put *put,
		  records_catch_up *catch_up);

/** records_prepare() - Make the pipe for the next run, in advance, if there is none. Return: 0 or -errno. */
int records_prepare(struct records *r);

/**
 * records_open() - Use the prepared pipe, or make one
 * @r: Records without a pipe
 *
 * Return: the driver's end, to be passed on and closed, or -errno: then the driver does without.
 */
int records_open(struct records *r);

/** records_watch() - Start reading. */
void records_watch(struct records *r);

/**
 * records_take() - Move all that there is
 * @r: Records, also without a pipe
 *
 * Return: 1, 0 if there is nothing, or -EAGAIN if it has to wait for credit or room. Until then nothing may be
 * taken from the other pipes, for that is newer.
 */
int records_take(struct records *r);

/** records_tick() - The run's tick: read them if they are STREAM_QUIET. */
void records_tick(struct records *r);

/** records_resume() - Resume reading if it was paused and can continue. Return: false if not. */
bool records_resume(struct records *r);

/** records_settle() - The run has ended: as stream_settle(). */
void records_settle(struct records *r);

/** records_drain() - After records_settle(): as stream_drain(). */
bool records_drain(struct records *r);

/** records_fini() - Close the pipes. */
void records_fini(struct records *r);

#endif
