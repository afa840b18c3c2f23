/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes: what an inode number stands for, and handles on them. See node.h. */
#include "node.h"

#include <errno.h>

#include "fs.h"
#include "job.h"
#include "quota.h"
#include "session.h"

uint64_t node_sibling(const struct node *n, enum node_kind kind, uint32_t sub)
{
	return n->s ? ino_of_session(n->s, kind, sub) : ino_make(kind, n->template_index, 0, sub);
}

int node_resolve(struct fs *fs, uint64_t ino, struct node *ret_node)
{
	struct node n = {.fs = fs, .kind = ino_kind(ino), .ino = ino, .sub = (uint32_t)ino};
	const unsigned slot = ino_slot(ino);

	if (n.kind <= NODE_NONE || n.kind >= NODE_NKINDS)
		return -ESTALE;
	if (n.kind >= NODE_TEMPLATE && n.kind <= NODE_TEMPLATE_README) {
		if (slot >= fs->conf->ntemplates)
			return -ESTALE;
		n.template_index = slot;
		n.t = &fs->conf->template[slot];
	} else if (ino_is_of_session(n.kind)) {
		n.s = session_by_slot(fs, slot, ino_generation(ino));
		if (!n.s)
			return -ESTALE;
		n.t = n.s->t;
		n.template_index = session_template(n.s);
	}
	if (node_is_run(n.kind)) {
		n.r = session_run(n.s, n.sub);
		if (!n.r)
			return -ESTALE;
	}
	if (n.s)
		n.front = &n.s->front;
	if (n.kind >= NODE_JOB && n.kind <= NODE_JOB_CTL) {
		n.job = job_by_number(n.s, n.sub & JOB_NUMBER_MAX);
		if (!n.job)
			return -ESTALE;
		n.front = &n.job->front;
	}
	if ((n.kind >= NODE_CHECKPOINT && n.kind <= NODE_CHECKPOINT_FILES) ||
	    n.kind == NODE_CHECKPOINT_ERROR) {
		n.checkpoint = checkpoint_by_number(n.s, n.sub);
		if (!n.checkpoint)
			return -ESTALE;
	}
	if (n.kind >= NODE_QUESTION && n.kind <= NODE_QUESTION_DECIDED) {
		n.question = question_find(n.s, n.sub);
		if (!n.question)
			return -ESTALE;
	}
	*ret_node = n;
	return 0;
}

/* The bits of a number by which several numbers of the same node differ. */
static uint32_t fresh_bits(uint64_t ino)
{
	switch ((int)ino_kind(ino)) {
	case NODE_STDIN:
	case NODE_FILE_EVENTS: return UINT32_MAX;
	case NODE_JOB_STDIN:
	case NODE_JOB_TTY: return ~JOB_NUMBER_MAX;
	default: return 0;
	}
}

uint64_t node_shown(uint64_t ino)
{
	return ino & ~(uint64_t)fresh_bits(ino);
}

uint64_t node_fresh(struct fs *fs, uint64_t ino)
{
	const uint32_t bits = fresh_bits(ino);

	/* Counted in the lowest of them. */
	return bits ? node_shown(ino) | (++fs->fresh * (bits & -bits) & bits) : ino;
}

enum run_output node_output(enum node_kind kind)
{
	if (kind == NODE_STDOUT || kind == NODE_RUN_STDOUT || kind == NODE_JOB_STDOUT ||
	    kind == NODE_JOB_TTY)
		return RUN_STDOUT;
	if (kind == NODE_STDERR || kind == NODE_RUN_STDERR || kind == NODE_JOB_STDERR)
		return RUN_STDERR;
	return RUN_BOTH;
}

void node_disown(struct handle *h)
{
	if (h->r)
		run_unref(h->r);
	if (h->job)
		job_unref(h->job);
	if (h->s)
		session_unref(h->s);
}

struct handle *node_open(const struct node *n, const struct handle_ops *ops, int flags)
{
	const struct handle like = {
		.ops = ops,
		.ino = n->ino,
		.flags = flags,
		.fs = n->fs,
		.s = n->s,
		.r = n->r,
		.job = n->job,
		.front = n->front,
		.disown = node_disown,
	};
	struct handle *h = handle_new(&n->fs->handles, &like, quota_whose(n->fs, n->s));

	if (h && n->fs->audit && handle_writes(h))
		h->who = audit_asker(n->fs);
	if (h && n->s)
		session_ref(n->s);
	if (h && n->r)
		run_ref(n->r);
	if (h && n->job)
		job_ref(n->job);
	return h;
}
