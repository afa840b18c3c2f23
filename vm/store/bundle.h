/* SPDX-License-Identifier: Apache-2.0 */
/* Bundles: objects in one file, for hosts without a network. */
#ifndef XSBX_VM_STORE_BUNDLE_H
#define XSBX_VM_STORE_BUNDLE_H

#include <stddef.h>
#include <stdint.h>

#include "kind.h"
#include "manifest.h"

/*
 * A bundle is BUNDLE_MAGIC followed by records. Each record has a header of eight bytes, type and length,
 * both little-endian.
 */
#define BUNDLE_MAGIC	  "xsbxfs-bundle 1\n"
#define BUNDLE_MAGIC_LEN  16u
#define BUNDLE_HEAD	  8u
#define BUNDLE_LINK_MAX	  (2u * STORE_KEY_MAX + 2u)
#define BUNDLE_RECORD_MAX (CHUNK_MAX + CHUNK_MAX / 128u) /* at least the largest chunk */

enum bundle_type {
	BUNDLE_MANIFEST = 1, /* of an object; followed by its chunks, in order */
	BUNDLE_CHUNK,
	BUNDLE_LINK, /* "NAME KEY\n": the image NAME is the object with that key, which came before */
	BUNDLE_END, /* empty; if it is missing, the file is truncated */
};

struct bundle_record {
	enum bundle_type type;
	uint32_t len;
};

/* Parses a header. Return: 0, or -EBADMSG if the type is unknown or the length is too large. */
int bundle_head(const uint8_t head[BUNDLE_HEAD], struct bundle_record *ret_record);

void bundle_put_head(const struct bundle_record *record, uint8_t ret_head[BUNDLE_HEAD]);

/* Parses a link. Return: 0 or -EBADMSG. */
int bundle_link(const char *text, size_t len, char ret_name[STORE_KEY_MAX + 1],
		char ret_key[STORE_KEY_MAX + 1]);

#endif
