/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs that were given up a moment ago, because what they show of the host did not answer. */
#ifndef XSBX_VM_SPAWN_HUNG_H
#define XSBX_VM_SPAWN_HUNG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server.h"

#define HUNG_MAX 8u

struct hung {
	struct {
		uint64_t what; /* hung_paths() */
		int64_t until; /* of the caller's clock: it is not asked again before */
		struct spawn_error error;
	} last[HUNG_MAX];
	size_t n; /* ever */
};

/* Return: a number for the paths of the host that a job's child opens. */
uint64_t hung_paths(const struct spawn_job *job);

/* Notes that a job with these paths failed with @e, if that was because it took too long. */
void hung_note(struct hung *h, uint64_t what, int64_t until, const struct spawn_error *e);

/* Return: true with what was said the last time, if one with these paths was given up and it is not
 * @until yet. */
bool hung_lately(const struct hung *h, uint64_t what, int64_t now, struct spawn_error *e);

#endif
