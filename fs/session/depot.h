/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of output: in memory until they are on disk, in one unnamed file for the whole mount. */
#ifndef XSBX_FS_SESSION_DEPOT_H
#define XSBX_FS_SESSION_DEPOT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>
#include <uv.h>

/*
 * Theory of operation
 * -------------------
 * However many runs are kept, there is one file, and so one descriptor. It has no name: its room is the
 * file system's again as soon as the daemon is gone, whatever ended it. It is divided into slots of one
 * block each; the slots of runs that are forgotten are punched out of it, and used again.
 *
 * A block grows in memory. Once it is full, or nothing more will come, depot_put() queues it, and it
 * stays in memory until a thread of libuv's pool has written it: the loop never waits for a disk. One such
 * job is under way at a time, so a disk that hangs holds up one thread, and what waits for it is counted
 * in `waiting`. A write that fails takes nothing away: its blocks stay in memory and are tried again every
 * second, while `err` says what is wrong. It is for those who fill blocks to stop when too much waits.
 *
 * The directory may vanish and the file system may be read-only when the file is needed first, so it is made at
 * the start; if that fails, it is tried again with each job.
 */

#define DEPOT_BLOCK (64u << 10)
#define DEPOT_BATCH 16u /* blocks written by one job */

enum block_state {
	BLOCK_OPEN,    /* grows, in memory */
	BLOCK_WAITING, /* in the queue, in memory, as from now on it does not change */
	BLOCK_WRITING, /* a job reads it */
	BLOCK_STORED,  /* on disk, and no longer in memory */
};

/*
 * - `data` is there unless STORED; `slot` means something in WRITING and STORED only.
 * - Several spools may have a reference, but then nobody appends to it.
 */
struct block {
	TAILQ_ENTRY(block) link; /* of the queue, while WAITING */
	unsigned refs;
	enum block_state state;
	uint32_t len, cap, slot;
	char *data;
};

struct depot {
	uv_loop_t *loop;
	int dir;	/* where the file is made; the caller's */
	int fd;		/* the file, or -1: there is none yet */
	int err;	/* -errno of the last write, until one succeeds */
	int64_t room;	/* bytes free on the disk as of the last job, or -errno */
	size_t waiting; /* bytes of blocks in WAITING and WRITING */
	TAILQ_HEAD(block_queue, block) queue;
	uint32_t nslots, nused; /* slots in the file; those of them that hold a block */
	uint32_t *vacant;	/* slots to use again */
	uint32_t nvacant;
	uint32_t *left;	     /* slots whose room is still to be given back */
	uint32_t nleft, cap; /* cap: of `vacant` and of `left` each */
	uv_timer_t retry;
	/* Less waits, or `err` has changed. May be NULL. */
	void (*relieved)(void *data);
	void *data;

	bool busy; /* a job is under way; then its parts are the other thread's */
	bool closing;
	uv_work_t work;
	struct depot_job {
		int dir, fd, err;
		int64_t room;
		struct block *block[DEPOT_BATCH];
		unsigned nblocks, nwritten;
		uint32_t slot[DEPOT_BATCH], left[DEPOT_BATCH];
		unsigned nleft;
		bool empty; /* cut the file to nothing */
	} job;
};

/* @dir: descriptor of a directory, which stays the caller's; may be of no use, see above. */
void depot_init(struct depot *d, uv_loop_t *loop, int dir);
/* Where a slot begins in the file. */
off_t depot_place(uint32_t slot);
/* No more jobs. The one that is under way goes on. */
void depot_close(struct depot *d);
/* Return: false if a job is still under way, so that @d has to stay where it is. */
bool depot_fini(struct depot *d);

/* Return: an empty block with one reference, or NULL. */
struct block *block_new(void);
struct block *block_ref(struct block *b);
void block_unref(struct depot *d, struct block *b);

/* Adds to an OPEN block what it has room for. Return: how many bytes, or -ENOMEM. */
ssize_t block_append(struct block *b, const void *data, size_t len);

/* Has an OPEN block written that nobody appends to any more. */
void depot_put(struct depot *d, struct block *b);

/**
 * depot_read() - Read a piece of a block without waiting
 * @d: Depot
 * @b: Block
 * @offset: Within the block
 * @out: Room
 * @len: How many bytes; they are there
 *
 * Return: 0, -EAGAIN if the disk would have to be waited for, or -errno.
 */
int depot_read(const struct depot *d, const struct block *b, uint32_t offset, void *out,
	       size_t len);

#endif
