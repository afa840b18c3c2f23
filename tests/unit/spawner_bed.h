/* SPDX-License-Identifier: Apache-2.0 */
/* For tests of what starts processes: a spawner, and a loop that it is attached to. */
#ifndef XSBX_SPAWNER_BED_H
#define XSBX_SPAWNER_BED_H

#include <uv.h>

#include "vm/spawn.h"
#include "vm/spawner.h"

extern uv_loop_t loop;
extern struct spawner *sp;

/* For each test. */
int spawner_bed_setup(void **state);
int spawner_bed_teardown(void **state);

#endif
