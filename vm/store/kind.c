/* SPDX-License-Identifier: Apache-2.0 */
/* Kinds of objects, and their keys. */
#include "kind.h"

#include <assert.h>
#include <string.h>

#include "vm/base/util.h"

static const char *const kind_str[] = {
	[STORE_SNAPSHOT] = "snapshot",
	[STORE_LAYER] = "layer",
	[STORE_IMAGE] = "image",
};
static_assert(ARRAY_SIZE(kind_str) == STORE_NKINDS, "a name for each kind");

static const char *const kind_dir[] = {
	[STORE_SNAPSHOT] = "snapshots",
	[STORE_LAYER] = "layers",
	[STORE_IMAGE] = "images",
};
static_assert(ARRAY_SIZE(kind_dir) == STORE_NKINDS, "a directory for each kind");

const char *store_kind_str(enum store_kind kind)
{
	return kind_str[kind];
}

const char *store_kind_dir(enum store_kind kind)
{
	return kind_dir[kind];
}

enum store_kind store_kind_of(const char *name)
{
	unsigned i = 0;

	while (i < STORE_NKINDS && strcmp(kind_str[i], name) != 0)
		i++;
	return i;
}

bool store_key_valid(const char *key)
{
	const size_t len = strlen(key);

	return len > 0 && len <= STORE_KEY_MAX && key[0] != '.' && key[0] != '-' &&
	       strspn(key, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") ==
		       len;
}
