/* SPDX-License-Identifier: Apache-2.0 */
/* The seam between the mount (fs/) and sandboxes (vm/): all that fs/ may know of them. */
#ifndef XSBX_VM_VM_H
#define XSBX_VM_VM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

/* Its parts, by noun. Who is in fs/ includes vm.h. */
#include "vm/guest/file.h"
#include "vm/sandbox/sandbox.h"
#include "vm/sandbox/sandbox_net.h"
#include "vm/base/spec.h"
#include "status.h"
#include "vm/sandbox/workdir.h"

/*
 * Rules of the seam
 *
 * - One thread, one libuv loop. Nothing here blocks.
 * - A callback never runs inside a call of these headers: it always comes from the loop.
 * - A sandbox belongs to vm/ from sandbox_new() until its `closed` callback returns; after that the
 *   pointer is invalid. sandbox_close() asks for that end, and it may come by itself at any time.
 * - Each run that sandbox_run() accepted ends in exactly one `exit` callback, after its last
 *   `output`, and before `closed`. Each file request is answered exactly once, with -ESTALE if the
 *   sandbox goes first.
 * - Bytes and strings in callbacks are only valid during the call.
 */

struct vm;
struct policy;
struct spawner;

/* The shared store of what is expensive to make: a bucket. Credentials are in the environment. */
struct vm_store {
	const char *url;     /* https://host/bucket/prefix; NULL or "": there is none */
	const char *region;  /* or NULL */
	const char *program; /* xsbxfs-store */
	bool read, write;
	unsigned timeout_s; /* for one object */
};

/* Where packages come from; what is NULL or "" is looked up in this host's own settings. */
struct vm_packages {
	const char *dir; /* holds the programs `prepare` and `install` */
	const char *python_index, *python_hosts;
	const char *npm_registry, *npm_hosts;
	const char *offline;  /* a directory that has all there is: no network is used then */
	uint64_t layer_bytes; /* most disk space for what was installed; 0: as much as it needs */
};

struct vm_config {
	const char *cache_dir;	 /* holds images/templates/NAME */
	const char *runtime_dir; /* this mount's own directory, 0700, exists; for what must be found
				  * again after a crash */
	const char *qemu;	 /* program, e.g. "qemu-system-x86_64" */
	const char *agent;	 /* the agent's static binary */
	const char *accel;	 /* "auto", "kvm", "tcg" */
	const char *kernel;	 /* "auto", "own", "stock"; NULL: "auto" */
	const char *image_builder; /* program that builds images that are missing, or "none" */
	unsigned max_vms;	 /* admission: sandboxes at once; 0: derived from memory and CPUs */
	unsigned max_vms_user;	 /* of one user; 0: all, or three quarters if `shared` */
	bool shared;		 /* by several users: none of them may have everything */
	unsigned memory_percent; /* of the host's memory that may be promised; 0: 200 */
	unsigned cpu_percent;	 /* of its processors; 0: 200 */
	uint64_t reserve_bytes;	 /* of its memory to be left alone; 0: derived */
	unsigned queue;		 /* how many may wait for a place; 0: no limit */
	unsigned queue_user;	 /* of one user */
	unsigned admission_s;	 /* longest wait for a place, seconds */
	unsigned boot_s;	 /* longest time from start to ready, seconds */
	bool mitigate;		 /* sandboxes never have the processor speculate as it likes */
	bool no_machines; /* no template's sessions begin as machines: nobody may need QEMU */
	uint64_t snapshot_bytes; /* most disk space for snapshots; 0: as much as they need */
	struct vm_host_ports
		host_ports; /* of this machine, for sandboxes that list host.internal */
	/* Certificates that sandboxes with a network find at VM_CA_FILE, read-only: the bytes, and the
	 * file of the host that they are from. They must outlive the vm. NULL: none. */
	const void *ca;
	size_t ca_len; /* at most VM_CA_MAX */
	const char *ca_path;
	const struct policy *policy; /* that the spawner has; must outlive the vm */
	struct vm_store store;
	struct vm_packages packages;
};

#define VM_CA_FILE "/run/xsbx/ca.pem"
#define VM_CA_MAX  (1u << 20)

/* Progress and news that belong to no sandbox. */
struct vm_events {
	void (*event)(void *data, const char *kind, const char *words); /* a line for `events` */
};

/**
 * vm_new() - Make the machinery: accelerator probe, templates, admission
 * @loop: Loop that everything runs on
 * @spawner: Started by spawner_start(), before the loop; stays the caller's
 * @cfg: Copied as far as needed
 * @events: News; kept, must outlive the vm
 * @data: First argument of the callbacks in @events
 * @ret_vm: Result; end it with vm_close()
 *
 * Return: 0 or -errno.
 */
int vm_new(uv_loop_t *loop, struct spawner *spawner, const struct vm_config *cfg,
	   const struct vm_events *events, void *data, struct vm **ret_vm);

/* Closes every sandbox, then calls @done once from the loop; @vm is invalid after that. */
void vm_close(struct vm *vm, void (*done)(void *data), void *data);

/**
 * vm_prepare() - Have a kind of sandbox ready before anybody asks for one
 * @vm: Machinery
 * @spec: What the sandboxes will be; copied as far as needed
 *
 * Its snapshot is loaded or made and its pool filled, in the background, as long as the machinery lives.
 */
void vm_prepare(struct vm *vm, const struct sandbox_spec *spec);

/**
 * vm_image() - What is known of a template's image
 * @vm: Machinery
 * @name: Image name, e.g. "python"
 * @ret_why: If NULL is returned, why (static or valid until the next call)
 *
 * Return: The image's manifest as JSON text, valid until the next call, or NULL if there is no usable image.
 */
const char *vm_image(struct vm *vm, const char *name, const char **ret_why);

/* How things stand with an image that may be missing. */
struct vm_image_status {
	const char *state;   /* "ready", "missing", "waiting", "building", "failed" */
	const char *step;    /* the last line of its builder, or "" */
	const char *problem; /* "" unless it is missing or has failed */
	uint64_t elapsed_ms; /* since the build began; 0 unless it has */
};

/* Strings are valid until the next call. */
void vm_image_status(struct vm *vm, const char *name, struct vm_image_status *ret_status);

/* Where packages would be used. */
struct vm_offer_for {
	enum vm_backend backend;
	bool image_view; /* as in struct sandbox_spec */
	const char *image, *language;
	uid_t owner; /* who asks */
};

/* The answer: @words are the packages with versions, as the registry knows them and not checked here, or
 * NULL, and then @why says in words why there are none. */
typedef void (*vm_offer_fn)(void *data, const char *words, const char *why);

/**
 * vm_offer() - Look up the newest versions of packages that fit each other and an interpreter
 * @vm: Machinery
 * @what: Where they would be used; copied
 * @packages: Canonical text, in which versions may be missing
 * @fn: Called once from the loop, unless an error is returned
 * @data: Its first argument
 *
 * It is done as an installation is, in a sandbox that sees the registry and nothing else, and takes no longer
 * than half a minute once it has begun.
 *
 * Return: 0, -EBUSY if this user has asked for enough already, or -errno.
 */
int vm_offer(struct vm *vm, const struct vm_offer_for *what, const char *packages, vm_offer_fn fn,
	     void *data);

enum vm_level { VM_OK, VM_WARN, VM_FAIL, VM_NLEVELS };

/* One finding of the doctor. @fix is "" where nothing is to mend. */
typedef void (*vm_check_fn)(void *data, const char *name, enum vm_level level, const char *found,
			    const char *fix);

/* Looks at this host: QEMU, accelerator, images, memory, limits. @vm may be NULL (xsbxfs --check);
 * then the accelerator is probed here and now, which takes up to two seconds. */
void vm_doctor(struct vm *vm, const struct vm_config *cfg, vm_check_fn fn, void *data);

/* `key: value` lines of what is really enforced for each backend. */
void vm_isolation(struct vm *vm, void (*line)(void *data, const char *key, const char *value),
		  void *data);

#endif
