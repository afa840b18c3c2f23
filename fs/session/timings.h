/* SPDX-License-Identifier: Apache-2.0 */
/* How long things took since the mount, for `metrics`. */
#ifndef XSBX_FS_SESSION_TIMINGS_H
#define XSBX_FS_SESSION_TIMINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "run.h"
#include "vm/base/histogram.h"
#include "vm/vm.h"

/*
 * Each family is a metric; its labels have a fixed set of values, so that their number has a limit: names of sessions are
 * not among them. What has not happened yet is not shown.
 */

enum timing_family {
	TIMING_START, /* sandboxes, from being asked for to being ready, by how and in what */
	TIMING_PLACE, /* ... of that, the wait for a place */
	TIMING_WAIT,  /* runs and jobs, from being written to being sent */
	TIMING_RUN, /* ... from there to their end, by language and state; seen by the daemon's clock */
	TIMING_JOB,  /* ... by state */
	TIMING_FILE, /* requests below files/, by what and by whom they were answered */
	TIMING_NFAMILIES,
};

/* Who has answered a request below files/. */
enum timing_by {
	TIMING_DAEMON, /* alone: it knew the answer */
	TIMING_AGENT,
	TIMING_SAVED, /* what was saved of the sandbox */
	TIMING_NBYS,
};

#define TIMING_STARTS	 4u		     /* as sandbox_info() calls them */
#define TIMING_BACKENDS	 (VM_NBACKENDS + 1u) /* and others: that of tests */
#define TIMING_LANGUAGES 4u		     /* python, javascript, raw; others */
#define TIMING_STATES	 (RUN_NSTATES - RUN_DONE)

/* All zeroes at first. */
struct timings {
	struct histogram start[TIMING_STARTS][TIMING_BACKENDS];
	struct histogram place;
	struct histogram wait[2]; /* runs, jobs */
	struct histogram run[TIMING_LANGUAGES][TIMING_STATES];
	struct histogram job[TIMING_STATES];
	struct histogram file[VM_NFILEOPS][TIMING_NBYS];
};

/* A sandbox is ready. @start, @backend: as in struct sandbox_info; the first has to be known */
void timings_start(struct timings *t, const char *start, const char *backend, uint64_t us,
		   uint64_t waited_us);
/* A run or job was sent. */
void timings_sent(struct timings *t, const struct run *r);
/* ... and has ended, unless it was refused. */
void timings_ended(struct timings *t, const struct run *r, const char *language);
void timings_file(struct timings *t, enum vm_file_op op, enum timing_by by, uint64_t us);

/* One histogram, by its family and its number in that. */
struct timing {
	enum timing_family family;
	unsigned n;
	const struct histogram *h;
	const struct histogram_scale *scale;
	char labels[96]; /* as histogram_text() wants them */
};

/* Calls @fn for each that has something in it, families together and in their order. Return: 0, or what @fn has returned first that
 * was not 0. */
int timings_each(const struct timings *t, int (*fn)(void *data, const struct timing *of),
		 void *data);

/* For the next daemon: it is known there by its words. Return there: 0 or -EBADMSG; what is not known is passed over. */
void timings_put(const struct timing *of, struct buf *out);
int timings_get(struct timings *t, struct record_reader fields);

/* Of its metric: the name behind "xsbxfs_", and what it is. */
const char *timings_name(enum timing_family family);
const char *timings_help(enum timing_family family);

#endif
