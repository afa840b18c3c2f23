/* SPDX-License-Identifier: Apache-2.0 */
/* What is in the files that machines are made of, worked out by a worker thread. */
#ifndef XSBX_VM_IMAGE_DIGEST_JOB_H
#define XSBX_VM_IMAGE_DIGEST_JOB_H

#include "digest_cache.h"
#include "vm/base/context.h"

struct digest_job;

/* One job at a time, so that reading never takes more than one thread and one disk's worth of time. */
struct digest_jobs {
	struct context *ctx;
	struct digest_cache cache;
	struct digest_job *current; /* or NULL */
	uint64_t retry_at;	    /* ms of the loop's clock */
	void (*changed)(
		void *data); /* more is known than before, or it is known that it won't be */
	void *data;
};

/* Takes what earlier processes have found out. @changed: set once, called from the loop. */
void digest_jobs_init(struct digest_jobs *j, struct context *ctx, void (*changed)(void *data),
		      void *data);

/**
 * digest_jobs_ask() - What is in a file of a machine
 * @j: Jobs
 * @fd: The file; not needed any longer afterwards
 * @ret_hex: SHA-256 of its bytes
 *
 * Return: 0, -EAGAIN if it will be known later (`changed` is called then), or -errno.
 */
int digest_jobs_ask(struct digest_jobs *j, int fd, char ret_hex[DIGEST_HEX]);

/* The machinery is about to end: nobody wants to know any more. */
void digest_jobs_stop(struct digest_jobs *j);

#endif
