/* SPDX-License-Identifier: Apache-2.0 */
/* The command line of a machine. */
#ifndef XSBX_VM_BACKEND_QEMU_ARGV_H
#define XSBX_VM_BACKEND_QEMU_ARGV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vm/base/arch.h"
#include "vm/order/order.h"

#define QEMU_AGENT_PORT "xsbx.agent" /* name of the virtio port */
#define QEMU_AGENT_ID	"agent"	     /* its name in QEMU's events */

/* The numbers of QEMU's descriptors. */
enum qemu_fd {
	QEMU_FD_CONTROL = 3,
	QEMU_FD_AGENT,
	QEMU_FD_CONSOLE,
	QEMU_FD_KERNEL,
	QEMU_FD_INITRD,
	QEMU_FD_ROOTFS,
	QEMU_FD_RAM,
	QEMU_FD_STATE,
	QEMU_FD_CARD,
	QEMU_FD_PACKAGES,
};

struct qemu_machine {
	enum arch arch;
	const char *qemu;    /* program */
	const char *version; /* as it reports it */
	const char *name;    /* shown by ps; must have no comma */
	enum machine_mode mode;
	bool kvm;
	bool packages;	  /* a second disk, QEMU_FD_PACKAGES */
	bool own_kernel;  /* devices by the command line, not by ACPI; of x86-64 alone */
	uint64_t tsc_khz; /* of the host; only used with emulation of x86-64 */
	unsigned memory_mb, cpus;
	bool network;
	bool root; /* its root file system can be changed */
};

struct qemu_argv {
	const char *argv[72]; /* terminated by NULL; point to constants, the machine, and `text` */
	size_t argc;
	char text[1280];
	size_t len;
};

struct backend_spec;
struct buf;
struct backends;

/* See backend_ops.describe. */
int qemu_describe(struct backends *all, const struct backend_spec *spec, struct buf *out,
		  const char **ret_why);

/* Is QEMU's @version ("7.2.22", "10.0.2 (Debian ...)") this one or a later one? One without numbers
 * is taken for the oldest. */
bool qemu_at_least(const char *version, unsigned major, unsigned minor);

/* Writes the command line of a machine. */
void qemu_argv(const struct qemu_machine *m, struct qemu_argv *ret_argv);

#endif
