/* SPDX-License-Identifier: Apache-2.0 */
/* Points: a machine as it was at a moment, to go on from, any number of times. */
#ifndef XSBX_VM_CHECKPOINT_POINT_H
#define XSBX_VM_CHECKPOINT_POINT_H

#include <stdbool.h>
#include <stdint.h>

#include "vm/base/digest.h"

struct layer;

/* What a machine must be like to go on from a point. */
struct point_fit {
	unsigned memory_mb, cpus;
	bool network, root;
	const struct layer *layer; /* of its packages, or NULL */
	/* What its interpreter was started with, see guest_interpreter_sum(); "": not known. */
	char interpreter[DIGEST_HEX];
};

/*
 * A machine's memory is that of the snapshot it was cloned from, its base, and what it has written
 * since. The point has the latter, within a whole migration stream, which QEMU reads on top of the
 * base. Immutable; both files are sealed.
 */
struct point {
	unsigned refs;
	int base; /* memory of the base: sparse, as large as the machine's */
	int disk; /* root file system of its image, which may be replaced there; -1: see point_settle() */
	bool own_kernel, kvm; /* what it runs on */
	int stream;	      /* header, configuration, RAM that differs from the base, devices */
	uint64_t bytes;	      /* of `stream` */
	uint32_t generation;  /* of HELLO, that its agent has seen last */
	uint64_t tsc_khz;     /* that its kernel assumes */
	struct point_fit fit;
	struct layer *layer; /* reference, or NULL */
	/* What it depends on that is not in it, in lines: see backend_ops.describe; NULL: nobody
	 * has asked yet. */
	char *machine;
};

/* Size in bytes that a description may have. */
#define POINT_MACHINE_MAX (64u << 10)

/* Return: one with a reference, without files, that is to be filled in; or NULL. */
struct point *point_new(void);

struct point *point_ref(struct point *p);

/* Drops a reference; @p may be NULL. Return: NULL. */
struct point *point_unref(struct point *p);

/**
 * point_settle() - Give a point that comes from a disk what is not its own
 * @p: Without a disk
 * @disk: Duplicated
 * @layer: Gets a reference; or NULL
 *
 * Both are as @p.machine describes them. Return: 0 or -errno.
 */
int point_settle(struct point *p, int disk, struct layer *layer);

/* That of a point on a disk whose machine could not be described when it was saved: that of no machine. */
#define POINT_UNDESCRIBED "unknown\n"

/* Whether @p, which comes from a disk, is such a one. */
bool point_undescribed(const struct point *p);

/* What of @p's description is another now, in one word, printable; "" if it is all the same. */
void point_differs(const struct point *p, const char *machine, char ret_word[32]);

#endif
