/* SPDX-License-Identifier: Apache-2.0 */
/* Status of vm/: sandboxes, templates, the store, admission. Part of vm.h. */
#ifndef XSBX_VM_STATUS_H
#define XSBX_VM_STATUS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "vm/base/spec.h"
#include "vm/build/store_status.h"

struct vm;

struct vm_status {
	const char *accel;     /* "kvm", "tcg", or "probing" */
	const char *accel_why; /* one sentence */
	const char *qemu;      /* version, or why it is unknown */
	unsigned max_vms, running, waiting;
	uint64_t started, failed;      /* sandboxes since the start */
	uint64_t cold, snapshot, warm; /* of those, how they started */
	unsigned pooled;	       /* idle clones, ready or not; not in `running` */
	unsigned still;		       /* of all these, how many stand still */
};

/* A kind of sandbox that was requested since the start. */
struct vm_template_status {
	const char *image, *language;
	enum vm_backend backend;
	unsigned memory_mb, cpus;
	bool network;
	const char *packages, *warmup; /* "" if it has none */
	const char *state;   /* of its snapshot: "unknown", "loading", "none", "building", ... */
	const char *problem; /* the last one, or "" */
	uint64_t bytes;	     /* memory of the snapshot */
	uint64_t built_ms;   /* time it took to build, 0 if it was loaded from the disk */
	unsigned pool, ready, filling, standby;
	uint64_t hits, misses;
	uint64_t refills, refill_ms, refill_sum_ms; /* how many, time of the last one, and of all */
	bool prepared;
	const char *key;   /* of its snapshot, "" if it is not known yet */
	const char *layer; /* key of its packages' layer, "" if none is open */
	bool packages_failed;
	bool saved;	  /* it is on the disk */
	bool save_failed; /* it should be, but could not be written */
	bool fetched;	  /* it came from the store */
	bool shared;	  /* it is the one that root has made for all */
};

void vm_templates(struct vm *vm, void (*fn)(void *data, const struct vm_template_status *st),
		  void *data);

void vm_status(const struct vm *vm, struct vm_status *ret_status);

void vm_store_status(const struct vm *vm, struct vm_store_status *ret_status);

struct vm_trace_status {
	bool on;
	uint64_t sent, dropped; /* spans */
};

void vm_trace_status(const struct vm *vm, struct vm_trace_status *ret_status);

/* Who was admitted, who waits for what, and what is available. Processors are in hundredths of one. */
struct vm_admission {
	unsigned places, user_places; /* most sandboxes, most of one user (0: the same) */
	unsigned running, starting, waiting, closing;
	unsigned queue, queue_user; /* longest queue, 0: no limit */
	uint64_t refused;	    /* because too many were waiting, or for too long */
	const char *lack;	    /* what those waiting lack, in a word; "" if none is waiting */
	uint64_t memory_mb;	    /* that may be committed */
	uint64_t promised_mb, snapshots_mb;
	uint64_t host_mb, available_mb, reserve_mb;
	bool pressure_known;
	unsigned pressure; /* hundredths of a percent over the last ten seconds */
	unsigned cpus, cpus_most, cpus_used;
	unsigned runs, runs_waiting; /* that have processors, and that wait for them */
};

void vm_admission(struct vm *vm, struct vm_admission *ret_admission);

/* What a user has, and may have at most. Memory is the host's: of a machine more than its own. */
struct vm_user_status {
	unsigned sandboxes, most;
	uint64_t memory_mb, most_mb;
};

void vm_user(const struct vm *vm, uid_t uid, struct vm_user_status *ret_status);

#endif
