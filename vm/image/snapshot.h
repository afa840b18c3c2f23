/* SPDX-License-Identifier: Apache-2.0 */
/* Snapshots of templates: in memory as clones need them, and on disk for the next start. */
#ifndef XSBX_VM_IMAGE_SNAPSHOT_H
#define XSBX_VM_IMAGE_SNAPSHOT_H

#include <stdbool.h>
#include <stdint.h>

#include "vm/base/digest.h"

/* A machine at rest. Both are sealed memory; -1 if there is none. */
struct snapshot {
	int ram;	  /* as large as the guest's memory, with holes */
	int state;	  /* of the devices */
	uint64_t tsc_khz; /* what the guest takes for the frequency of its time stamp counter */
	uint64_t bytes;	  /* of memory that is really used */
};

/* None of these needs a loop; those with a @dir may take seconds, and are for worker threads. */

void snapshot_init(struct snapshot *s);

/* Memory for a machine to be recorded. Return: 0 or -errno. */
int snapshot_new(struct snapshot *ret_s, unsigned memory_mb);

/* Nothing can change it from here on; the machine that wrote it must be gone. Return: 0 or -errno. */
int snapshot_seal(struct snapshot *s);

void snapshot_close(struct snapshot *s);

/**
 * snapshot_load() - Take a snapshot from the disk, if it is what was stored there
 * @dir: Directory of snapshots
 * @key: Name, DIGEST_HEX - 1 characters
 * @ret_s: Result, sealed
 *
 * Return: 0, -ENOENT if there is none, -EBADMSG if it is damaged or not ours, or -errno.
 */
int snapshot_load(const char *dir, const char *key, struct snapshot *ret_s);

/**
 * snapshot_store() - Put a sealed snapshot on the disk
 * @dir: Directory of snapshots; made if need be
 * @key: Name
 * @s: Snapshot
 * @limit: Most bytes of the directory, 0 for none: what was not used for longest has to go
 *
 * Until the last step it has a hidden name. Return: 0, -EFBIG if it alone is larger than the
 * limit, or -errno.
 */
int snapshot_store(const char *dir, const char *key, const struct snapshot *s, uint64_t limit);

/* Removes an unusable one. Return: 0 if its name no longer exists, or -errno. */
int snapshot_remove(const char *dir, const char *key);

/* Removes what was not used for longest until the rest has no more than @limit bytes; 0: no limit. */
void snapshot_trim(const char *dir, uint64_t limit);

/* Removes what was begun and never finished, unless somebody is at it now. */
void snapshot_clean(const char *dir);

#endif
