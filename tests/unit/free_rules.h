/* SPDX-License-Identifier: Apache-2.0 */
/* Rules for spawners of tests: whatever is asked for is done. */
#ifndef XSBX_FREE_RULES_H
#define XSBX_FREE_RULES_H

#include <sys/types.h>

#include "vm/spawner_server.h"

extern const struct spawner_rules free_rules;

/* A job as a request; free_rules.job() makes the same job of it. */
struct free_job {
	const char *const *argv, *const *envp; /* terminated by NULL */
	struct spawn_target target[4];
	size_t ntargets;
	uint32_t flags;
	const struct jail_spec *jail; /* or NULL */
};

/* Return: bytes at @out, or -E2BIG. */
ssize_t free_pack(const struct free_job *job, char *out, size_t size);

#endif
