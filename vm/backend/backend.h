/* SPDX-License-Identifier: Apache-2.0 */
/* The seam between sandboxes and what they run in: QEMU, or, for tests, a plain process. */
#ifndef XSBX_VM_BACKEND_BACKEND_H
#define XSBX_VM_BACKEND_BACKEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "prefork.h"
#include "probe.h"
#include "vm/base/context.h"
#include "vm/base/spec.h"
#include "vm/base/util.h"
#include "vm/host/tsc.h"
#include "vm/image/digest_job.h"
#include "vm/image/image.h"
#include "vm/jail/jail.h"
#include "vm/spawn/order.h"

struct buf;
struct problem;
struct sandbox_spec;
struct cgroup_stat;
struct layer;
struct backend; /* one of these per sandbox; each backend has its own */

struct policy;

/* What backends are given, once. Embedded in the machinery, which fills it in. */
struct backends {
	struct context *ctx;
	const struct backend_ops *machine; /* what machines are: QEMU, or another one for tests */
	struct images *images;
	const struct policy *policy; /* of the spawner; the caller's */
	char *qemu;		     /* program */
	struct probe probe;
	struct tsc_sample tsc;
	struct digest_jobs digests;
	struct prefork prefork;
	/* What holds of the jail of the last one of each kind that was started. */
	bool jail_seen[VM_NBACKENDS];
	struct jail_report jail[VM_NBACKENDS];
};

struct backend_ops;

struct backend_spec {
	const char *name;	       /* for messages */
	const struct log_label *label; /* for the log; may change, and outlives the backend */
	const char *image;	       /* image name */
	unsigned memory_mb, cpus;
	unsigned processes; /* of user code; 0: a default */
	enum machine_mode mode;
	bool background;		 /* nobody waits for it */
	int ram, state;			 /* descriptors; only needed during the call */
	const struct sandbox_spec *view; /* says what is seen of the host; or NULL */
	bool network;			 /* it has a network card */
	const struct layer *layer;	 /* its packages, or NULL */
};

struct backend_events {
	/* The agent has opened its end of the stream. */
	void (*up)(void *data);
	/* The agent has closed it again. */
	void (*hangup)(void *data);
	void (*console)(void *data, const void *bytes, size_t len);
	/* It can't start, or has ended; once at most. backend_ops.destroy is still due. */
	void (*down)(void *data, const struct problem *problem);
	/* The answer to backend_ops.destroy: nothing is left, and the pointer is invalid. */
	void (*destroyed)(void *data);
};

struct backend_info {
	const char *accel;
	pid_t pid;			  /* 0 if there is none */
	const struct jail_report *report; /* what holds of its jail, or NULL */
	int kept;			  /* what its jail keeps, or -1; the backend's */
	struct cgroup_stat *stats;	  /* what its jail has counted, or NULL */
};

/* @error is NULL if the machine was saved. */
typedef void (*backend_saved_fn)(void *data, const char *error);

/* Callbacks only come from the loop. */
struct backend_ops {
	const char *name;
	bool needs_image;
	bool views; /* can show paths of the host */
	bool pools; /* without snapshots: a pool has sandboxes that were started as any other */
	unsigned overhead_mb; /* memory of the host on top of the guest's */

	/**
	 * start - Begin to start
	 * @all: What backends are given
	 * @spec: What is wanted; only needed during the call
	 * @events: Callbacks; kept
	 * @data: First argument of the callbacks
	 * @ret_backend: Result; end it with destroy()
	 * @ret_stream: Our end of the stream socket to the agent; the caller's
	 * @ret_problem: Why not
	 *
	 * Return: 0, 1 if it is up already and `up` will not be called, or -errno.
	 */
	int (*start)(struct backends *all, const struct backend_spec *spec,
		     const struct backend_events *events, void *data, struct backend **ret_backend,
		     int *ret_stream, struct problem *ret_problem);

	/* Kills at once what runs. */
	void (*destroy)(struct backend *b);

	void (*info)(struct backend *b, struct backend_info *ret_info);

	/**
	 * save - Copy a machine that was started with MACHINE_RECORD
	 * @b: Its agent idles
	 * @fn: Called once, with the events' data, unless the machine goes down or is destroyed
	 *	first. The machine is of no use afterwards, and the copy is whole when it is gone
	 *
	 * NULL if the backend can't do it. Return: 0 or -errno.
	 */
	int (*save)(struct backend *b, backend_saved_fn fn);

	/**
	 * describe - All that a copy depends on but its content
	 * @all: What backends are given; the probe is done
	 * @spec: What would be started
	 * @out: Text is appended here
	 * @ret_why: Why not, valid until the next call
	 *
	 * Return: 0, -EAGAIN if it takes time to find out, after which `changed` of the digests is
	 * called, or -errno.
	 */
	int (*describe)(struct backends *all, const struct backend_spec *spec, struct buf *out,
			const char **ret_why);

	/**
	 * take_card - Hand over the other end of the network card
	 * @b: Was started with a network, and its agent has answered
	 * @ret_stream: Whether it is a stream of frames; else it is a socket on which a TAP device
	 *	comes as a descriptor
	 *
	 * NULL if the backend has no network. Return: a descriptor, the caller's, or -errno; at the
	 * second call -EBUSY.
	 */
	int (*take_card)(struct backend *b, bool *ret_stream);

	/* Reads what the console holds but was not delivered yet; before an end is explained. NULL if `down` comes
	 * behind all of it. */
	void (*drain)(struct backend *b);
};

extern const struct backend_ops backend_qemu;
extern const struct backend_ops backend_process;
extern const struct prefork_ops process_prefork_ops;
#ifdef XSBX_LOCAL_BACKEND
extern const struct backend_ops backend_local;
#endif

/* What a kind of sandbox runs in. */
static inline const struct backend_ops *backends_ops(const struct backends *all,
						     enum vm_backend backend)
{
	return backend == VM_PROCESS ? &backend_process : all->machine;
}

#endif
