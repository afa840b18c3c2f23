/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the commands of xsbxfs-store. */
#ifndef XSBX_VM_STORE_STORE_H
#define XSBX_VM_STORE_STORE_H

#include <stddef.h>
#include <stdint.h>

#include "kind.h"
#include "s3.h"

#define STORE_PARALLEL	    6u /* requests at once */
#define STORE_TRIES	    3u
#define STORE_LOOKUP_MS	    5000u
#define STORE_SHARE_MS	    60000u /* wait for another process that fetches the same */
#define STORE_WHY_MAX	    512

/* Names of objects in the bucket. */
#define STORE_MANIFEST_NAME "v1/%s/%s"	  /* kind, key */
#define STORE_CHUNK_NAME    "v1/chunk/%s" /* checksum */

struct store {
	struct s3_config s3;
	const char *secret; /* authenticates manifests; or NULL */
	const char *shared; /* what root has for all, where an export looks besides; or NULL */
	uint64_t tsc_khz;   /* of this machine, for snapshots that depend on it; or 0 */
	uint64_t limit;	    /* maximum bytes on the disk of a fetched object; 0: none */
	uint32_t chunk_bytes;
	bool anew;		 /* put it even if the store has it: that copy is damaged */
	char why[STORE_WHY_MAX]; /* why it failed */
};

/* One object of an export: KIND:KEY, or for an image NAME=KEY. */
struct store_item {
	enum store_kind kind;
	const char *key;
	const char *name; /* of an image's link, or NULL */
};

/* Records an explanation, unless there is one already. Return: @end. */
enum store_end store_fail(struct store *st, enum store_end end, const char *fmt, ...)
	printf_like(3, 4);

/* Records the error of a request. Return: the program's exit status. */
enum store_end store_refused(struct store *st, const struct s3 *s3, int result);

/* Prints a short line about the progress to standard output. */
void store_say(const char *fmt, ...) printf_like(1, 2);

/* ---- the commands; @dir contains the object, or will contain it, under its key ---- */

enum store_end store_get(struct store *st, enum store_kind kind, const char *key, const char *dir);
enum store_end store_put(struct store *st, enum store_kind kind, const char *key, const char *dir);

/* @cache: directory that has a subdirectory for each kind. */
enum store_end store_export(struct store *st, const char *cache, int fd,
			    const struct store_item *items, size_t n);
enum store_end store_import(struct store *st, const char *cache, int fd);

#endif
