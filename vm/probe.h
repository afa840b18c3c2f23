/* SPDX-License-Identifier: Apache-2.0 */
/* What this host can run machines with: QEMU's version, and whether KVM is of use. */
#ifndef XSBX_PROBE_H
#define XSBX_PROBE_H

#include <stdbool.h>

#include "capture.h"
#include "kvm.h"
#include "vm.h"

enum accel_wish { ACCEL_AUTO, ACCEL_KVM, ACCEL_TCG, ACCEL_NWISHES };

/* Return: 0, or -EINVAL if @name is none of auto, kvm, tcg. */
int accel_wish_parse(const char *name, enum accel_wish *ret_wish);

/*
 * - `done` once both questions are answered; until then `accel` is "probing".
 * - `fatal` if no machine can be started on this host; `problem` says why.
 * - Where the host did not get round to trying KVM, machines are emulated until it did: probe_again().
 */
struct probe {
	enum accel_wish wish;
	bool done, fatal;
	struct vm_problem problem;
	const char *accel; /* "probing", "kvm", "tcg" */
	struct kvm_verdict kvm;
	char qemu[128]; /* version, or why there is none */
	bool qemu_ok;
	struct capture version, trial;
	unsigned pending;
	uv_loop_t *loop;
	struct spawner *spawner;
	uint64_t again_at; /* as of uv_hrtime() */
	void (*on_done)(struct probe *p);
	void *data;
};

/**
 * probe_start() - Begin to look
 * @p: Zeroed; `data` is the caller's; keep it until @on_done
 * @loop: Loop
 * @sp: Spawner
 * @wish: What the configuration says
 * @on_done: Called from the loop when all is known
 *
 * Return: 0 or -errno.
 */
int probe_start(struct probe *p, uv_loop_t *loop, struct spawner *sp, enum accel_wish wish,
		void (*on_done)(struct probe *p));

/* Begins to look again if that might change anything now; on_done will then be called again. Return: does it? */
bool probe_again(struct probe *p);

/* The same as probe_start() here and now, for a process that has no loop: takes a second, or ten on a host that
 * has no time. */
void probe_sync(struct probe *p, const char *qemu, const char *wish);

/* Ends it early; @on_done is still called. */
void probe_cut(struct probe *p);

/* One sentence about the choice of the accelerator. */
const char *probe_why(const struct probe *p);

/* Takes "QEMU emulator version 7.2.22 (...)" apart. Return: 0 or -EPROTO. */
int probe_parse_version(const char *text, char *out, size_t size);

#endif
