/* SPDX-License-Identifier: Apache-2.0 */
/* The interface between the mount (fs/) and sandboxes (vm/): all that fs/ may know about them. */
#ifndef XSBX_VM_VM_H
#define XSBX_VM_VM_H

#include <limits.h>
#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

/* Its parts, by noun: fs/ includes this header, not them. */
#include "vm/guest/file.h"
#include "vm/base/config.h"
#include "vm/base/log.h"
#include "vm/build/offer.h"
#include "vm/checkpoint/saved.h"
#include "vm/checkpoint/saved_record.h"
#include "vm/checkpoint/vault.h"
#include "vm/sandbox/sandbox.h"
#include "vm/sandbox/sandbox_net.h"
#include "vm/sandbox/sandbox_policy.h"
#include "vm/base/spec.h"
#include "status.h"
#include "vm/sandbox/workdir.h"

/*
 * Rules of the interface
 *
 * - One thread, one libuv loop. Nothing here blocks.
 * - A callback never runs inside a call of these headers: it always comes from the loop. But `touched` and `spent`.
 * - A sandbox belongs to vm/ from sandbox_new() until its `closed` callback returns; after that the
 *   pointer is invalid. sandbox_close() asks for that end, and it may come by itself at any time.
 * - Each run that sandbox_run() accepted ends in exactly one `exit` callback, after its last
 *   `output`, and before `closed`. Each file request is answered exactly once, with -ESTALE if the
 *   sandbox goes first.
 * - Bytes and strings in callbacks are only valid during the call.
 */

struct problem;
struct vm;
struct spawner;
struct estate;
struct turn;

/* Events that belong to no sandbox. */
struct vm_events {
	void (*event)(void *data, const char *kind, const char *words); /* a line for `events` */
	/* What a user's sandboxes have taken from the host since this was called last: microseconds of its processors, and bytes
	 * that went through the networks of sandboxes, both ways. Every few seconds, at the end of each sandbox, and once by two
	 * daemons, one behind the other. May be NULL. */
	void (*spent)(void *data, uid_t owner, uint64_t us, uint64_t bytes);
};

/**
 * vm_new() - Create the manager of all sandboxes: accelerator probe, templates, admission
 * @loop: Loop that everything runs on
 * @spawner: Started by spawner_start(), before the loop; stays the caller's
 * @cfg: Copied as far as needed
 * @events: Kept, must outlive the vm
 * @data: First argument of the callbacks in @events
 * @ret_vm: Result; end it with vm_close()
 *
 * Return: 0 or -errno.
 */
int vm_new(uv_loop_t *loop, struct spawner *spawner, const struct vm_config *cfg,
	   const struct vm_events *events, void *data, struct vm **ret_vm);

/**
 * vm_keep() - Keep what is saved on a disk
 * @vm: Machinery, just made
 * @state_dir: Directory of the caller's, for nobody else; has or gets `saved` and `key`
 * @ret_why: On failure, in words
 *
 * Blocks until the key is there, which may be told by a program (key_command). vm_vault() is there then. Return: 0 or -errno.
 */
int vm_keep(struct vm *vm, int state_dir, struct problem *ret_why);

/* From now on what follows from messages is written down before anything is said, and before they are taken out of their
 * sockets. @turn: outlives it. Before anything runs. */
void vm_set_turn(struct vm *vm, struct turn *turn);

/* While sandboxes of a daemon before this one are loaded: where the rest is of what they had to say. @left: or NULL, in the end. */
void vm_set_left(struct vm *vm, struct estate *left);

/* What was found out about this host, for a daemon that goes on where this one has died: is it anything, its fields, and what the heir
 * does with them. Return: 0 or -errno. */
bool vm_host_is_known(const struct vm *vm);
void vm_host_put(const struct vm *vm, struct buf *out);
int vm_host_get(struct vm *vm, struct record_reader fields);

/* In an heir, which is the daemon now: what is not known is found out. */
void vm_host_go(struct vm *vm);

/* NULL: nothing is kept. */
struct vault *vm_vault(const struct vm *vm);

/* Closes every sandbox, then calls @done once from the loop; @vm is invalid after that. */
void vm_close(struct vm *vm, void (*done)(void *data), void *data);

/* What is logged from now on, by the spawner too; agents hear of it with their next run. */
void vm_log_level(struct vm *vm, enum log_level level);

/**
 * vm_prepare() - Keep a kind of sandbox ready before anybody asks for one
 * @vm: Machinery
 * @spec: What the sandboxes will be; copied as far as needed
 *
 * Its snapshot is loaded or made and its pool filled, in the background, until vm_close().
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

/**
 * vm_image_where() - Where the files of a template's image are
 * @ret_shared: Whether these are the ones that root has made for all
 *
 * Return: their directory, valid until the next call; NULL if there are none.
 */
const char *vm_image_where(struct vm *vm, const char *name, bool *ret_shared);

/* State of an image that may be missing. */
struct vm_image_status {
	const char *state;   /* "ready", "missing", "waiting", "building", "failed" */
	const char *step;    /* the last line of its builder, or "" */
	const char *problem; /* "" unless it is missing or its build has failed */
	uint64_t elapsed_ms; /* since the build began; 0 unless it has */
};

/* Strings are valid until the next call. */
void vm_image_status(struct vm *vm, const char *name, struct vm_image_status *ret_status);

/**
 * vm_offer() - Look up the newest versions of packages that fit each other and an interpreter
 * @vm: Machinery
 * @what: Where they would be used; copied
 * @packages: Canonical text, in which versions may be missing
 * @fn: Called once from the loop, unless an error is returned
 * @data: Its first argument
 *
 * This runs like an installation, in a sandbox that reaches the registry and nothing else, and is limited to half
 * a minute once it has started.
 *
 * Return: 0, -EBUSY if this user has too many requests pending, or -errno.
 */
int vm_offer(struct vm *vm, const struct vm_offer_for *what, const char *packages, vm_offer_fn fn,
	     void *data);

/* Return: as saved_take(). */
int vm_saved_take(struct vm *vm, struct record_reader fields, struct fdbag *fds, bool died,
		  struct saved **ret_saved);

#define VM_TRACE_MAX \
	(PIPE_BUF -  \
	 2) /* bytes of a span, and of what all are of: with a word before them, and a line feed */

/* Do spans go anywhere? And one of them, as JSON on one line: it is sent, or dropped; nothing waits. */
bool vm_traces(const struct vm *vm);
void vm_trace(struct vm *vm, const char *json);

enum vm_level { VM_OK, VM_WARN, VM_FAIL, VM_NLEVELS };

/* One finding of the doctor. @fix is "" if nothing needs fixing. */
typedef void (*vm_check_fn)(void *data, const char *name, enum vm_level level, const char *found,
			    const char *fix);

/* Checks this host: QEMU, accelerator, images, memory, limits. @vm may be NULL (xsbxfs --check);
 * the accelerator is then probed synchronously, which takes up to two seconds. */
void vm_doctor(struct vm *vm, const struct vm_config *cfg, vm_check_fn fn, void *data);

/* `key: value` lines about what is actually enforced for each backend. */
void vm_isolation(struct vm *vm, void (*line)(void *data, const char *key, const char *value),
		  void *data);

#endif
