/* SPDX-License-Identifier: Apache-2.0 */
/* For tests of jails: one with a view of its own, a program that runs in it, and what became of that. */
#ifndef XSBX_JAIL_BED_H
#define XSBX_JAIL_BED_H

#include <stdbool.h>

#include "vm/jail.h"
#include "vm/spawn.h"

struct jail_bed_result {
	struct child child;
	bool over, started;
	int failed, status;
	char step[256], out[8192];
};

/* A view with the host's programs, and memory to write to. */
struct jail_spec jail_bed_usual(void);

/* Asks the spawner of spawner_bed.h for it. */
void jail_bed_ask(struct jail_bed_result *r, const struct spawn_spec *spec);

/* Asks for a program with "-c" and @script, whose words go to @out; without @jail, outside of one. */
void jail_bed_start(struct jail_bed_result *r, const struct jail_spec *jail, const char *program,
		    const char *script, int out);

/* Waits for its end and takes its words from @in, which is closed. */
void jail_bed_finish(struct jail_bed_result *r, int in);

/* Both, with any program or a shell. */
void jail_bed_run_with(struct jail_bed_result *r, const struct jail_spec *jail, const char *program,
		       const char *script);
void jail_bed_run(struct jail_bed_result *r, const struct jail_spec *jail, const char *script);

/* Hosts that allow no namespaces can have no jail. */
bool jail_bed_works(void);

/* The same with a bed of its own, before any test, and says so if it can't be: then they are skipped. */
bool jail_bed_possible(void);

#endif
