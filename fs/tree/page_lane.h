/* SPDX-License-Identifier: Apache-2.0 */
/* A time line: one lane for each session or job, with a bar for each run. */
#ifndef XSBX_FS_TREE_PAGE_LANE_H
#define XSBX_FS_TREE_PAGE_LANE_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "fs/session/run.h"

struct page;

#define LANES_STARTS \
	256u /* so many of what is shown decide how long it is ago that the line begins */

struct lanes {
	struct page *p;
	uint64_t span_s;	  /* from its beginning to now */
	int64_t at[LANES_STARTS]; /* seconds since 1970 */
	unsigned n;
	/* Of the lane that is being written: */
	unsigned tally[RUN_NSTATES + 1]; /* the last: exit status 0 */
	unsigned bars;
};

/* First, what will be shown: that there is something at @t. Then lanes_begin(), which decides where the line begins: not too long
 * ago for most of it to be seen. */
void lanes_will_show(struct lanes *l, const struct timespec *t);
void lanes_begin(struct lanes *l);
void lanes_end(struct lanes *l);

/* A lane: what it is called, which the caller writes; its bars; and in words, what they are. */
void lane_begin(struct lanes *l);
void lane_bars(struct lanes *l);
/* @all: its reader may read all of it; else what `events` tell */
void lane_run(struct lanes *l, const struct run *r, bool all);
/* A mark for something that was saved. */
void lane_mark(struct lanes *l, const struct timespec *t, const char *what, const char *name);
void lane_end(struct lanes *l);

#endif
