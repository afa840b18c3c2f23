/* SPDX-License-Identifier: Apache-2.0 */
/* Kinds of objects, and their keys. */
#include "kind.h"

#include <assert.h>
#include <string.h>

#include "vm/base/arch.h"
#include "vm/base/util.h"

static const struct {
	const char *name, *dir;
} kinds[] = {
	[STORE_SNAPSHOT] = {"snapshot", "snapshots"},
	[STORE_LAYER] = {"layer", "layers"},
	[STORE_IMAGE] = {"image", ARCH_IMAGES},
};
static_assert(ARRAY_SIZE(kinds) == STORE_NKINDS, "names for each kind");

const char *store_kind_str(enum store_kind kind)
{
	return kinds[kind].name;
}

const char *store_kind_dir(enum store_kind kind)
{
	return kinds[kind].dir;
}

enum store_kind store_kind_of(const char *name)
{
	unsigned i = 0;

	while (i < STORE_NKINDS && strcmp(kinds[i].name, name) != 0)
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
