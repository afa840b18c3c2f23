/* SPDX-License-Identifier: Apache-2.0 */
/* The interface between guests and what they run in: QEMU, a jail, or, for tests, a plain process. */
#ifndef XSBX_VM_BACKEND_BACKEND_H
#define XSBX_VM_BACKEND_BACKEND_H

#include <stdbool.h>
#include <stddef.h>
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
#include "vm/order/order.h"

struct buf;
struct fdbag;
struct problem;
struct record_reader;
struct sandbox_spec;
struct cgroup_stat;
struct layer;
struct point;
struct backend; /* one of these per sandbox; each backend has its own */

struct policy;

/* Shared by all backends. Embedded in struct vm, which fills it in. */
struct backends {
	struct context *ctx;
	const struct backend_ops *machine; /* QEMU, or another backend for tests */
	struct images *images;
	const struct policy *policy; /* the spawner's; owned by the caller */
	char *qemu;		     /* program */
	struct probe probe;
	struct tsc_sample tsc;
	struct digest_jobs digests;
	struct prefork prefork;
	/* State of the jail of the last one of each kind that was started. */
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
	bool background; /* no user waits for it */
	bool standby;	 /* a clone whose memory is not restored before backend_ops.restore */
	int ram, state;	 /* descriptors; only used during the call */
	const struct point
		*point; /* a clone that goes on from this, instead of `ram` and `state`; or NULL */
	/* Says what it sees of the host, or NULL; only with backend_ops.views. */
	const struct sandbox_spec *view;
	bool network;		   /* it has a network card */
	bool root;		   /* its root file system can be changed, by root */
	const struct layer *layer; /* its packages, or NULL */
};

struct backend_events {
	/* The agent has opened its end of the stream. */
	void (*up)(void *data);
	/* The agent has closed it again. */
	void (*hangup)(void *data);
	void (*console)(void *data, const void *bytes, size_t len);
	/* It has failed to start, or has ended; at most once. backend_ops.destroy is still due. */
	void (*down)(void *data, const struct problem *problem);
	/* The answer to backend_ops.destroy: everything is released, and the pointer is invalid as soon as this returns. */
	void (*destroyed)(void *data);
	/* Its record says something else. May be NULL. */
	void (*touched)(void *data);
};

/* Of backend_ops.point, with the data of the others. */
struct backend_point_events {
	/* point_copy() may begin, and stops it for no longer than it must. */
	void (*ready)(void *data);
	/* It is copied, and goes on. */
	void (*runs)(void *data);
	/* 0, or -errno: the last, and once. */
	void (*pointed)(void *data, int err);
};

struct backend_info {
	const char *accel;
	pid_t pid;			  /* 0 if there is none */
	const struct jail_report *report; /* state of its jail, or NULL */
	int kept;		   /* descriptor kept from its jail, or -1; owned by the backend */
	struct cgroup_stat *stats; /* counters of its jail, or NULL */
	uint64_t
		used_us; /* processor time of all of it, once it has ended; else 0, also if that is not known */
};

/* @error is NULL if the machine was saved. */
typedef void (*backend_saved_fn)(void *data, const char *error);

/* @error is NULL if it was done. */
typedef void (*backend_still_fn)(void *data, const char *error);

/* Callbacks only come from the loop. */
struct backend_ops {
	const char *name;
	bool needs_image;
	bool views;	      /* can show paths of the host */
	bool pools;	      /* has no snapshots: idle guests are started like any other */
	unsigned overhead_mb; /* host memory in addition to the guest's */

	/**
	 * start - Start one
	 * @all: Shared by all backends
	 * @spec: Configuration; only used during the call
	 * @events: Callbacks; kept
	 * @data: First argument of the callbacks
	 * @ret_backend: Result; end it with destroy()
	 * @ret_stream: Our end of the stream socket to the agent; owned by the caller
	 * @ret_problem: The reason on failure
	 *
	 * Return: 0, 1 if it is up already and `up` will not be called, or -errno.
	 */
	int (*start)(struct backends *all, const struct backend_spec *spec,
		     const struct backend_events *events, void *data, struct backend **ret_backend,
		     int *ret_stream, struct problem *ret_problem);

	/* Kills it at once. */
	void (*destroy)(struct backend *b);

	void (*info)(struct backend *b, struct backend_info *ret_info);

	/**
	 * save - Save a machine that was started with MACHINE_RECORD
	 * @b: Its agent is idle
	 * @fn: Called once, with the events' data, unless the machine goes down or is destroyed
	 *	first. The machine can't be used afterwards; the copy is complete when it is gone
	 *
	 * NULL if not supported. Return: 0 or -errno.
	 */
	int (*save)(struct backend *b, backend_saved_fn fn);

	/**
	 * point - Copy a machine that runs, and goes on: prepare for that
	 * @b: Machine that is up
	 * @p: Its files, and what they depend on, are filled in before `pointed`
	 * @events: Kept by the caller until `pointed`, or until the machine is destroyed: nothing
	 *	is told after that
	 *
	 * NULL if not supported. Return: 0 or -errno.
	 */
	int (*point)(struct backend *b, struct point *p, const struct backend_point_events *events);

	/**
	 * point_copy - Copy it, once, behind `ready`
	 * @b: Its agent is idle, and is sent nothing and says nothing until `runs` or `pointed`
	 */
	void (*point_copy)(struct backend *b);

	/** point_cancel - It is not wanted any more; `pointed` follows, unless that was told. */
	void (*point_cancel)(struct backend *b);

	/**
	 * restore - Let a clone that was started with `standby` go on from its snapshot
	 * @b: A failure brings it down
	 *
	 * NULL if clones can't stand by.
	 */
	void (*restore)(struct backend *b);

	/**
	 * stop - Have the machine stand still, its clocks as well
	 * @b: Is up
	 * @fn: Called once, with the events' data, unless the machine goes down or is destroyed first
	 *
	 * NULL if not supported. Each is undone by one cont(), also one that fails. That may be
	 * called before @fn is: the order is kept. Return: 0 or -errno.
	 */
	int (*stop)(struct backend *b, backend_still_fn fn);

	/* Let it go on, unless there was another stop() meanwhile. @fn likewise, but only called
	 * for an error. What is sent to its agent behind this call is read. Return: 0 or -errno. */
	int (*cont)(struct backend *b, backend_still_fn fn);

	/**
	 * describe - Describe everything a saved machine depends on, except its content
	 * @all: Shared by all backends; the probe is done
	 * @spec: What would be started
	 * @out: The description is appended here
	 * @ret_why: The reason on failure, valid until the next call
	 *
	 * Return: 0, -EAGAIN if it is not known yet (`changed` of the digests is called when it
	 * is), or -errno.
	 */
	int (*describe)(struct backends *all, const struct backend_spec *spec, struct buf *out,
			const char **ret_why);

	/**
	 * take_card - Hand over the host's end of the network card
	 * @b: Was started with a network, and its agent has answered
	 * @ret_stream: Whether it is a stream of frames; else it is a socket on which a TAP device
	 *	comes as a descriptor
	 *
	 * NULL if the backend has no network. Return: a descriptor, owned by the caller, or -errno;
	 * -EBUSY at the second call.
	 */
	int (*take_card)(struct backend *b, bool *ret_stream);

	/**
	 * put - Append the fields of a record by which another process can take it over
	 * @b: Is up, and neither down nor destroyed
	 * @out: Record
	 * @fds: Gets what it is held by
	 *
	 * What is under way (a point, a stop) is not told: whoever takes it over undoes that by go().
	 */
	void (*put)(const struct backend *b, struct buf *out, struct fdbag *fds);

	/**
	 * take - Take one over. As start(), with fields and descriptors that put() has made
	 *
	 * Nothing is sent to it before go(). Both are NULL if not supported. Return: 0; -EBADMSG;
	 * -EPIPE if the spawner is gone; or -errno. On failure there is nothing to destroy.
	 */
	int (*take)(struct backends *all, const struct record_reader *fields, struct fdbag *fds,
		    const struct backend_spec *spec, const struct backend_events *events,
		    void *data, struct backend **ret_backend);

	/**
	 * go - Go on with one that was taken over, when the process before is gone
	 * @b: Is up
	 * @stands: It stood still, and may do so
	 * @fn: As of cont()
	 *
	 * What that process had begun with it is undone: else it goes on. May be NULL.
	 * Return: 0 or -errno.
	 */
	int (*go)(struct backend *b, bool stands, backend_still_fn fn);

	/* Delivers pending console output, so that it can explain the end. NULL if `down` is only
	 * called after all of it. */
	void (*drain)(struct backend *b);
};

extern const struct backend_ops backend_qemu;
extern const struct backend_ops backend_process;
extern const struct prefork_ops process_prefork_ops;
#ifdef XSBX_LOCAL_BACKEND
extern const struct backend_ops backend_local;
#endif

/* The backend of a kind of sandbox. */
static inline const struct backend_ops *backends_ops(const struct backends *all,
						     enum vm_backend backend)
{
	return backend == VM_PROCESS ? &backend_process : all->machine;
}

#endif
