/* SPDX-License-Identifier: Apache-2.0 */
/* Standing still: the host is told when nothing in the machine would miss the time for which it is
 * stopped. */
#ifndef XSBX_AGENT_STILL_H
#define XSBX_AGENT_STILL_H

#include <stdint.h>

/*
 * Theory of operation
 * -------------------
 * The host stops a machine that has nothing to do, and lets it go on before it sends it the next
 * frame. It asks (REST), and is answered when everything has settled, what is only the agent's own
 * included: no run, no timer, no interpreter that starts or tidies up. Then user code is looked at.
 * These keep the machine going:
 *
 * - A process that is no interpreter: a program in the background.
 * - A TCP or UDP socket: somebody outside may talk to it, or wait for its answer.
 * - Of an interpreter that has run a user's code: a thread that computes, or waits for a limited
 *   time; a timerfd that is set; a caught signal that timers send. Where an event loop waits with
 *   limits of its own, as Bun's does for collecting garbage, its driver says whether user code has
 *   set timers (DRIVER_TIMERS), and such limits tell nothing; its workers, which have event loops
 *   of their own, do.
 *
 * Unlike a lease (lease.h) this need not hold against code that hides something: what it hides is
 * late, which harms nobody else. So interpreters that never ran a user's code are not looked at,
 * and what can't be seen does not keep the machine going: POSIX timers of which a thread is told,
 * AbortSignal.timeout.
 *
 * User code that is frozen (FREEZE) does nothing.
 */

struct agent;

/** still_ask() - REST was received: RESTING will be the answer. */
void still_ask(struct agent *a, uint32_t id);

/** still_drop() - Another frame was received: whoever has sent it expects no answer any more. */
void still_drop(struct agent *a);

/** still_advance() - Answer what was asked, if everything has settled. */
void still_advance(struct agent *a);

#endif
