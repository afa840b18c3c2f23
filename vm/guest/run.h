/* SPDX-License-Identifier: Apache-2.0 */
/* Runs: the request and the result. Part of vm.h. */
#ifndef XSBX_VM_GUEST_RUN_H
#define XSBX_VM_GUEST_RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/protocol.h"
#include "vm/base/problem.h"

enum vm_stream { VM_STDOUT, VM_STDERR, VM_NSTREAMS };

struct sandbox_run {
	uint32_t id;	    /* number of the run, from 1 */
	uint64_t began;	    /* log_now() when it was received, for the log; or 0 */
	const char *author; /* what it is called where somebody asks who wrote a file; or NULL */
	const void *code;
	size_t code_len;      /* copied during the call */
	const char *cwd;      /* for it alone: absolute or below the working directory; or NULL */
	struct proto_str env; /* likewise: NAME=VALUE, a NUL behind each */
	bool input;	      /* there will be some: sandbox_write() */
	unsigned timeout_ms;  /* 0: none */
	unsigned grace_ms;    /* between SIGTERM at the timeout and SIGKILL */
	uint64_t limit[VM_NSTREAMS]; /* of bytes of output; the rest is dropped and counted */
};

#define SANDBOX_JOB_ID PROTO_JOB_ID /* where ids of jobs begin */

static inline bool sandbox_is_job(uint32_t id)
{
	return id >= SANDBOX_JOB_ID;
}

/* A program beside the interpreter. Lists of words have a NUL behind each. All is copied during the call. */
struct sandbox_job {
	uint32_t id;	       /* from SANDBOX_JOB_ID; not used before in this sandbox */
	uint64_t began;	       /* as above */
	const char *author;    /* as above */
	struct proto_str argv; /* words, or empty: `code` is executed */
	struct proto_str code; /* of `language`; without one a shell's, or as its first line says */
	const char *language;  /* or "" */
	const char *cwd;       /* absolute or below the working directory, or "" */
	struct proto_str env;  /* NAME=VALUE */
	bool input;	       /* there will be some: sandbox_write() */
	bool root;	       /* as root, in a sandbox whose spec has `root` */
	bool tty;	       /* on a terminal of this size: what it shows is stdout */
	unsigned rows, cols;
	unsigned nice;	     /* it gives way to others: 0 to PROTO_NICE_MAX */
	unsigned timeout_ms; /* as above */
	unsigned grace_ms;
	uint64_t limit[VM_NSTREAMS];
};

/* Of a job, SANDBOX_SIGNAL + N is signal N for the program alone. */
enum sandbox_signal { SANDBOX_INTERRUPT, SANDBOX_KILL, SANDBOX_SIGNAL = 256 };

/* How a run has ended. Names as in the `state` node: see vm_outcome_str(). */
enum vm_outcome {
	VM_DONE,
	VM_TIMEOUT,
	VM_KILLED,
	VM_OOM,
	VM_LOST,    /* the sandbox died after the code was sent: it may have run */
	VM_REFUSED, /* it never ran */
	VM_NOUTCOMES,
};

const char *vm_outcome_str(enum vm_outcome outcome);

/* Limits that were reached, without ending the run. */
#define VM_REACHED_FILES     PROTO_FULL_FILES
#define VM_REACHED_INODES    PROTO_FULL_INODES
#define VM_REACHED_PROCESSES 0x04u

struct vm_result {
	enum vm_outcome outcome;
	unsigned status; /* 0..255; meaningless for LOST and REFUSED */
	bool fresh;	 /* the interpreter's state is lost */
	uint64_t wall_us, user_us, system_us, maxrss_kib;
	uint64_t dropped[VM_NSTREAMS];	    /* bytes past the limit */
	uint64_t read_bytes, written_bytes; /* of a job; or PROTO_UNKNOWN */
	unsigned reached;	/* VM_REACHED_*: at its end, or at a query during the run */
	struct problem problem; /* for LOST and REFUSED, and others with an explanation */
};

struct sandbox_usage {
	uint64_t mem_total_kib, mem_available_kib, cpu_us, files_used, files_total;
	uint64_t inodes_used, inodes_total;
	unsigned processes;
	unsigned reached; /* VM_REACHED_*; those of files also at the end of the last run */
};

#endif
