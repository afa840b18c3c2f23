/* SPDX-License-Identifier: Apache-2.0 */
/* Definitions shared by the daemon and xsbxfs-store: kinds of objects, keys, exit statuses. */
#ifndef XSBX_VM_STORE_KIND_H
#define XSBX_VM_STORE_KIND_H

#include <stdbool.h>

#define STORE_KEY_MAX  128 /* characters of a key or a file's name */
#define STORE_PART     ".part-"
#define STORE_SECRET   "XSBXFS_STORE_SECRET"
#define STORE_TREE     "tree"	   /* beside an image or a layer: its files */
#define STORE_LINK_DIR "templates" /* of images: links with their names */

enum store_kind {
	STORE_SNAPSHOT,
	STORE_LAYER,
	STORE_IMAGE,
	STORE_NKINDS,
};

/* The program's exit status. */
enum store_end {
	STORE_DONE,
	STORE_FAILED,  /* a local error: no space, no permission */
	STORE_USAGE,   /* invalid arguments */
	STORE_ABSENT,  /* not in the store */
	STORE_AWAY,    /* the store does not answer, or denies access */
	STORE_DAMAGED, /* the store's copy is invalid */
	STORE_NENDS,
};

const char *store_kind_str(enum store_kind kind);

/* Return: kind, or STORE_NKINDS. */
enum store_kind store_kind_of(const char *name);

/* The directory of the cache that contains objects of a kind. */
const char *store_kind_dir(enum store_kind kind);

/* Letters, digits, and . _ - inside: safe as a file name and in a URL. */
bool store_key_valid(const char *key);

#endif
