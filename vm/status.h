/* SPDX-License-Identifier: Apache-2.0 */
/* How the machinery fares: sandboxes, templates, the store, admission. Part of vm.h. */
#ifndef XSBX_VM_STATUS_H
#define XSBX_VM_STATUS_H

#include <stdbool.h>
#include <stdint.h>

#include "vm/base/spec.h"
#include "vm/build/store_status.h"

struct vm;

struct vm_status {
	const char *accel;     /* "kvm", "tcg", or "probing" */
	const char *accel_why; /* one sentence */
	const char *qemu;      /* version, or why there is none */
	unsigned max_vms, running, waiting;
	uint64_t started, failed;      /* sandboxes since the start */
	uint64_t cold, snapshot, warm; /* of those, how they started */
	unsigned pooled; /* clones that wait to be used, ready or not; not in `running` */
};

/* A kind of sandbox that was asked for since the start. */
struct vm_template_status {
	const char *image, *language;
	enum vm_backend backend;
	unsigned memory_mb, cpus;
	bool network;
	const char *packages, *warmup; /* "" if it has none */
	const char *state;   /* of its snapshot: "unknown", "loading", "none", "building", ... */
	const char *problem; /* the last one, or "" */
	uint64_t bytes;	     /* memory of the snapshot */
	uint64_t built_ms;   /* what it took to make it, 0 if it came from the disk */
	unsigned pool, ready, filling;
	uint64_t hits, misses;
	uint64_t refills, refill_ms, refill_sum_ms; /* how many, what the last took, and all */
	bool prepared;
	const char *key;   /* of its snapshot, "" if it is not known yet */
	const char *layer; /* key of its packages' layer, "" if it has none that is open */
	bool packages_failed;
	bool kept;    /* it is on the disk */
	bool unkept;  /* it should be, and can't */
	bool fetched; /* it came from the store */
};

void vm_templates(struct vm *vm, void (*fn)(void *data, const struct vm_template_status *st),
		  void *data);

void vm_status(const struct vm *vm, struct vm_status *ret_status);

void vm_store_status(const struct vm *vm, struct vm_store_status *ret_status);

/* Who was let in, who waits for what, and what there is. Processors are in hundredths of one. */
struct vm_admission {
	unsigned places, user_places; /* most sandboxes, most of one user (0: the same) */
	unsigned running, starting, waiting, closing;
	unsigned queue, queue_user; /* most that may wait, 0: no limit */
	uint64_t refused;	    /* because too many waited, or for too long */
	const char *lack;	    /* what those who wait lack, in a word; "" if nobody waits */
	uint64_t memory_mb;	    /* that may be promised */
	uint64_t promised_mb, snapshots_mb;
	uint64_t host_mb, available_mb, reserve_mb;
	bool pressure_known;
	unsigned pressure; /* hundredths of a per cent of the last ten seconds */
	unsigned cpus, cpus_most, cpus_used;
	unsigned runs, runs_waiting; /* with processors, and for them */
};

void vm_admission(struct vm *vm, struct vm_admission *ret_admission);

#endif
