/* SPDX-License-Identifier: Apache-2.0 */
/* Copies a machine that runs: its devices by QEMU, its memory by a task of the spawner's. */
#ifndef XSBX_VM_BACKEND_QEMU_POINT_H
#define XSBX_VM_BACKEND_QEMU_POINT_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "qmp.h"
#include "vm/base/reader.h"
#include "vm/spawn/child.h"

struct context;

/*
 * One copy. Embedded by its owner, zeroed before qemu_point_begin(), kept until `done`, which is
 * called once, from the loop. Then `base` and `stream` are sealed, and the caller's, if there was
 * no error.
 */
struct qemu_point {
	struct context *ctx;
	struct qmp *qmp;
	uint32_t machine; /* id of its process, for the spawner */
	unsigned memory_mb;
	int base; /* of the machine; -1: it has none, and a new one is made */
	const struct log_label *label;
	void (*ready)(
		struct qemu_point *p); /* qemu_point_copy() stops it for no longer than it must */
	void (*runs)(struct qemu_point
			     *p); /* it has been copied, and goes on; `done` is still to come */
	void (*done)(struct qemu_point *p, int err);

	/* What follows is its own. */
	bool active, whole;
	bool is_ready;
	bool stopping; /* QEMU was told to stop, and has to be told to go on */
	bool copied, saved;
	int stream, devices, talk;
	int err;
	unsigned nopen;	     /* commands without an answer, the task, the reader */
	uint64_t stopped_at; /* ns */
	struct child copier;
	struct reader words;
	uv_timer_t limit;
};

/* Starts: the machine runs on until qemu_point_copy(). The first members are set; `base` is a
 * descriptor of the caller's. Return: 0 or -errno: there is no `done` then. */
int qemu_point_begin(struct qemu_point *p);

/* Copies it. Once, behind `ready`. */
void qemu_point_copy(struct qemu_point *p);

/* Another process may have begun to copy this machine, and be gone: what QEMU has kept of that goes. */
void qemu_point_forget(struct qmp *qmp);

/* Nothing is wanted of it any more, and its machine may be gone; `done` is called all the same. */
void qemu_point_cancel(struct qemu_point *p);

#endif
