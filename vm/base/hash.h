/* SPDX-License-Identifier: Apache-2.0 */
/* FNV-1a (draft-eastlake-fnv): which place of a table to look at first. Whoever chooses the bytes can choose the place. */
#ifndef XSBX_VM_BASE_HASH_H
#define XSBX_VM_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define HASH_BEGIN 2166136261u

/* Goes on from @h, which is HASH_BEGIN at first. */
static inline uint32_t hash_more(uint32_t h, const char *s, size_t len)
{
	for (size_t i = 0; i < len; i++)
		h = (h ^ (uint8_t)s[i]) * 16777619u;
	return h;
}

static inline uint32_t hash_str(const char *s)
{
	return hash_more(HASH_BEGIN, s, strlen(s));
}

#endif
