/* SPDX-License-Identifier: Apache-2.0 */
/* What this host can run machines with: QEMU's version, and whether KVM is of use. */
#ifndef XSBX_VM_BACKEND_PROBE_H
#define XSBX_VM_BACKEND_PROBE_H

#include <stdbool.h>

#include "vm/spawn/program.h"
#include "vm/host/kvm.h"
#include "vm/base/problem.h"

/*
 * - `done` once both questions are answered; until then `accel` is "probing".
 * - `fatal` if no machine can be started on this host; `problem` says why.
 * - `unclear` if what was asked died, was late, or could not be started for want of something, which says
 *   nothing about this host: it is asked again, and `tries` counts how often in a row. Machines are held
 *   back for the first few of these; while that lasts, `problem` has the cause.
 */
struct probe {
	enum accel_wish wish;
	bool done, fatal;
	struct problem problem;
	const char *accel; /* "probing", "kvm", "tcg" */
	struct kvm_verdict kvm;
	char qemu[128]; /* version, or why there is none */
	bool qemu_ok, qemu_unclear;
	bool unclear;
	unsigned tries;

	uv_loop_t *loop;
	struct spawner *spawner;
	struct program version, trial;
	unsigned pending; /* questions */
	uv_timer_t timer; /* until they are asked again */
	uint64_t asked_at;
	bool closing;
	void (*on_done)(struct probe *p);
	void (*on_closed)(struct probe *p);
	void *data;
};

/**
 * probe_start() - Begin to look
 * @p: Zeroed; `data` is the caller's; keep it until probe_close() is through
 * @loop: Loop
 * @sp: Spawner
 * @wish: What the configuration says
 * @on_done: Called from the loop for the first result, and for each that is another one than before
 *
 * Return: 0 or -errno.
 */
int probe_start(struct probe *p, uv_loop_t *loop, struct spawner *sp, enum accel_wish wish,
		void (*on_done)(struct probe *p));

/* Somebody needs a machine: if there can't be any, as it was found some time ago, asks once more, for it
 * may have been mended. `done` is false then until there is a result. */
void probe_want(struct probe *p);

/* The same here and now, for a process that has no loop: takes a second, or ten on a host
 * that has no time. */
void probe_sync(struct probe *p, const char *qemu, const char *wish);

/* Ends it, whatever it does; @on_closed is called from the loop. Only after a probe_start() that succeeded. */
void probe_close(struct probe *p, void (*on_closed)(struct probe *p));

/* One sentence about the choice of the accelerator. */
const char *probe_why(const struct probe *p);

#endif
