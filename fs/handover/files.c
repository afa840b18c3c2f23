/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel knows below files/ of a session, as records. See handover.h. */
#include <errno.h>
#include <stdlib.h>

#include "fs/files/files.h"
#include "internal.h"
#include "vm/base/estate.h"

/* Never reuse. */
enum files_tag {
	TAG_TOKEN = 1,
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
	TAG_TABLE, /* 0: of its sandboxes; 1: of its checkpoints */
	TAG_INO,
};

#define NTABLES 2u

/* Which of the two tables. */
static struct filenodes *table_of(struct files *f, uint64_t table)
{
	return table ? &f->saved : &f->nodes;
}

static uint64_t sub_of(uint64_t table, uint32_t index)
{
	return table << 32 | index;
}

static int put_node(const struct session *s, uint64_t table, const struct filenode *fn,
		    struct handover_sink *sink)
{
	struct buf *out = sink_begin(sink);

	record_u64(out, TAG_TABLE, table);
	record_u64(out, TAG_INDEX, fn->index);
	record_u64(out, TAG_CLASS, fn->class);
	record_u64(out, TAG_FINDABLE, fn->findable);
	record_u64(out, TAG_LOCKED, fn->locked);
	record_u64(out, TAG_EPOCH, fn->epoch);
	record_u64(out, TAG_REMOTE, fn->remote);
	record_u64(out, TAG_INO, fn->ino);
	record_u64(out, TAG_PARENT, fn->parent);
	record_str(out, TAG_NAME, fn->name);
	record_u64(out, TAG_DEPTH, fn->depth_max);
	record_u64(out, TAG_COUNTED, fn->counted);
	record_u64(out, TAG_LOOKUPS, fn->lookups);
	record_u64(out, TAG_TOLD, fn->told);
	return sink_end(sink, HANDOVER_NODE, session_key(s), sub_of(table, fn->index));
}

static int put_head(const struct session *s, struct handover_sink *sink)
{
	record_u64(sink_begin(sink), TAG_TOKEN, s->files->last_token);
	return sink_end(sink, HANDOVER_FILES, session_key(s), 0);
}

static int put_nodes(struct session *s, uint64_t table, struct handover_sink *sink)
{
	const struct filenodes *fns = table_of(s->files, table);
	int r = 0;

	for (uint32_t i = 0; r == 0 && i < fns->cap; i++) {
		if (fns->table[i])
			r = put_node(s, table, fns->table[i], sink);
	}
	return r;
}

/* It is in the estate as it is. */
static void settle(struct fs *fs, struct files *f)
{
	filenodes_noted(&f->nodes);
	filenodes_noted(&f->saved);
	touched_take(&fs->touched, TOUCHED_FILES, &f->touch);
}

int handover_put_files(struct session *s, struct handover_sink *sink)
{
	int r = put_head(s, sink);

	for (uint64_t table = 0; r == 0 && table < NTABLES; table++)
		r = put_nodes(s, table, sink);
	return r;
}

/* Which ones have changed is not known: all are put, and all others dropped. */
static int commit_table(struct session *s, uint64_t table, struct handover_sink *sink)
{
	const struct filenodes *fns = table_of(s->files, table);
	int r = 0;

	for (uint32_t i = 0; r == 0 && i < fns->cap; i++) {
		r = fns->table[i] ? put_node(s, table, fns->table[i], sink)
				  : estate_drop(sink->estate, HANDOVER_NODE, session_key(s),
						sub_of(table, i));
	}
	return r;
}

/* What came into the table is put, what went is dropped; and what came and went likewise. */
static int commit_nodes(struct session *s, uint64_t table, struct handover_sink *sink)
{
	struct filenodes *fns = table_of(s->files, table);
	const struct filenode_notes *notes = &fns->notes;
	int r = 0;

	if (notes->all) {
		return commit_table(s, table, sink);
	}
	for (uint32_t i = 0; r == 0 && i < notes->n; i++) {
		const struct filenode *fn = filenode_get(fns, notes->index[i]);

		r = fn ? put_node(s, table, fn, sink)
		       : estate_drop(sink->estate, HANDOVER_NODE, session_key(s),
				     sub_of(table, notes->index[i]));
	}
	return r;
}

int handover_commit_files(struct fs *fs, struct handover_sink *sink)
{
	struct touch *what;
	int r = 0;

	while (r == 0 && (what = touched_first(&fs->touched, TOUCHED_FILES))) {
		struct files *f = container_of(what, struct files, touch);

		r = put_head(f->s, sink);
		for (uint64_t table = 0; r == 0 && table < NTABLES; table++)
			r = commit_nodes(f->s, table, sink);
		settle(fs, f);
	}
	return r;
}

void handover_settle_files(struct fs *fs)
{
	struct session *s;

	LIST_FOREACH(s, &fs->sessions, kept)
		settle(fs, s->files);
}

int handover_drop_files(struct estate *e, uint64_t key)
{
	estate_drop_all(e, HANDOVER_NODE, key);
	return estate_drop(e, HANDOVER_FILES, key, 0);
}

/* What a record of a node says. */
struct node_in {
	struct filenode fn;
	char name[256];
	uint64_t table;
};

static int get_node_field(struct node_in *in, const struct record_field *f)
{
	struct filenode *fn = &in->fn;
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
	case TAG_INO: return record_get(f, 0, UINT64_MAX, &fn->ino);
	case TAG_PARENT: return record_get_u32(f, UINT32_MAX, &fn->parent);
	case TAG_NAME: fn->name = in->name; return record_get_str(f, in->name, sizeof(in->name));
	case TAG_DEPTH: return record_get_u32(f, UINT32_MAX, &fn->depth_max);
	case TAG_COUNTED: return record_get_u32(f, UINT32_MAX, &fn->counted);
	case TAG_LOOKUPS: return record_get(f, 0, UINT64_MAX, &fn->lookups);
	case TAG_TOLD: return record_get(f, 0, UINT64_MAX, &fn->told);
	case TAG_TABLE: return record_get(f, 0, NTABLES - 1, &in->table);
	default: return 0;
	}
}

int handover_get_node(struct session *s, struct record_reader fields)
{
	struct node_in in = {0};
	struct record_field f;
	int r;

	while ((r = record_field(&fields, &f)) > 0) {
		r = get_node_field(&in, &f);
		if (r < 0)
			return r;
	}
	return r < 0 ? r : filenode_revive(table_of(s->files, in.table), &in.fn);
}

int handover_get_files(struct session *s, struct record_reader fields)
{
	struct record_field f;
	int r;

	while ((r = record_field(&fields, &f)) > 0) {
		if (f.tag == TAG_TOKEN)
			r = record_get(&f, 0, UINT64_MAX, &s->files->last_token);
		if (r < 0)
			return r;
	}
	return r;
}

int handover_join_files(struct session *s)
{
	const int r = filenodes_join(&s->files->nodes);

	return r < 0 ? r : filenodes_join(&s->files->saved);
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
