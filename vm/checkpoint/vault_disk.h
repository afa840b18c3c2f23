/* SPDX-License-Identifier: Apache-2.0 */
/* The vault's directory: what is written there, and how. */
#ifndef XSBX_VM_CHECKPOINT_VAULT_DISK_H
#define XSBX_VM_CHECKPOINT_VAULT_DISK_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "point_disk.h"
#include "saved.h"
#include "seal.h"

/* What is known of one without loading it: a small file beside the large ones. */
struct vault_head {
	uint64_t files_bytes, memory_bytes; /* when it is loaded */
	uint64_t disk_bytes;		    /* of its files, but for its base */
	uint64_t base_bytes;		    /* of that, which others may have as well */
	uint64_t records;		    /* bytes of the pack's */
	uint32_t entries;		    /* of the pack */
	struct timespec mtime;		    /* of the working directory */
	struct pack_flaws flaws;
	bool memory;
	struct point_facts facts; /* with `memory` */
};

/* Used by worker threads: constant after vault_disk_open(). */
struct vault_disk {
	int dir, bases;
	const struct seal_key *key;
};

/**
 * vault_disk_open() - Open the directory, or make it
 * @state_dir: `saved` in this directory
 * @key: Kept
 * @ret_disk: Result, even on failure; vault_disk_close() is due
 *
 * Return: 0; -EKEYREJECTED if what is there was sealed with another key; or -errno.
 */
int vault_disk_open(int state_dir, const struct seal_key *key, struct vault_disk *ret_disk);
void vault_disk_close(struct vault_disk *d);

/* Is there anything that was sealed? Then a new key would be of no use. */
bool vault_disk_is_used(int state_dir);

/* Is it a name that the vault gives? */
bool vault_disk_id_ok(const char *id);

#define VAULT_NAME_MAX (SAVED_ID_MAX + 8) /* of what lies in the directory, with the terminator */

/* Is it the name of something that was begun, or is going, and never finished? Return: its id; or NULL. */
const char *vault_disk_unfinished(const char *name);

/*
 * These block. All return 0; -ENOENT; -EBADMSG if it is damaged; -EKEYREJECTED; -EPROTONOSUPPORT if it is of
 * another version, which is no damage; or another -errno.
 */

/* @id: a new one, of which all is on the disk then, or nothing. @point: or NULL, see point_store(). */
int vault_disk_store(const struct vault_disk *d, const char *id, const struct pack *pack,
		     const struct point *point, const char *base_sum, struct vault_head *ret_head);

/* The head's texts lie in @text. */
int vault_disk_head(const struct vault_disk *d, const char *id, struct buf *text,
		    struct vault_head *ret_head);
int vault_disk_pack(const struct vault_disk *d, const char *id, const struct vault_head *h,
		    struct pack **ret_pack);
/* @base: see point_load(). */
int vault_disk_point(const struct vault_disk *d, const char *id, const struct vault_head *h,
		     int base, struct point **ret_point);

/* Head as the fuzzer knows it: what is in the seal. Return: 0, -EBADMSG, -EPROTONOSUPPORT. */
int vault_head_parse(const void *data, size_t len, struct vault_head *ret_head);

/* @name: an id, or of something unfinished. */
void vault_disk_remove(const struct vault_disk *d, const char *name);
/* Bases that nothing needs any more. */
void vault_disk_sweep(const struct vault_disk *d);

#endif
