/* SPDX-License-Identifier: Apache-2.0 */
/* Leases: the host is told that nothing in the sandbox can change files, and may keep what it knows of them. */
#ifndef XSBX_AGENT_LEASE_H
#define XSBX_AGENT_LEASE_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Theory of operation
 * -------------------
 * The host would like to keep names, attributes and contents of files, which is safe for as long as only it
 * changes them. It asks (LEASE), and is answered when everything has settled: no run, no interpreter that
 * starts, tidies up or ends, nothing owed. Then user code is looked at:
 *
 * - There is no process of user code but interpreters that wait for a run. A background process that a run
 *   left, a server behind a port among them, could write at any moment.
 * - Each of those that have executed a user's code, or packages', or may have at their start (LD_PRELOAD), waits where
 *   it should (rest.h), and has one thread. Threads, and the timers of an event loop, go on between runs; so there is no
 *   lease where JavaScript was run.
 * - None of those catches a signal. There is nobody who would send one, but the kernel does, for what was set up
 *   before: timers, descriptors with a signal (F_SETSIG, F_NOTIFY, F_SETLEASE: of any number), queues, a parent's end.
 *   The drivers of Python and bash catch none while they wait; a handler of the user's costs the lease.
 * - Each is nudged then (DRIVER_NUDGE), and looked at again where it waits anew, at the socket that the agent has
 *   given it, without a limit of time. The first look can't tell that: what ended before it may have
 *   changed descriptors and limits since the wait began, and may have woken one. Since the first look there was nobody
 *   else; that no process or thread came and went, their numbers tell.
 *
 * What is left is asleep until it is sent a run, and that the host does itself: it knows that the lease is over
 * when it sends the frame (proto_keeps_lease()). If an interpreter dies without being asked, or is started, the
 * agent says so (UNLEASED).
 *
 * Not where the working directory is one of the host's, or lies over one: the host's programs may change it. And not
 * where user code may write elsewhere on the host: at a socket there it may hand its open files to another session.
 *
 * LEASED and UNLEASED are sent in the order of the answers to file requests. So of each answer the host knows
 * whether it was given during the lease.
 */

struct agent;

/** lease_is_settled() - Is nothing under way, be it asked for by the host or our own? */
bool lease_is_settled(const struct agent *a);

/** lease_ask() - LEASE was received: LEASED will be the answer. */
void lease_ask(struct agent *a, uint32_t id);

/** lease_drop() - A frame was received that ends the lease, as the host knows. */
void lease_drop(struct agent *a);

/** lease_advance() - Answer what was asked, if everything has settled; end a lease that does not hold any more. */
void lease_advance(struct agent *a);

#endif
