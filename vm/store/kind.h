/* SPDX-License-Identifier: Apache-2.0 */
/* What the daemon and xsbxfs-store agree about: kinds of objects, keys, how the program ends. */
#ifndef XSBX_VM_STORE_KIND_H
#define XSBX_VM_STORE_KIND_H

#include <stdbool.h>

#define STORE_KEY_MAX  128 /* characters of a key or a file's name */
#define STORE_PART     ".part-"
#define STORE_SECRET   "XSBXFS_STORE_SECRET"
#define STORE_LINK_DIR "templates" /* of images: links with their names */

enum store_kind {
	STORE_SNAPSHOT,
	STORE_LAYER,
	STORE_IMAGE,
	STORE_NKINDS,
};

/* As the program's exit status. */
enum store_end {
	STORE_DONE,
	STORE_FAILED,  /* here: no space, no rights */
	STORE_USAGE,   /* called in a wrong way */
	STORE_ABSENT,  /* the store does not have it */
	STORE_AWAY,    /* the store does not answer, or refuses */
	STORE_DAMAGED, /* what it has is not what it should be */
	STORE_NENDS,
};

const char *store_kind_str(enum store_kind kind);

/* Return: kind, or STORE_NKINDS. */
enum store_kind store_kind_of(const char *name);

/* The directory of the cache in which objects of a kind lie. */
const char *store_kind_dir(enum store_kind kind);

/* Letters, digits, and . _ - inside: what is safe as a name of a file and in an address. */
bool store_key_valid(const char *key);

#endif
