/* SPDX-License-Identifier: Apache-2.0 */
/* What this host can run machines with: QEMU's version, and whether KVM is usable. */
#ifndef XSBX_VM_BACKEND_PROBE_H
#define XSBX_VM_BACKEND_PROBE_H

#include <stdbool.h>

#include "vm/spawn/program.h"
#include "vm/host/kvm.h"
#include "vm/base/problem.h"
#include "vm/base/record.h"

/*
 * - `done` once both probes have completed; until then `accel` is "probing".
 * - `fatal` if no machine can be started on this host; `problem` says why.
 * - `unclear` if a probe died, timed out, or could not be started for lack of resources, which says
 *   nothing about this host: it is repeated, and `tries` counts how often in a row. No machines are started
 *   during the first few tries; meanwhile `problem` has the cause.
 */
struct probe {
	enum accel_wish wish;
	bool done, fatal;
	struct problem problem;
	const char *accel; /* "probing", "kvm", "tcg" */
	struct kvm_verdict kvm;
	char qemu[128]; /* version, or why it is unknown */
	bool qemu_ok, qemu_unclear;
	bool unclear;
	unsigned tries;
	bool known; /* of a daemon before: probe_get() */

	uv_loop_t *loop;
	struct spawner *spawner;
	struct program version, trial;
	unsigned pending; /* probes */
	uv_timer_t timer; /* until they are repeated */
	uint64_t asked_at;
	bool closing;
	void (*on_done)(struct probe *p);
	void (*on_closed)(struct probe *p);
	void *data;
};

/**
 * probe_start() - Start probing
 * @p: Zeroed; `data` is the caller's; keep it until probe_close() completes
 * @loop: Loop
 * @sp: Spawner
 * @wish: Accelerator from the configuration
 * @on_done: Called from the loop with the first result, and with each result that differs from the one before
 *
 * Return: 0 or -errno.
 */
int probe_start(struct probe *p, uv_loop_t *loop, struct spawner *sp, enum accel_wish wish,
		void (*on_done)(struct probe *p));

/* In an heir, instead: nothing is asked before probe_go(). */
void probe_prepare(struct probe *p, uv_loop_t *loop, struct spawner *sp, enum accel_wish wish,
		   void (*on_done)(struct probe *p));

/* It is the daemon: asks, unless it is known. */
void probe_go(struct probe *p);

/* Is there an answer that will be the same for the next daemon, by which machines can be started? */
bool probe_is_known(const struct probe *p);

/* Appends the fields of that; and takes them. What a daemon that lied has said costs a mount its machines, as it could have anyhow.
 * Return: 0 or -errno. */
void probe_put(const struct probe *p, struct buf *out);
int probe_get(struct probe *p, struct record_reader fields);

/* A machine is needed: if an earlier probe has found that none can be started, probes once more, because it may
 * have been fixed. `done` is false until there is a result. */
void probe_want(struct probe *p);

/* Probes synchronously, for a process without a loop: takes a second, or ten on a busy
 * host. */
void probe_sync(struct probe *p, const char *qemu, const char *wish);

/* Ends it in any state; @on_closed is called from the loop. Only after a successful probe_start(). */
void probe_close(struct probe *p, void (*on_closed)(struct probe *p));

/* One sentence that explains the choice of the accelerator. */
const char *probe_why(const struct probe *p);

#endif
