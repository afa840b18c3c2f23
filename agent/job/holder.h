/* SPDX-License-Identifier: Apache-2.0 */
/* Private to jobs: the process that a job's program is a child of, and that outlives what the
 * program leaves behind. */
#ifndef XSBX_AGENT_JOB_HOLDER_H
#define XSBX_AGENT_JOB_HOLDER_H

#include <stdint.h>
#include <sys/types.h>

#include "agent/core/spawn.h"

enum holder_news {
	HOLDER_FAILED,	/* the program could not be started */
	HOLDER_STARTED, /* it was executed */
	HOLDER_ENDED,	/* it has ended; what it has started may go on */
};

/* What a holder says, once or twice. */
struct holder_report {
	uint32_t news;				 /* enum holder_news */
	pid_t pid;				 /* of the program */
	int status;				 /* FAILED: errno; ENDED: as wait(2) tells it */
	uint64_t user_us, system_us, maxrss_kib; /* ENDED: of it, and of what it has waited for */
	uint64_t read_bytes, written_bytes;	 /* likewise, or PROTO_UNKNOWN */
	char step[48];				 /* FAILED: what */
};

/**
 * holder_pipe() - Make the way of its reports, so that it can be watched before there is a holder
 * @ret_ours: Where they come from, non-blocking; at its end the holder is ending
 * @ret_its: For holder_start(), and to be closed then
 *
 * Return: 0 or -errno.
 */
int holder_pipe(int *ret_ours, int *ret_its);

/**
 * holder_start() - Start a holder, which starts the program
 * @s: The program; may be given up when this returns
 * @fd: Where it reports to
 * @ret_pid: The holder, a child of ours; it ends when nothing is left below it
 *
 * Return: 0 or -errno.
 */
int holder_start(const struct spawn *s, int fd, pid_t *ret_pid);

#endif
