/* SPDX-License-Identifier: Apache-2.0 */
/* Private to the interpreter: command lines of the languages. */
#ifndef XSBX_AGENT_INTERP_CONFIG_H
#define XSBX_AGENT_INTERP_CONFIG_H

#include "interp.h"

#define INTERP_ARGV_MAX 8
#define INTERP_OPTIONS	3 /* most options of an interpreter */

/* The argument vector of an interpreter; may point into itself. */
struct interp_argv {
	const char *v[INTERP_ARGV_MAX];
	char driver[4096], program[4096];
	bool has_bell; /* its runtime cannot poll for datagrams */
};

/** interp_argv() - Make the command line of the configured language. */
void interp_argv(const struct interp *i, struct interp_argv *ret_argv);

#endif
