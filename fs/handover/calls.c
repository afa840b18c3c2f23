/* SPDX-License-Identifier: Apache-2.0 */
/* Requests below files/ that the agent has answered, and the kernel has not. See handover.h. */
#include <errno.h>

#include "fs/files/files.h"
#include "internal.h"
#include "vm/base/util.h"

/* Never reuse. */
enum calls_tag {
	TAG_LINKED = 1, /* fields: TAG_* of those that follow */
};

/* Never reuse. */
enum linked_tag {
	TAG_CLAIM = 1,
	TAG_OP,
	TAG_NODE,
	TAG_INO,
	TAG_MODE,
	TAG_NLINK,
	TAG_SIZE,
	TAG_BLOCKS,
	TAG_ATIME,
	TAG_MTIME,
	TAG_CTIME,
};

/* By their numbers in records. */
static const enum vm_file_op ops[] = {VM_LOOKUP, VM_SYMLINK, VM_LINK, VM_GETATTR, VM_SETATTR};

static void count(void *data, const struct files_linked *l)
{
	(void)l;
	++*(size_t *)data;
}

bool handover_has_calls(const struct session *s)
{
	size_t n = 0;

	files_each_linked(s->files, count, &n);
	return n;
}

static void put_linked(void *data, const struct files_linked *l)
{
	struct buf *out = data;
	const size_t at = record_open(out, TAG_LINKED);
	const struct vm_attr *a = &l->reply.attr;

	for (unsigned i = 0; i < ARRAY_SIZE(ops); i++)
		if (ops[i] == l->op)
			record_u64(out, TAG_OP, i);
	record_u64(out, TAG_CLAIM, l->claim);
	record_u64(out, TAG_NODE, l->reply.node);
	record_u64(out, TAG_INO, a->ino);
	record_u64(out, TAG_MODE, a->mode);
	record_u64(out, TAG_NLINK, a->nlink);
	record_u64(out, TAG_SIZE, a->size);
	record_u64(out, TAG_BLOCKS, a->blocks);
	record_time(out, TAG_ATIME, &a->atime);
	record_time(out, TAG_MTIME, &a->mtime);
	record_time(out, TAG_CTIME, &a->ctime);
	record_close(out, at);
}

void handover_put_calls(const struct session *s, struct buf *out)
{
	files_each_linked(s->files, put_linked, out);
}

static int get_linked_field(struct files_linked *l, uint64_t *op, const struct record_field *f)
{
	struct vm_attr *a = &l->reply.attr;

	switch ((enum linked_tag)f->tag) {
	case TAG_CLAIM: return record_get(f, 0, UINT64_MAX, &l->claim);
	case TAG_OP: return record_get(f, 0, ARRAY_SIZE(ops) - 1, op);
	case TAG_NODE: return record_get(f, 0, UINT64_MAX, &l->reply.node);
	case TAG_INO: return record_get(f, 0, UINT64_MAX, &a->ino);
	case TAG_MODE: return record_get_u32(f, S_IFMT | 0777 | S_ISVTX, &a->mode);
	case TAG_NLINK: return record_get_u32(f, UINT32_MAX, &a->nlink);
	case TAG_SIZE: return record_get(f, 0, INT64_MAX, &a->size);
	case TAG_BLOCKS: return record_get(f, 0, INT64_MAX / 512, &a->blocks);
	case TAG_ATIME: return record_get_time(f, &a->atime);
	case TAG_MTIME: return record_get_time(f, &a->mtime);
	case TAG_CTIME: return record_get_time(f, &a->ctime);
	default: return 0;
	}
}

static int get_linked(struct files *fl, const struct record_field *of)
{
	struct record_reader fields = record_inside(of);
	struct files_linked l = {0};
	uint64_t op = ARRAY_SIZE(ops);
	struct record_field f;
	int r;

	while ((r = record_field(&fields, &f)) > 0) {
		r = get_linked_field(&l, &op, &f);
		if (r < 0)
			return r;
	}
	if (r < 0 || !of->is_bytes || op == ARRAY_SIZE(ops) || !S_ISLNK(l.reply.attr.mode))
		return -EBADMSG;
	l.op = ops[op];
	if (l.op != VM_GETATTR && l.op != VM_SETATTR && !l.reply.node)
		return -EBADMSG;
	return files_link_again(fl, &l);
}

int handover_get_calls(struct session *s, struct record_reader fields)
{
	struct record_field f;
	int r;

	while ((r = record_field(&fields, &f)) > 0) {
		r = f.tag == TAG_LINKED ? get_linked(s->files, &f) : 0;
		if (r < 0)
			return r;
	}
	return r;
}
