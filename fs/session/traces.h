/* SPDX-License-Identifier: Apache-2.0 */
/* Traces: spans of runs, jobs, starts of sandboxes and saves, for a collector of OpenTelemetry. */
#ifndef XSBX_FS_SESSION_TRACES_H
#define XSBX_FS_SESSION_TRACES_H

#include <stdint.h>

#include "vm/base/problem.h"

struct run;
struct session;

/*
 * A run is a trace of its own, unless it has a variable TRACEPARENT (its own, its job's, its session's) as W3C Trace Context has it:
 * then its span is below that one. Its children are `queue` and `execute`; the start of the sandbox that it has waited for is below
 * `queue`, and has what it consisted of below it.
 *
 * Spans are sent when they have ended. Their numbers follow from what they are of, and so a daemon that goes on for one that was
 * killed gives them the same: what both have sent is one span.
 *
 * All do nothing where no collector is set.
 */

/* What all spans of a mount are of: attributes, a JSON array, to be freed; or NULL. @mountpoint: or NULL */
char *traces_resource(const char *mountpoint);

/* A run or job has ended. */
void traces_run(const struct session *s, const struct run *r);

/* A sandbox is ready, for which @r waits, or nobody; asked for so long ago. @awaited: what it waited for at first, as its
 * user was told; PROBLEM_NONE: he was told nothing */
void traces_start(const struct session *s, const struct run *r, uint64_t us,
		  enum problem_code awaited);

/* It was saved, or not; begun so long ago. @why: or NULL */
void traces_saved(const struct session *s, uint64_t us, const struct problem *why);

#endif
