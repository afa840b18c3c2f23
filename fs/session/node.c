/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes: what an inode number stands for. See node.h. */
#include "node.h"

#include <assert.h>
#include <errno.h>

#include "fs.h"
#include "session.h"

#define ROOT_INO 1u /* FUSE_ROOT_ID */

static_assert(NODE_NKINDS <= 64, "six bits");
static_assert(FS_SESSIONS_MAX <= 1u << 13, "thirteen bits");
static_assert(CONF_TEMPLATES_MAX <= 1u << 13, "thirteen bits");

uint64_t node_ino(enum node_kind kind, unsigned slot, unsigned generation, uint32_t sub)
{
	if (kind == NODE_ROOT)
		return ROOT_INO;
	return (uint64_t)kind << 57 | (uint64_t)slot << 44 | (uint64_t)(generation & 0xfff) << 32 |
	       sub;
}

enum node_kind node_kind_of(uint64_t ino)
{
	return ino == ROOT_INO ? NODE_ROOT : (enum node_kind)(ino >> 57);
}

uint64_t node_of_session(const struct session *s, enum node_kind kind, uint32_t sub)
{
	return node_ino(kind, s->slot, s->generation, sub);
}

uint64_t node_sibling(const struct node *n, enum node_kind kind, uint32_t sub)
{
	return n->s ? node_of_session(n->s, kind, sub) : node_ino(kind, n->template_index, 0, sub);
}

bool node_in_run(enum node_kind kind)
{
	return kind >= NODE_RUN && kind <= NODE_RUN_WAIT;
}

int node_resolve(struct fs *fs, uint64_t ino, struct node *ret_node)
{
	struct node n = {.fs = fs, .kind = node_kind_of(ino), .ino = ino, .sub = (uint32_t)ino};
	unsigned slot = (unsigned)(ino >> 44) & 0x1fff, generation = (unsigned)(ino >> 32) & 0xfff;

	if (n.kind <= NODE_NONE || n.kind >= NODE_NKINDS)
		return -ESTALE;
	if (n.kind >= NODE_TEMPLATE && n.kind <= NODE_TEMPLATE_README) {
		if (slot >= fs->conf->ntemplates)
			return -ESTALE;
		n.template_index = slot;
		n.t = &fs->conf->template[slot];
	} else if (n.kind >= NODE_SESSION) {
		n.s = session_by_slot(fs, slot, generation);
		if (!n.s)
			return -ESTALE;
		n.t = n.s->t;
		n.template_index = n.s->template_index;
	}
	if (node_in_run(n.kind)) {
		n.r = session_run(n.s, n.sub);
		if (!n.r)
			return -ESTALE;
	}
	*ret_node = n;
	return 0;
}

enum run_output node_output(enum node_kind kind)
{
	if (kind == NODE_STDOUT || kind == NODE_RUN_STDOUT)
		return RUN_STDOUT;
	if (kind == NODE_STDERR || kind == NODE_RUN_STDERR)
		return RUN_STDERR;
	return RUN_BOTH;
}
