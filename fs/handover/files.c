/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel knows below files/ of a session, as records. See handover.h. */
#include <errno.h>
#include <stdlib.h>

#include "fs/files/files.h"
#include "internal.h"

/* Never reuse. */
enum files_tag {
	TAG_TOKEN = 1,
	TAG_NODE,  /* of its sandboxes */
	TAG_SAVED, /* of its checkpoints */
};

/* Never reuse. */
enum node_tag {
	TAG_INDEX = 1,
	TAG_CLASS,
	TAG_FINDABLE,
	TAG_LOCKED,
	TAG_EPOCH,
	TAG_REMOTE,
	TAG_PARENT,
	TAG_NAME,
	TAG_DEPTH,
	TAG_COUNTED,
	TAG_LOOKUPS,
	TAG_TOLD,
};

static void put_nodes(const struct filenodes *fns, unsigned tag, struct buf *out)
{
	for (uint32_t i = 0; i < fns->cap; i++) {
		const struct filenode *fn = fns->table[i];
		size_t at;

		if (!fn)
			continue;
		at = record_open(out, tag);
		record_u64(out, TAG_INDEX, fn->index);
		record_u64(out, TAG_CLASS, fn->class);
		record_u64(out, TAG_FINDABLE, fn->findable);
		record_u64(out, TAG_LOCKED, fn->locked);
		record_u64(out, TAG_EPOCH, fn->epoch);
		record_u64(out, TAG_REMOTE, fn->remote);
		record_u64(out, TAG_PARENT, fn->parent);
		record_str(out, TAG_NAME, fn->name);
		record_u64(out, TAG_DEPTH, fn->depth_max);
		record_u64(out, TAG_COUNTED, fn->counted);
		record_u64(out, TAG_LOOKUPS, fn->lookups);
		record_u64(out, TAG_TOLD, fn->told);
		record_close(out, at);
	}
}

void handover_put_files(const struct session *s, struct buf *out)
{
	record_u64(out, TAG_TOKEN, s->files->last_token);
	put_nodes(&s->files->nodes, TAG_NODE, out);
	put_nodes(&s->files->saved, TAG_SAVED, out);
}

static int get_node_field(struct filenode *fn, char *name, size_t size,
			  const struct record_field *f)
{
	uint64_t v = 0;
	int r;

	switch ((enum node_tag)f->tag) {
	case TAG_INDEX: return record_get_u32(f, UINT32_MAX, &fn->index);
	case TAG_CLASS:
		r = record_get(f, FILENODE_FILE, FILENODE_LINK, &v);
		fn->class = (enum filenode_class)v;
		return r;
	case TAG_FINDABLE: return record_get_bool(f, &fn->findable);
	case TAG_LOCKED: return record_get_bool(f, &fn->locked);
	case TAG_EPOCH: return record_get_u32(f, UINT32_MAX, &fn->epoch);
	case TAG_REMOTE: return record_get(f, 0, UINT64_MAX, &fn->remote);
	case TAG_PARENT: return record_get_u32(f, UINT32_MAX, &fn->parent);
	case TAG_NAME: fn->name = name; return record_get_str(f, name, size);
	case TAG_DEPTH: return record_get_u32(f, UINT32_MAX, &fn->depth_max);
	case TAG_COUNTED: return record_get_u32(f, UINT32_MAX, &fn->counted);
	case TAG_LOOKUPS: return record_get(f, 0, UINT64_MAX, &fn->lookups);
	case TAG_TOLD: return record_get(f, 0, UINT64_MAX, &fn->told);
	default: return 0;
	}
}

static int get_node(struct filenodes *fns, struct record_reader fields)
{
	struct filenode fn = {0};
	struct record_field f;
	char name[256];
	int r;

	while ((r = record_field(&fields, &f)) > 0) {
		r = get_node_field(&fn, name, sizeof(name), &f);
		if (r < 0)
			return r;
	}
	return r < 0 ? r : filenode_revive(fns, &fn);
}

int handover_get_files(struct session *s, struct record_reader fields)
{
	struct files *fl = s->files;
	struct record_field f;
	int r;

	if (fl->nodes.n || fl->saved.n)
		return -EBADMSG;
	while ((r = record_field(&fields, &f)) > 0) {
		switch ((enum files_tag)f.tag) {
		case TAG_TOKEN: r = record_get(&f, 0, UINT64_MAX, &fl->last_token); break;
		case TAG_NODE: r = get_node(&fl->nodes, record_inside(&f)); break;
		case TAG_SAVED: r = get_node(&fl->saved, record_inside(&f)); break;
		default: break;
		}
		if (r < 0)
			return r;
	}
	if (r == 0)
		r = filenodes_join(&fl->nodes);
	if (r == 0)
		r = filenodes_join(&fl->saved);
	return r;
}

int handover_hold_files(struct session *s)
{
	const struct filenodes *fns = &s->files->nodes;
	_cleanup_free_ struct vm_held_node *held = calloc(fns->n + 1, sizeof(*held));
	size_t n = 0;

	if (!held)
		return -ENOMEM;
	for (uint32_t i = 0; i < fns->cap; i++) {
		const struct filenode *fn = fns->table[i];

		if (fn && fn->epoch == s->epoch)
			held[n++] = (struct vm_held_node){fn->remote, fn->told};
	}
	return sandbox_hold_nodes(s->sandbox, held, n);
}
