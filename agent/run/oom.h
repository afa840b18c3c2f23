/* SPDX-License-Identifier: Apache-2.0 */
/* Was it for lack of memory that the kernel has killed a program? */
#ifndef XSBX_AGENT_RUN_OOM_H
#define XSBX_AGENT_RUN_OOM_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/protocol.h"

struct guest_env;

/* Outside a guest the kernel counts for everybody, and the host finds out by itself: there it is always 0. */
struct oom {
	const struct guest_env *env; /* set once */
	uint64_t kills;		     /* how many processes its OOM killer had killed ... */
	uint64_t at;		     /* ... then, as now_us() */
};

/** oom_note() - Note how many there are. */
void oom_note(struct oom *o);

/** oom_renew() - The same, unless it was done a moment ago. */
void oom_renew(struct oom *o);

/** oom_rose() - The same. Return: there are more than @before. */
bool oom_rose(struct oom *o, uint64_t before);

/**
 * oom_how() - A program has ended, and we have not ended it
 * @o: Noted again if it matters
 * @before: `kills` of when it began, or later
 * @status: How; a shell says the same of the last program that it ran
 *
 * Return: PROTO_HOW_OOM or PROTO_HOW_DONE.
 */
enum proto_how oom_how(struct oom *o, uint64_t before, uint32_t status);

#endif
