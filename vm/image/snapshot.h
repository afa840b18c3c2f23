/* SPDX-License-Identifier: Apache-2.0 */
/* Snapshots of templates: in memory for clones, and on disk for the next start. */
#ifndef XSBX_VM_IMAGE_SNAPSHOT_H
#define XSBX_VM_IMAGE_SNAPSHOT_H

#include <stdbool.h>
#include <stdint.h>

#include "vm/base/digest.h"

/* A stopped machine. Both descriptors are sealed memory files, or -1. */
struct snapshot {
	int ram;	      /* as large as the guest's memory, sparse */
	int state;	      /* of devices */
	uint64_t tsc_khz;     /* the frequency of the time stamp counter that the guest assumes */
	uint64_t bytes;	      /* of memory that is in use */
	char sum[DIGEST_HEX]; /* of `ram`, see sparse_sum(), if it was read from a disk; else "" */
};

/* None of these needs a loop; those with a @dir may take seconds: call them in worker threads. */

void snapshot_init(struct snapshot *s);

/* Makes the memory of a machine that will be saved. Return: 0 or -errno. */
int snapshot_new(struct snapshot *ret_s, unsigned memory_mb);

/* Makes it immutable; the machine that wrote it must have exited. Return: 0 or -errno. */
int snapshot_seal(struct snapshot *s);

void snapshot_close(struct snapshot *s);

/**
 * snapshot_load() - Load a snapshot from the disk, and verify it
 * @dir: Directory of snapshots
 * @key: Key, DIGEST_HEX - 1 characters
 * @ret_s: Result, sealed
 *
 * Return: 0, -ENOENT if there is none, -EBADMSG if it is damaged or not ours, or -errno.
 */
int snapshot_load(const char *dir, const char *key, struct snapshot *ret_s);

/**
 * snapshot_load_shared() - Likewise, from a directory that root has filled for all
 * @ret_why: If it is not trusted, which part of it is not: TRUSTED_WHY bytes
 *
 * Return: as snapshot_load(); -EPERM if it is not trusted, see trusted_open().
 */
int snapshot_load_shared(const char *dir, const char *key, struct snapshot *ret_s, char *ret_why);

/**
 * snapshot_store() - Write a sealed snapshot to the disk
 * @dir: Directory of snapshots; made if necessary
 * @key: Key
 * @s: Snapshot
 * @limit: Maximum bytes of the directory, 0 for none; least recently used ones are removed
 * @publish: For all to read
 *
 * It has a hidden name until it is complete. Return: 0, -EFBIG if it alone is larger than the
 * limit, or -errno.
 */
int snapshot_store(const char *dir, const char *key, const struct snapshot *s, uint64_t limit,
		   bool publish);

/* Removes an unusable one. Return: 0 if its name no longer exists, or -errno. */
int snapshot_remove(const char *dir, const char *key);

/* Removes least recently used snapshots until the rest has no more than @limit bytes; 0: no limit. */
void snapshot_trim(const char *dir, uint64_t limit);

/* Removes unfinished snapshots that nobody is writing any more. */
void snapshot_clean(const char *dir);

#endif
