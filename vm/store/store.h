/* SPDX-License-Identifier: Apache-2.0 */
/* xsbxfs-store: what its verbs share. */
#ifndef XSBX_VM_STORE_STORE_H
#define XSBX_VM_STORE_STORE_H

#include <stddef.h>
#include <stdint.h>

#include "kind.h"
#include "s3.h"

#define STORE_PARALLEL	    6u /* requests at once */
#define STORE_TRIES	    3u
#define STORE_LOOKUP_MS	    5000u
#define STORE_SHARE_MS	    60000u /* for another process that fetches the same */
#define STORE_WHY_MAX	    512

/* Where objects have their names in the bucket. */
#define STORE_MANIFEST_NAME "v1/%s/%s"	  /* kind, key */
#define STORE_CHUNK_NAME    "v1/chunk/%s" /* checksum */

struct store {
	struct s3_config s3;
	const char *secret; /* authenticates manifests; or NULL */
	uint64_t tsc_khz;   /* of this machine, for what only fits machines like that; or 0 */
	uint64_t limit;	    /* most bytes on the disk that are fetched; 0: any */
	uint32_t chunk_bytes;
	bool anew; /* put it even if the store seems to have it: what it has is damaged */
	char why[STORE_WHY_MAX]; /* of a failure */
};

/* One object of an export: KIND:KEY, or for an image NAME=KEY. */
struct store_item {
	enum store_kind kind;
	const char *key;
	const char *name; /* of an image's link, or NULL */
};

/* Keeps the first explanation. Return: @end. */
enum store_end store_fail(struct store *st, enum store_end end, const char *fmt, ...)
	printf_like(3, 4);

/* Takes what a request says about the store. Return: how the program ends. */
enum store_end store_refused(struct store *st, const struct s3 *s3, int result);

/* Says on standard output how far it is; a line, kept short. */
void store_say(const char *fmt, ...) printf_like(1, 2);

/* ---- the verbs; @dir is where the object is, or is to be, under its key ---- */

enum store_end store_get(struct store *st, enum store_kind kind, const char *key, const char *dir);
enum store_end store_put(struct store *st, enum store_kind kind, const char *key, const char *dir);

/* @cache has a directory for each kind. */
enum store_end store_export(struct store *st, const char *cache, int fd,
			    const struct store_item *items, size_t n);
enum store_end store_import(struct store *st, const char *cache, int fd);

#endif
