/* SPDX-License-Identifier: Apache-2.0 */
/* One run, of a session's interpreter or of a job: its code, its state, its output. */
#ifndef XSBX_FS_SESSION_RUN_H
#define XSBX_FS_SESSION_RUN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <time.h>

#include "vm/base/buf.h"
#include "vm/vm.h"
#include "feed.h"
#include "rerun.h"
#include "fs/request/touched.h"
#include "spool.h"

struct session;

/* As text in the `state` node: run_state_str(). */
enum run_state {
	RUN_QUEUED,
	RUN_RUNNING,
	RUN_DONE,
	RUN_TIMEOUT,
	RUN_KILLED,
	RUN_OOM,
	RUN_LOST,
	RUN_REFUSED,
	RUN_NSTATES,
};

/* What struct vm_result says of it, without the problem. */
struct run_result {
	unsigned status; /* 0..255 */
	bool fresh;	 /* the interpreter's state is lost */
	uint64_t wall_us, user_us, system_us, maxrss_kib;
	uint64_t dropped[VM_NSTREAMS];	    /* bytes past the limit */
	uint64_t read_bytes, written_bytes; /* of a job; or PROTO_UNKNOWN */
	unsigned reached;		    /* VM_REACHED_* */
};

enum run_output { RUN_STDOUT, RUN_STDERR, RUN_BOTH, RUN_NOUTPUTS };

/*
 * - QUEUED -> RUNNING -> one of the others, or QUEUED -> REFUSED; these are final.
 * - `spool[RUN_BOTH]` is only used once both streams have data: until
 *   then the one with data is also the merged output, see run_spool().
 * - `status` is only valid if run_has_status().
 * - Freed with its last reference.
 */
struct run {
	TAILQ_ENTRY(run) link;	/* the session's history, oldest first */
	TAILQ_ENTRY(run) queue; /* the session's queue while QUEUED */
	LIST_ENTRY(run) kept;	/* all runs of the session that have a reference */
	struct session *s;	/* that it is kept by; or NULL, of one that never was */
	struct touch touch;
	uint64_t mark; /* its id in records, see fs/request/touched.h */
	bool is_asked; /* what was asked of it is in a record; that does not change */
	unsigned refs;
	uint32_t number; /* of a session's; 0 for a job's */
	uint32_t id;	 /* in its sandbox */
	char job[65];	 /* name of the job, or "" */
	enum run_state state;
	unsigned timeout_s; /* as it was started with */
	bool named; /* by runs/NAME: has a time limit and an input of its own, not its session's */
	struct buf code; /* does not change */
	/* Of fs/keep/: bytes of code that were in a file which can't be read; `code` has none then. */
	uint64_t code_lost;
	bool code_kept;		/* it has such a file */
	char *cwd;		/* of its own, or NULL; of a named run */
	struct buf env;		/* likewise: NAME=VALUE, a NUL behind each */
	struct feed feed;	/* its standard input */
	struct buf input;	/* what was sent of that, for a replay */
	bool input_lost;	/* more than is kept */
	struct rerun_base base; /* what it began with */
	uint32_t runs_before;	/* its session's, then */
	struct rerun_result rerun;
	struct depot *depot; /* for the spools */
	struct spool spool[RUN_NOUTPUTS];
	struct run_result result;
	struct problem_kept problem; /* that explains its end */
	struct timespec submitted, started, ended, last_output;
	uint64_t began; /* log_now() when it was submitted */
	char *woke;	/* what it waited for first: "asleep 3 h, awake in 240 ms"; or NULL */
};

const char *run_state_str(enum run_state state);

/**
 * run_new() - Create a run in state QUEUED
 * @depot: For its output; outlives it
 * @number: From 1, within its session
 * @code: Moved from
 *
 * Return: the run, with one reference, or NULL if out of memory (nothing is moved then).
 */
struct run *run_new(struct depot *depot, uint32_t number, struct buf *code);
/* @s keeps it, as long as somebody has a reference. */
void run_keep(struct session *s, struct run *r);
struct run *run_ref(struct run *r);
void run_unref(struct run *r);

bool run_ended(const struct run *r);
/* Has it ended with a known exit status? */
bool run_has_status(const struct run *r);

/* What it is called in messages: "run 3", "job build". */
struct run_words {
	char text[80];
};

struct run_words run_words(const struct run *r);

/* It was sent, with a time limit of @timeout_s; 0: none. */
void run_started(struct run *r, unsigned timeout_s);
/* Its session began from something saved, for it: @words, for its summary. */
void run_woke(struct run *r, const char *words);
/* Appends output. */
void run_output(struct run *r, enum vm_stream stream, const void *data, size_t len);
/* Would this much more output need additional space on the disk? */
bool run_wants_disk(const struct run *r, enum vm_stream stream, size_t len);
/* Any further bytes of this output are lost, because of @err. */
void run_stop_keeping(struct run *r, enum vm_stream stream, int err);
/* Is output missing because it could not be kept? */
bool run_lost(const struct run *r);
/* The reason, as text. */
void run_lost_problem(const struct run *r, struct problem *ret_p);
/* Should its output be held until the disk has caught up? */
bool run_is_behind(const struct run *r);
void run_ended_with(struct run *r, const struct vm_result *result);
/* Ends a run that was never started. */
void run_refuse(struct run *r, const struct problem *why);

/* The spool of one of the three outputs. */
const struct spool *run_spool(const struct run *r, enum run_output which);
/* Bytes of output kept, for the history's limit. */
uint64_t run_bytes(const struct run *r);
/* Was output cut off at the limit, or could it not be kept? */
bool run_truncated(const struct run *r, enum vm_stream stream);

/* The line of the `summary` node. */
int run_summary(const struct run *r, struct buf *out);

#endif
