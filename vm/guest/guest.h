/* SPDX-License-Identifier: Apache-2.0 */
/* A guest: something that runs user code, and the conversation with the agent in it, from start to end. */
#ifndef XSBX_VM_GUEST_GUEST_H
#define XSBX_VM_GUEST_GUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "channel.h"
#include "file.h"
#include "run.h"
#include "vm/backend/backend.h"
#include "vm/base/spec.h"

/*
 * A guest knows no template, no place and no user: whoever owns it does. Its owner is told by the events what
 * becomes of it, and may be another one later (guest_introduce()).
 *
 * - Events come from the loop only, never within a call of this header, but for `problem`.
 * - guest_close() asks for its end, which may also come by itself. `closed` is called once, when nothing is left
 *   of it, and the pointer is invalid after that.
 * - Each run that guest_run() has accepted ends in one `exit`, after its last `output` and before `closed`; each
 *   request for files is answered once, with -ESTALE if the guest goes first.
 */

struct guest;
struct layer;

/* What all guests are given, once. Embedded in the machinery, which fills it in. */
struct guests {
	struct context *ctx;
	struct backends *backends;
	unsigned boot_s; /* longest time from start to `up` */
	const void *ca;	 /* certificates for guests with a network; the caller's */
	size_t ca_len;
	unsigned count; /* of those that are there; who ends the machinery waits for none */
	struct channel_scratch scratch;
};

/* What an owner does not care for is NULL. */
struct guest_events {
	/* It takes runs: at first, and after each reset. */
	void (*up)(void *data);
	void (*console)(void *data, const void *bytes, size_t len);
	void (*output)(void *data, uint32_t run, enum vm_stream stream, const void *bytes,
		       size_t len);
	void (*exit)(void *data, uint32_t run, const struct vm_result *result);
	/* The answer to guest_freeze(): 0, or -errno and it goes on. */
	void (*frozen)(void *data, int err);
	/* It is being asked what it uses. */
	void (*asked)(void *data);
	/* Of one that is recorded: it was copied. It is of no use any more, and the copy is whole when it is closed. */
	void (*saved)(void *data);
	/* It has to end because of that. The only one that may come within a call of this header. */
	void (*problem)(void *data, const struct problem *problem);
	/* The end. @problem is NULL if it was asked for by guest_close(). */
	void (*closed)(void *data, const struct problem *problem);
};

struct guest_config {
	const struct backend_ops *ops;
	const struct sandbox_spec *spec; /* copied */
	struct layer *layer;		 /* its packages, or NULL; gets a reference */
	enum machine_mode mode;
	int ram, state;	 /* as for backend_ops.start */
	bool background; /* nobody waits for it; its interpreter is exercised before it is up */
};

/**
 * guest_new() - Start a guest
 * @all: What guests are given
 * @cfg: What is wanted
 * @events: Kept
 * @data: First argument of @events' callbacks
 * @ret_guest: Result
 *
 * Return: 0, -E2BIG, -ENOMEM. All else that can go wrong arrives as `closed`.
 */
int guest_new(struct guests *all, const struct guest_config *cfg, const struct guest_events *events,
	      void *data, struct guest **ret_guest);

/**
 * guest_introduce() - Give an idle guest to somebody else
 * @g: Guest that is up
 * @spec: What it is to be from now on: name, variables and limits are told its agent; copied
 * @events: Of its new owner
 * @data: Their first argument
 *
 * Runs may follow at once: what they find is theirs.
 *
 * Return: 0, -E2BIG or -ENOMEM, and nothing has changed but whom it tells.
 */
int guest_introduce(struct guest *g, const struct sandbox_spec *spec,
		    const struct guest_events *events, void *data);

/* Idempotent. */
void guest_close(struct guest *g);

/* Ends it because of @problem, unless it is ending. */
void guest_fail(struct guest *g, const struct problem *problem);

/* ---- runs ---- */

/* Return: 0, -EBUSY unless it is up and runs nothing, -EFBIG for code over PROTO_CODE_MAX, -ENOMEM. */
int guest_run(struct guest *g, const struct sandbox_run *run);

/* See sandbox_hold(), sandbox_signal(). */
void guest_hold(struct guest *g, bool hold);
int guest_signal(struct guest *g, uint32_t id, enum sandbox_signal sig);

/* A fresh interpreter; `up` follows. Return: 0, -EBUSY unless it is up and runs nothing, -ENOMEM. */
int guest_reset(struct guest *g);

/* See sandbox_freeze(). */
int guest_freeze(struct guest *g);
void guest_thaw(struct guest *g);

/* See sandbox_file(). */
int guest_file(struct guest *g, const struct vm_file *req, vm_file_fn fn, void *data);

/* ---- questions ---- */

struct guest_info {
	struct backend_info backend;
	const char *interpreter;
	/* ms of the loop's clock, or 0 */
	uint64_t started_at, hello_at, ready_at;
};

void guest_info(const struct guest *g, struct guest_info *ret_info);

/* The last known. Return: 0 or -ENODATA. */
int guest_usage(const struct guest *g, struct sandbox_usage *ret_usage);

bool guest_is_up(const struct guest *g);

/* It was told to end, or has to. */
bool guest_is_ending(const struct guest *g);

/* It was killed, and is not gone since long: it sits in the kernel. */
bool guest_lingers(const struct guest *g);

/* Nothing has been heard of it for longer than an answer takes; and: is its other end gone, also if that was not
 * noticed yet? */
bool guest_is_silent(const struct guest *g);
bool guest_hung_up(const struct guest *g);

/* The other end of its network card, once. Return: a descriptor, or -errno; -EOPNOTSUPP where there is none. */
int guest_take_card(struct guest *g, bool *ret_stream);

#endif
