/* SPDX-License-Identifier: Apache-2.0 */
/* Private to outputs: which of the two outputs was written when, as the kernel tells it. */
#ifndef XSBX_AGENT_OUTPUT_JOURNAL_H
#define XSBX_AGENT_OUTPUT_JOURNAL_H

#include "output.h"

/** journal_init() - Begin to listen, where the order of writes does not follow from how we are woken. */
void journal_init(struct journal *j, struct output *output);

/** journal_watch() - A run begins: forget what was heard of the last one, start to read. */
void journal_watch(struct journal *j);

/** journal_tick() - The run's tick: read if it is STREAM_QUIET. */
void journal_tick(struct journal *j);

/** journal_resume() - Go on if it was paused. */
void journal_resume(struct journal *j);

/** journal_settle() - The run has ended: stop watching. */
void journal_settle(struct journal *j);

/**
 * journal_drain() - After stream_settle(): send what is known of the order of the rest
 * @j: Journal
 *
 * Return: true when all that is known was sent, false if credit or room is lacking.
 */
bool journal_drain(struct journal *j);

/** journal_fini() - Close it. */
void journal_fini(struct journal *j);

#endif
