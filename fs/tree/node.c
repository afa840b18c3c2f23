/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes: what an inode number stands for. See node.h. */
#include "node.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "settings_node.h"
#include "changes.h"
#include "fs/mount.h"
#include "input.h"
#include "root_ctl.h"
#include "scratch.h"
#include "fs/session/session.h"
#include "stream.h"
#include "text.h"

#define DIR_  S_IFDIR
#define FILE_ S_IFREG

const struct node_def node_defs[NODE_NKINDS] = {
	[NODE_ROOT] = {NULL, NODE_NONE, DIR_ | 01777,
		       NULL}, /* so that we say what is wrong, not the kernel */
	[NODE_ROOT_README] = {"README.md", NODE_ROOT, FILE_ | 0444, &text_ops},
	[NODE_ROOT_STATUS] = {"status.json", NODE_ROOT, FILE_ | 0444, &text_ops},
	[NODE_ISOLATION] = {"isolation", NODE_ROOT, FILE_ | 0444, &text_ops},
	[NODE_DOCTOR] = {"doctor", NODE_ROOT, FILE_ | 0444, &text_ops},
	[NODE_METRICS] = {"metrics", NODE_ROOT, FILE_ | 0444, &text_ops},
	[NODE_EVENTS] = {"events", NODE_ROOT, FILE_ | 0400, &events_ops},
	[NODE_ROOT_ERROR] = {"error", NODE_ROOT, FILE_ | 0400, &text_ops},
	[NODE_ROOT_CTL] = {"ctl", NODE_ROOT, FILE_ | 0200, &root_ctl_ops},
	[NODE_TEMPLATE] = {NULL, NODE_ROOT, DIR_ | 01777, NULL},
	[NODE_TEMPLATE_JSON] = {"template.json", NODE_TEMPLATE, FILE_ | 0444, &text_ops},
	[NODE_TEMPLATE_README] = {"README.md", NODE_TEMPLATE, FILE_ | 0444, &text_ops},
	[NODE_SESSION] = {NULL, NODE_TEMPLATE, DIR_ | 0700, NULL},
	[NODE_IN] = {"in", NODE_SESSION, FILE_ | 0600, &input_ops},
	[NODE_STDIN] = {"stdin", NODE_SESSION, FILE_ | 0200, &stdin_ops},
	[NODE_STDOUT] = {"stdout", NODE_SESSION, FILE_ | 0400, &stream_ops},
	[NODE_STDERR] = {"stderr", NODE_SESSION, FILE_ | 0400, &stream_ops},
	[NODE_OUTPUT] = {"output", NODE_SESSION, FILE_ | 0400, &stream_ops},
	[NODE_EXIT_CODE] = {"exit_code", NODE_SESSION, FILE_ | 0400, &status_wait_ops},
	[NODE_SUMMARY] = {"summary", NODE_SESSION, FILE_ | 0400, &text_ops},
	[NODE_STATE] = {"state", NODE_SESSION, FILE_ | 0400, &text_ops},
	[NODE_STATUS] = {"status.json", NODE_SESSION, FILE_ | 0400, &text_ops},
	[NODE_ERROR] = {"error", NODE_SESSION, FILE_ | 0400, &text_ops},
	[NODE_CONFIG] = {"config", NODE_SESSION, FILE_ | 0600, &config_ops},
	[NODE_CTL] = {"ctl", NODE_SESSION, FILE_ | 0200, &ctl_ops},
	[NODE_CHANGES] = {"files.changes", NODE_SESSION, FILE_ | 0400, &changes_ops},
	[NODE_CONSOLE] = {"console", NODE_SESSION, FILE_ | 0400, &text_ops},
	[NODE_FILES] = {"files", NODE_SESSION, DIR_ | 0700, NULL},
	[NODE_RUNS] = {"runs", NODE_SESSION, DIR_ | 0700, NULL},
	[NODE_README] = {"README.md", NODE_SESSION, FILE_ | 0400, &text_ops},
	[NODE_NET] = {"net", NODE_SESSION, DIR_ | 0700, NULL},
	[NODE_NET_ALLOW] = {"allow", NODE_NET, FILE_ | 0600, &config_ops},
	[NODE_NET_DENIED] = {"denied", NODE_NET, FILE_ | 0400, &text_ops},
	[NODE_PORTS] = {"ports", NODE_SESSION, FILE_ | 0400, &text_ops},
	[NODE_SCRATCH] = {NULL, NODE_SESSION, FILE_ | 0600, &scratch_ops},
	[NODE_LATEST] = {"latest", NODE_RUNS, S_IFLNK | 0777, NULL},
	[NODE_RUN] = {NULL, NODE_RUNS, DIR_ | 0700, NULL},
	[NODE_RUN_IN] = {"in", NODE_RUN, FILE_ | 0400, &text_ops},
	[NODE_RUN_STDOUT] = {"stdout", NODE_RUN, FILE_ | 0400, &run_stream_ops},
	[NODE_RUN_STDERR] = {"stderr", NODE_RUN, FILE_ | 0400, &run_stream_ops},
	[NODE_RUN_OUTPUT] = {"output", NODE_RUN, FILE_ | 0400, &run_stream_ops},
	[NODE_RUN_EXIT_CODE] = {"exit_code", NODE_RUN, FILE_ | 0400, &text_ops},
	[NODE_RUN_STATE] = {"state", NODE_RUN, FILE_ | 0400, &text_ops},
	[NODE_RUN_STATUS] = {"status.json", NODE_RUN, FILE_ | 0400, &text_ops},
	[NODE_RUN_SUMMARY] = {"summary", NODE_RUN, FILE_ | 0400, &text_ops},
	[NODE_RUN_WAIT] = {"wait", NODE_RUN, FILE_ | 0400, &status_wait_ops},
	[NODE_FILE] = {NULL, NODE_FILES, FILE_ | 0600, NULL},
};

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

uint64_t node_of_session(const struct session *s, enum node_kind kind, uint32_t sub)
{
	return node_ino(kind, s->slot, s->generation, sub);
}

uint64_t node_sibling(const struct node *n, enum node_kind kind, uint32_t sub)
{
	return n->s ? node_of_session(n->s, kind, sub) : node_ino(kind, n->template_index, 0, sub);
}

enum reply_keep node_keep(enum node_kind kind)
{
	switch ((int)kind) {
	case NODE_ROOT:
	case NODE_TEMPLATE:
	case NODE_SESSION: return REPLY_KEEP_ALL;
	case NODE_FILES: return REPLY_KEEP_NAME;
	default: return REPLY_KEEP_NOTHING;
	}
}

bool node_in_run(enum node_kind kind)
{
	return kind == NODE_RUN || node_defs[kind].parent == NODE_RUN;
}

int node_resolve(struct fs *fs, uint64_t ino, struct node *ret_node)
{
	struct node n = {.kind = (enum node_kind)(ino >> 57), .ino = ino, .sub = (uint32_t)ino};
	unsigned slot = (unsigned)(ino >> 44) & 0x1fff, generation = (unsigned)(ino >> 32) & 0xfff;

	if (ino == ROOT_INO)
		n.kind = NODE_ROOT;
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

enum node_kind node_child(enum node_kind parent, const char *name)
{
	for (int k = 0; k < NODE_NKINDS; k++)
		if (node_defs[k].parent == parent && node_defs[k].name &&
		    !strcmp(node_defs[k].name, name))
			return (enum node_kind)k;
	return NODE_NONE;
}
