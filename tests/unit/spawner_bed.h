/* SPDX-License-Identifier: Apache-2.0 */
/* For tests of what starts processes: a spawner, and a loop that it is attached to. */
#ifndef XSBX_SPAWNER_BED_H
#define XSBX_SPAWNER_BED_H

#include <stdbool.h>
#include <uv.h>

#include "free_rules.h"
#include "vm/capture.h"
#include "vm/spawn.h"
#include "vm/spawner.h"
#include "vm/tool.h"

extern uv_loop_t loop;
extern struct spawner *sp;

/* For each test. */
int spawner_bed_setup(void **state);
int spawner_bed_teardown(void **state);

/* Instead of the first, with other rules. */
void spawner_bed_start(const struct spawner_rules *rules);

/* Runs the loop until @what is true, or fails. */
void spawner_bed_await(const bool *what);

/* Has the spawner any child? Waits until it has none, or fails. */
bool spawner_bed_has_children(void);
void spawner_bed_await_childless(void);

/* capture_start() and tool_start() of any program, by its absolute path. */
int spawner_bed_capture(struct capture *c, const char *const argv[], uint32_t flags, unsigned ms,
			void (*done)(struct capture *c));
int spawner_bed_tool(struct tool *t, const char *const argv[], const char *const envp[]);

#endif
