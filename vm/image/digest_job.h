/* SPDX-License-Identifier: Apache-2.0 */
/* Computes digests of the files that machines are made of, in a worker thread. */
#ifndef XSBX_VM_IMAGE_DIGEST_JOB_H
#define XSBX_VM_IMAGE_DIGEST_JOB_H

#include "digest_cache.h"
#include "vm/base/context.h"

struct digest_job;

/* One job at a time, so that reading takes no more than one thread and does not compete for the disk. */
struct digest_jobs {
	struct context *ctx;
	struct digest_cache cache, shared;  /* shared: what root has saved for all */
	struct fileio_identity shared_file; /* from which it was read */
	struct digest_job *current;	    /* or NULL */
	uint64_t retry_at;		    /* ms of the loop's clock */
	void (*changed)(void *data);	    /* a digest was computed, or could not be */
	void *data;
};

/* Loads what earlier processes have saved. @changed: called from the loop. */
void digest_jobs_init(struct digest_jobs *j, struct context *ctx, void (*changed)(void *data),
		      void *data);

/**
 * digest_jobs_ask() - Get the digest of a file of a machine
 * @j: Jobs
 * @fd: The file; the caller may close it afterwards
 * @ret_hex: SHA-256 of its bytes
 *
 * Return: 0, -EAGAIN if it is being computed (`changed` will be called), or -errno.
 */
int digest_jobs_ask(struct digest_jobs *j, int fd, char ret_hex[DIGEST_HEX]);

/* struct vm is about to end: cancels the current job. */
void digest_jobs_stop(struct digest_jobs *j);

#endif
