/* SPDX-License-Identifier: Apache-2.0 */
/* Packs. See pack.h. */
#include "pack.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

struct pack {
	unsigned refs;
};

struct pack *pack_ref(struct pack *p)
{
	p->refs++;
	return p;
}

struct pack *pack_unref(struct pack *p)
{
	if (!p)
		return NULL;
	assert(p->refs > 0);
	if (--p->refs == 0)
		free(p);
	return NULL;
}

uint32_t pack_entries(const struct pack *p)
{
	(void)p;
	return 1;
}

uint64_t pack_bytes(const struct pack *p)
{
	(void)p;
	return 0;
}

int pack_lookup(const struct pack *p, uint32_t dir, const char *name, uint32_t *ret_entry)
{
	(void)p;
	(void)dir;
	(void)name;
	(void)ret_entry;
	return -ENOENT;
}

uint32_t pack_parent(const struct pack *p, uint32_t entry)
{
	(void)p;
	(void)entry;
	return PACK_ROOT;
}

void pack_attr(const struct pack *p, uint32_t entry, struct pack_attr *ret_attr)
{
	(void)p;
	(void)entry;
	*ret_attr = (struct pack_attr){.mode = S_IFDIR | 0755, .nlink = 2};
}

void pack_list(const struct pack *p, uint32_t dir, uint64_t offset,
	       bool (*put)(void *data, const char *name, uint32_t entry, uint64_t offset),
	       void *data)
{
	(void)p;
	(void)dir;
	(void)offset;
	(void)put;
	(void)data;
}

const char *pack_target(const struct pack *p, uint32_t entry)
{
	(void)p;
	(void)entry;
	return NULL;
}

ssize_t pack_pread(const struct pack *p, uint32_t entry, void *buf, size_t len, uint64_t offset)
{
	(void)p;
	(void)entry;
	(void)buf;
	(void)len;
	(void)offset;
	return -EINVAL;
}
