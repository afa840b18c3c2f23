/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of output: kept in memory until they are on disk, in one unnamed file for the whole mount. */
#ifndef XSBX_FS_SESSION_DEPOT_H
#define XSBX_FS_SESSION_DEPOT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>
#include <uv.h>

#include "fs/request/touched.h"
#include "fs/request/trail.h"
#include "vm/base/turn.h"
#include "vm/base/veil.h"

/*
 * Theory of operation
 * -------------------
 * However many runs are kept, there is one file, and so one descriptor. It has no name: its space is
 * freed as soon as the daemon has ended, for whatever reason. It is divided into slots of one
 * block each; the slots of removed runs are punched out of the file, and reused.
 *
 * A block grows in memory. When it is full or complete, depot_put() queues it, and it stays in memory
 * until a thread of libuv's pool has written it: the loop never waits for the disk. Only one such
 * job is under way at a time, so a disk that hangs blocks one thread; the bytes queued for it are counted
 * in `waiting`. If a write fails, nothing is lost: its blocks stay in memory, and are retried every
 * second; `err` has the error meanwhile. Producers have to stop when too much is waiting.
 *
 * A daemon that dies may leave a thread behind that still writes to a slot, and records that name slots which were free at the last.
 * So an heir uses no slot that was free when it came, and space is given back, and used again, only behind the commit of the turn
 * in which it became free (vm/base/turn.h).
 *
 * What is in the file, a disk may show when the mount is long gone. So it is veiled (vm/base/veil.h), each block with a nonce of
 * its own each time that it is written; the key is in memory, and in the records for an heir.
 *
 * The directory may vanish, or the file system become read-only, before the file is needed, so it is created at
 * the start; if that fails, each job tries again.
 */

#define DEPOT_BLOCK (64u << 10)
#define DEPOT_BATCH 16u /* blocks written by one job */

enum block_state {
	BLOCK_OPEN,    /* growing, in memory */
	BLOCK_WAITING, /* in the queue, in memory; does not change any more */
	BLOCK_WRITING, /* being written by a job */
	BLOCK_STORED,  /* on disk, and no longer in memory */
};

/*
 * - `data` is set unless STORED; `slot` is valid in WRITING and STORED only.
 * - Several spools may have a reference; nothing is appended to it then.
 */
struct block {
	TAILQ_ENTRY(block) link; /* of the queue, while WAITING */
	unsigned refs;
	enum block_state state;
	uint32_t len, cap, slot;
	bool veiled; /* by `nonce`; STORED ones of a daemon that did not do that are not */
	unsigned char nonce[VEIL_NONCE];
	char *data;
	/* In records: where it belongs, and what is written of it. See fs/handover/outputs.c. */
	uint64_t spool;
	uint32_t index;
	struct trail trail;
	struct touch touch;
};

struct depot {
	uv_loop_t *loop;
	int dir; /* directory of the file; owned by the caller */
	int fd;	 /* the file, or -1 if there is none yet */
	unsigned char key[VEIL_KEY];
	bool keyed;	/* there is a key */
	int err;	/* -errno of the last write, until one succeeds */
	int64_t room;	/* free bytes on the disk as of the last job, or -errno */
	size_t waiting; /* bytes of blocks in WAITING and WRITING */
	TAILQ_HEAD(block_queue, block) queue;
	uint32_t nslots, nused; /* slots in the file; slots with a block */
	uint32_t *vacant;	/* slots to reuse */
	uint32_t nvacant;
	uint32_t *left;	     /* slots whose space is still to be freed */
	uint32_t nleft, cap; /* cap: of these three lists each */
	uint32_t *freed;     /* slots that records name still, until the turn is written */
	uint32_t nfreed;
	uint32_t first; /* slots below are not used again */
	struct turn_speaker release;
	struct touched *touched; /* or NULL */
	uint8_t *taken;		 /* between depot_resume() and depot_resumed(): by slot */
	uv_timer_t retry;
	/* Less is waiting, or `err` has changed. May be NULL. */
	void (*relieved)(void *data);
	void *data;

	bool busy; /* a job is under way and owned by the other thread */
	bool closing;
	uv_work_t work;
	struct depot_job {
		int dir, fd, err;
		int64_t room;
		struct block *block[DEPOT_BATCH];
		unsigned nblocks, nwritten;
		uint32_t slot[DEPOT_BATCH], left[DEPOT_BATCH];
		unsigned nleft;
		bool empty; /* truncate the file to 0 */
	} job;
};

/* @dir: descriptor of a directory, owned by the caller; may be unusable, see above. */
void depot_init(struct depot *d, uv_loop_t *loop, int dir);
/* In another thread, which has a reference: reads from a block that is STORED. @fd and @key: of the depot. Return: 0 or -errno. */
int depot_fetch(int fd, const unsigned char key[VEIL_KEY], const struct block *b, uint32_t offset,
		void *to, size_t len);
/* No more jobs. The one that is under way goes on. */
void depot_close(struct depot *d);
/* Return: false if a job is still under way, so that @d must not be freed. */
bool depot_fini(struct depot *d);

/*
 * Of the daemon before this one: its file @fd, which is the depot's from now on, with @nslots slots. Before anything is put into
 * it. Blocks are named by depot_stored(); behind depot_resumed() all other slots are free.
 *
 * Return: 0 or -ENOMEM.
 */
int depot_resume(struct depot *d, int fd, uint32_t nslots);
/* @nonce: or NULL, of one that is not veiled. Return: 0; -EBADMSG if there can be no such block; -ENOMEM. */
int depot_stored(struct depot *d, uint32_t slot, uint32_t len, const unsigned char *nonce,
		 struct block **ret_b);
void depot_resumed(struct depot *d);

/* Return: an empty block with one reference, or NULL. */
struct block *block_new(void);
struct block *block_ref(struct block *b);
void block_unref(struct depot *d, struct block *b);

/* Appends to an OPEN block what fits. Return: how many bytes, or -ENOMEM. */
ssize_t block_append(struct block *b, const void *data, size_t len);

/* Queues a complete OPEN block for writing. */
void depot_put(struct depot *d, struct block *b);

/**
 * depot_read() - Read a piece of a block without waiting
 * @d: Depot
 * @b: Block
 * @offset: Within the block
 * @out: Buffer
 * @len: How many bytes; the block has at least as many
 *
 * Return: 0, -EAGAIN if it would block on the disk, or -errno.
 */
int depot_read(const struct depot *d, const struct block *b, uint32_t offset, void *out,
	       size_t len);

#endif
