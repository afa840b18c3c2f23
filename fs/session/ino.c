/* SPDX-License-Identifier: Apache-2.0 */
/* Inode numbers: which node each stands for. See ino.h. */
#include "ino.h"

#include <assert.h>

#include "fs.h"
#include "session.h"

#define ROOT_INO 1u /* FUSE_ROOT_ID */

static_assert(NODE_NKINDS <= 128, "seven bits");
static_assert(ROSTER_MAX <= UINT16_MAX + 1u, "sixteen bits");
static_assert(CONF_TEMPLATES_MAX <= 1u << 16, "sixteen bits");

uint64_t ino_make(enum node_kind kind, unsigned slot, unsigned generation, uint32_t sub)
{
	if (kind == NODE_ROOT)
		return ROOT_INO;
	return (uint64_t)kind << 56 | (uint64_t)slot << 40 |
	       (uint64_t)(generation & INO_GENERATIONS) << 32 | sub;
}

enum node_kind ino_kind(uint64_t ino)
{
	return ino == ROOT_INO ? NODE_ROOT : (enum node_kind)(ino >> 56);
}

uint64_t ino_of_session(const struct session *s, enum node_kind kind, uint32_t sub)
{
	return ino_make(kind, s->slot, s->generation, sub);
}

unsigned ino_slot(uint64_t ino)
{
	return (unsigned)(ino >> 40) & 0xffff;
}

unsigned ino_generation(uint64_t ino)
{
	return (unsigned)(ino >> 32) & INO_GENERATIONS;
}
