/* SPDX-License-Identifier: Apache-2.0 */
/* Private to qemu.c and qemu_record.c: one machine. */
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
	void (*pointed)(void *data, int err);
	unsigned nopen; /* the child, the readers, the control connection, a point */
};

/* A machine without anything yet, but @all and the rest. Return: it, or NULL. */
struct backend *qemu_new(struct backends *all, const struct backend_events *events, void *data);
/* One that has not begun. */
void qemu_free(struct backend *b);

/* Sets what is called for its process; and listens to console and words, each if it is not -1. */
void qemu_prepare(struct backend *b, const struct log_label *label);
void qemu_listen(struct backend *b, int *console, int *words);

/* For struct backend_ops. */
int qemu_put(const struct backend *b, struct buf *out, struct fdbag *fds);
int qemu_take(struct backends *all, const struct record_reader *fields, struct fdbag *fds,
	      const struct backend_spec *spec, const struct backend_events *events, void *data,
	      struct backend **ret_backend);

#endif
