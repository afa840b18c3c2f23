/* SPDX-License-Identifier: Apache-2.0 */
/* A machine in a record: from one daemon to the next. See the theory of operation below. */
#include <errno.h>
#include <string.h>

#include "qemu_internal.h"
#include "vm/base/record_table.h"
#include "vm/spawn/child_record.h"

/*
 * Theory of operation
 * -------------------
 * Commands to QEMU are not in the record: what of them was sent, and what was answered, the process before may not have been
 * able to say. But all that it can have begun with a machine that is up can be undone without knowing it: a machine that
 * is not known to stand still is told to go on, and the place of a point's file is freed; QEMU does one command after the
 * other, so these come behind everything else. The copier of a point is a child that nobody claims.
 */

/* Never reuse one. */
enum {
	TAG_CHILD = 1,
	TAG_QMP,
	TAG_CONSOLE,
	TAG_WORDS,
	TAG_RAM,
	TAG_DISK,
	TAG_CARD,
	TAG_SAID, /* bytes */
	TAG_MEMORY_MB,
	TAG_STARTED_AT,
	TAG_KVM,
	TAG_OWN_KERNEL,
	TAG_COPY,
	TAG_STOPS,
};

#define MEMBER(member, tag, max) RECORD_MEMBER(struct backend, member, tag, max)

static const struct record_member members[] = {
	MEMBER(memory_mb, TAG_MEMORY_MB, 1u << 24),
	MEMBER(started_at, TAG_STARTED_AT, UINT64_MAX),
	MEMBER(kvm, TAG_KVM, 1),
	MEMBER(own_kernel, TAG_OWN_KERNEL, 1),
	MEMBER(copy, TAG_COPY, 1),
	MEMBER(stops, TAG_STOPS, 1u << 16),
};

static int reader_fd(const struct reader *r)
{
	return r->open && !r->ended ? r->fd : -1;
}

void qemu_put(const struct backend *b, struct buf *out, struct fdbag *fds)
{
	char said[TAIL_SIZE + 1];
	size_t at = record_open(out, TAG_CHILD);

	child_put(&b->child, out, fds);
	record_close(out, at);
	at = record_open(out, TAG_QMP);
	qmp_put(&b->qmp, out, fds);
	record_close(out, at);
	record_u64(out, TAG_CONSOLE, fdbag_put(fds, reader_fd(&b->console)));
	record_u64(out, TAG_WORDS, fdbag_put(fds, reader_fd(&b->words)));
	record_u64(out, TAG_RAM, fdbag_put(fds, b->ram));
	record_u64(out, TAG_DISK, fdbag_put(fds, b->disk));
	record_u64(out, TAG_CARD, fdbag_put(fds, b->card));
	record_bytes(out, TAG_SAID, said, tail_copy(&b->said, said));
	record_put_members(out, b, members, ARRAY_SIZE(members));
}

/* What is read, before anything is opened. */
struct loader {
	struct backend *b;
	struct record_reader child, qmp;
	uint32_t console, words, ram, disk, card;
};

static int take_field(struct loader *l, const struct record_field *f)
{
	switch (f->tag) {
	case TAG_CHILD: l->child = record_inside(f); return 0;
	case TAG_QMP: l->qmp = record_inside(f); return 0;
	case TAG_CONSOLE: return record_get_u32(f, FDBAG_MAX, &l->console);
	case TAG_WORDS: return record_get_u32(f, FDBAG_MAX, &l->words);
	case TAG_RAM: return record_get_u32(f, FDBAG_MAX, &l->ram);
	case TAG_DISK: return record_get_u32(f, FDBAG_MAX, &l->disk);
	case TAG_CARD: return record_get_u32(f, FDBAG_MAX, &l->card);
	case TAG_SAID:
		if (f->len > TAIL_SIZE)
			return -EBADMSG;
		if (f->len)
			tail_add(&l->b->said, f->data, f->len);
		return 0;
	default: return record_take_member(f, l->b, members, ARRAY_SIZE(members));
	}
}

/* It has its process from here on, so whatever is missing ends it as any other. */
static void open_rest(struct loader *l, struct fdbag *fds)
{
	struct backend *b = l->b;
	int console = fdbag_take(fds, l->console), words = fdbag_take(fds, l->words);

	b->nopen = 1;
	qemu_listen(b, &console, &words);
	if (qmp_take(&b->qmp, b->all->ctx->loop, l->qmp, fds) == 0)
		b->nopen += b->qmp.reader.open;
	else
		child_kill(&b->child); /* it could not be let go on */
	b->ram = fdbag_take(fds, l->ram);
	b->disk = fdbag_take(fds, l->disk);
	b->card = fdbag_take(fds, l->card);
}

int qemu_take(struct backends *all, const struct record_reader *fields, struct fdbag *fds,
	      const struct backend_spec *spec, const struct backend_events *events, void *data,
	      struct backend **ret_backend)
{
	struct loader l = {.b = qemu_new(all, events, data)};
	struct record_reader r = *fields;
	struct record_field f;
	int n;

	if (!l.b)
		return -ENOMEM;
	while ((n = record_field(&r, &f)) > 0) {
		n = take_field(&l, &f);
		if (n < 0)
			break;
	}
	qemu_prepare(l.b, spec->label);
	if (n == 0)
		n = child_take(all->ctx->spawner, l.child, fds, &l.b->child);
	if (n < 0) {
		qemu_free(l.b);
		return n;
	}
	open_rest(&l, fds);
	all->jail_seen[VM_MICROVM] = true;
	all->jail[VM_MICROVM] = l.b->child.report;
	*ret_backend = l.b;
	return 0;
}

int qemu_go(struct backend *b, bool stands, backend_still_fn fn)
{
	if (b->qmp.lost)
		return stands ? -EPIPE : 0;
	qemu_point_forget(&b->qmp);
	if (stands) {
		b->stops = MAX(b->stops, 1u);
		return 0;
	}
	b->stops = 1;
	return qemu_cont(b, fn);
}
