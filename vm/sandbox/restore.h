/* SPDX-License-Identifier: Apache-2.0 */
/* Beginning from what was saved: it is loaded, and has to fit. */
#ifndef XSBX_VM_SANDBOX_RESTORE_H
#define XSBX_VM_SANDBOX_RESTORE_H

#include <stdbool.h>

#include "vm/checkpoint/pack.h"
#include "vm/checkpoint/point.h"

struct buf;
struct layer;
struct network_ops;
struct problem;
struct sandbox;

/* Does it go on from a machine's memory? */
bool restore_has_memory(const struct sandbox *s);

enum restore_step {
	RESTORE_READY, /* there is nothing to wait for */
	RESTORE_LOADS, /* it waits: s->wait */
	RESTORE_ASKS,  /* it waits for digests */
	RESTORE_ENDS,  /* it does not fit; the sandbox is ended */
};

/* The disk does not answer: ends the sandbox. */
void restore_is_late(struct sandbox *s);

/* It has a place: is the memory there from which it goes on, and does it fit? @ops: of a network that only that has. */
enum restore_step restore_memory(struct sandbox *s, const struct network_ops *ops);

/* Its guest is up: if there are files that have to come first, has them put in, which may have to
 * be loaded before. Return: whether that has begun; then it becomes READY, or ends, later. */
bool restore_files(struct sandbox *s);

/* They were put in, or not. */
void restore_on_unpacked(struct sandbox *s, int err, const char *path);

/* Part of struct sandbox: what is loaded of `from`, references, while it is needed. */
struct restore {
	struct pack *pack;
	struct point *point;
	bool filled; /* its files are those of `from`, or are being put in */
};

/* It is not needed any more. */
static inline void restore_drop(struct restore *r)
{
	r->pack = pack_unref(r->pack);
	r->point = point_unref(r->point);
}

/**
 * restore_describe() - Describe what the memory of a machine depends on
 * @s: Sandbox
 * @layer: Its packages, or NULL
 * @disk: Root file system that it has, or -1: what there is now
 * @out: Appended, with a terminator
 *
 * Return: 0, -EAGAIN if it is not known yet, or -errno.
 */
int restore_describe(const struct sandbox *s, const struct layer *layer, int disk, struct buf *out);

#endif
