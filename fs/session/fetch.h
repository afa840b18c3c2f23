/* SPDX-License-Identifier: Apache-2.0 */
/* Reads of output, from memory or from the disk. */
#ifndef XSBX_FS_SESSION_FETCH_H
#define XSBX_FS_SESSION_FETCH_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "depot.h"
#include "fs/request/waitlist.h"
#include "run.h"

#define FETCH_MAX   (1u << 20) /* bytes of one read */
#define FETCH_PARTS (FETCH_MAX / DEPOT_BLOCK + 1)

/*
 * Theory of operation
 * -------------------
 * Data in the kernel's page cache is read on the loop, see depot_read(). A read that would block on the
 * disk is parked here like any other waiting read: it can be interrupted, and blocks nothing else. A thread
 * of libuv's pool carries them out one after the other, so that a disk that hangs blocks one thread,
 * and one buffer is enough.
 *
 * - `serial` identifies the waiter that the job is for, which may be gone when the job is done.
 */
struct fetch {
	struct depot *depot;
	struct waitlist wait;
	bool busy;
	uv_work_t work;
	uint64_t serial;
	struct fetch_job {
		int fd, err;
		const unsigned char *key;
		struct fetch_part {
			struct block *block; /* reference */
			char *to;
			uint32_t offset, len;
		} part[FETCH_PARTS];
		unsigned nparts;
		size_t len; /* bytes in all */
	} job;
	char bytes[FETCH_MAX];
};

void fetch_init(struct fetch *f, struct depot *depot);
/* Return: false if a job is still under way, so that @f must not be freed. */
bool fetch_fini(struct fetch *f);

/* Answers @req with output at @offset, now, or when the disk has been read. Return: false if there is none yet and no
 * error; the caller then still owns the request. */
bool fetch_output(struct handle *h, struct req *req, size_t size, uint64_t offset);

/* The output that was to be brought back is there, or could not be: -errno. */
void fetch_brought(struct fetch *f, int err);

/* The output that a handle reads, or NULL if it has no run. */
const struct spool *fetch_spool(const struct handle *h);

#endif
