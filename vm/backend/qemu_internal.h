/* SPDX-License-Identifier: Apache-2.0 */
/* What the files share that a machine's QEMU is made of. */
#ifndef XSBX_VM_BACKEND_QEMU_INTERNAL_H
#define XSBX_VM_BACKEND_QEMU_INTERNAL_H

#include "backend.h"
#include "qemu_point.h"
#include "qmp.h"
#include "vm/base/lines.h"
#include "vm/base/reader.h"
#include "vm/spawn/child.h"

struct backend {
	struct backends *all;
	const struct backend_events *events;
	void *data;
	struct child child;
	struct reader console, words;
	struct qmp qmp;
	int state;     /* of one that can be saved: where to; or -1 */
	int ram, disk; /* what it was cloned from, or -1; its root file system */
	unsigned memory_mb;
	int card;	  /* the other end of its network card, until it is taken, or -1 */
	struct tail said; /* on its standard output and error */
	uint64_t started_at;
	bool kvm;	       /* what it runs on, also when others come to run on something else */
	bool own_kernel, copy; /* `copy`: it goes on from a point */
	bool child_gone, destroying, told_down;
	bool reset;		/* by its guest */
	backend_saved_fn saved; /* while a copy is being made */
	unsigned stops;		/* that were not undone */
	backend_still_fn stopped, went_on;
	struct qemu_point point;
	struct point *to; /* of `point` */
	const struct backend_point_events *pointing;
	unsigned nopen; /* the child, the readers, the control connection, a point */
};

/* ---- what is heard of it: qemu_events.c ---- */

/* Sets what is called for its process; and listens to console and words, each if it is not -1. */
void qemu_prepare(struct backend *b, const struct log_label *label);
void qemu_listen(struct backend *b, int *console, int *words);

/* ---- from its first to its last: qemu_life.c ---- */

/* A machine without anything yet, but @all and the rest. Return: it, or NULL. */
struct backend *qemu_new(struct backends *all, const struct backend_events *events, void *data);
/* One that has not begun. */
void qemu_free(struct backend *b);

/* One of `nopen` is gone: with the last, all is. */
void qemu_part_gone(struct backend *b);

/* Tells its owner, once. */
void qemu_tell_down(struct backend *b, const struct problem *p);

/* Commands have no answer because QEMU has ended. That is known here first; its end will say why. */
bool qemu_is_ending(const struct backend *b);

/* ---- copies: qemu_copy.c ---- */

/* QEMU tells how a migration goes, in either direction. */
void qemu_on_migration(struct backend *b, const char *status);

/* Before qemu_restore(). Return: 0 or -errno. */
int qemu_accept_copy(struct backend *b);

/* See struct backend_ops. */
void qemu_restore(struct backend *b);
int qemu_save(struct backend *b, backend_saved_fn fn);
int qemu_point(struct backend *b, struct point *p, const struct backend_point_events *events);
void qemu_copy_now(struct backend *b);
void qemu_copy_cancel(struct backend *b);

/* ---- standing still: qemu_still.c ---- */

int qemu_stop(struct backend *b, backend_still_fn fn);
int qemu_cont(struct backend *b, backend_still_fn fn);

/* ---- from one daemon to the next: qemu_record.c ---- */

void qemu_put(const struct backend *b, struct buf *out, struct fdbag *fds);
int qemu_take(struct backends *all, const struct record_reader *fields, struct fdbag *fds,
	      const struct backend_spec *spec, const struct backend_events *events, void *data,
	      struct backend **ret_backend);
int qemu_go(struct backend *b, bool stands, backend_still_fn fn);

#endif
