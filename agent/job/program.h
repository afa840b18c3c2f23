/* SPDX-License-Identifier: Apache-2.0 */
/* Private to jobs: from what the host asks for to what is executed. */
#ifndef XSBX_AGENT_JOB_PROGRAM_H
#define XSBX_AGENT_JOB_PROGRAM_H

#include "agent/interp/interp.h"
#include "agent/protocol.h"

struct program {
	const char **argv;
	char **envp;
	char *cwd; /* or NULL */
	int code;  /* a sealed file, or -1 */
};

/**
 * program_make() - Make the arguments, environment and code of a job
 * @env: Where
 * @config: What SETUP has set
 * @req: The job; what is made points into it
 * @ret_p: Result, for program_fini(), also on failure
 *
 * Return: 0, -EINVAL if the language is not known, or another -errno.
 */
int program_make(const struct guest_env *env, const struct interp_config *config,
		 const struct proto_job *req, struct program *ret_p);

/** program_fini() - Free it. */
void program_fini(struct program *p);

#endif
