/* SPDX-License-Identifier: Apache-2.0 */
/* A guest: a backend that runs user code, and the connection to the agent in it, from start to end. */
#ifndef XSBX_VM_GUEST_GUEST_H
#define XSBX_VM_GUEST_GUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>
#include <uv.h>

#include "agent/protocol.h"
#include "channel.h"
#include "file.h"
#include "run.h"
#include "vm/backend/backend.h"
#include "vm/base/spec.h"

/*
 * A guest knows nothing about templates, places or users; its owner does. It reports to its owner through
 * events, and can be handed to another owner (guest_introduce()).
 *
 * - Events come from the loop only, never during a call to a function of this header, except `problem` and `touched`.
 * - guest_close() asks for its end, which may also come by itself. `closed` is called once, when everything is
 *   released; the pointer is invalid after that.
 * - Each run that guest_run() has accepted ends in one `exit`, after its last `output` and before `closed`; each
 *   file request is answered once, with -ESTALE if the guest ends first.
 * - Jobs have `output` and `exit` in the same way, by their ids; not after guest_job_forget(), which is answered by
 *   `gone` or `closed`.
 */

struct guest;
struct layer;
struct pack;
struct point;

TAILQ_HEAD(guest_list, guest);

/* Shared by all guests. Embedded in struct vm, which fills in the members up to `ca_len`, and the turn of `scratch`. */
struct guests {
	struct context *ctx;
	struct backends *backends;
	const struct host *host; /* says who has to wait for a processor; or NULL */
	unsigned boot_s;	 /* longest time from start to `up` */
	const void *ca;		 /* certificates for guests with a network; owned by the caller */
	size_t ca_len;
	bool stand_still; /* those with nothing to do */

	struct guest_list list; /* all; struct vm ends when there are none */
	uv_timer_t beat;	/* their heartbeat, while there are any; closed by the caller */
	unsigned beats;
	struct channel_scratch scratch;
};

/* Any of these may be NULL. */
struct guest_events {
	/* Ready for runs and jobs: after the start, and after each reset. */
	void (*up)(void *data);
	void (*console)(void *data, const void *bytes, size_t len);
	void (*output)(void *data, uint32_t run, enum vm_stream stream, const void *bytes,
		       size_t len);
	void (*exit)(void *data, uint32_t run, const struct vm_result *result);
	/* A run or a job takes more input; reads no more of it. */
	void (*room)(void *data, uint32_t id);
	void (*deaf)(void *data, uint32_t id);
	/* Of a job: nothing is left of it. */
	void (*gone)(void *data, uint32_t job);
	/* The answer to guest_freeze(): 0, or -errno and it goes on. */
	void (*frozen)(void *data, int err);
	/* Of guest_point_begin(): guest_point() may follow; and behind that, the machine has been copied and goes on, so that
	 * user code may too. */
	void (*point_ready)(void *data);
	void (*runs)(void *data);
	/* The answers to guest_pack(), guest_unpack() and guest_point_begin(): 0, or -errno; @path: of the file that failed, printable,
	 * or "". Their reference is the callee's. */
	void (*packed)(void *data, int err, struct pack *pack, const char *path);
	void (*unpacked)(void *data, int err, const char *path);
	void (*pointed)(void *data, int err, struct point *point);
	/* See sandbox_watch(). */
	void (*changed)(void *data, const struct sandbox_change *c);
	/* Of one whose spec has `learn`. */
	void (*learned)(void *data, const struct sandbox_learned *l);
	/* A lease of its files has ended that nothing of ours has ended. */
	void (*stirs)(void *data);
	/* With a turn (vm/base/turn.h): what guest_put() writes has changed, or is about to. May come during a call, and before
	 * any other event. */
	void (*touched)(void *data);
	/* Its usage is being queried. */
	void (*asked)(void *data);
	/* With MACHINE_RECORD: it was saved. It can't be used any more, and the copy is complete when it is closed. */
	void (*saved)(void *data);
	/* It has to end because of @problem. The only event that may come during a call. */
	void (*problem)(void *data, const struct problem *problem);
	/* The end. @problem is NULL if it was asked for by guest_close(). */
	void (*closed)(void *data, const struct problem *problem);
};

struct guest_config {
	const struct backend_ops *ops;
	const struct sandbox_spec *spec; /* copied */
	struct layer *layer;		 /* its packages, or NULL; the guest takes a reference */
	enum machine_mode mode;
	int ram, state; /* as for backend_ops.start */
	const struct point *
		point; /* with MACHINE_CLONE: it goes on from this instead; or NULL. Only used by guest_new() */
	bool background; /* no user waits for it; its interpreter is exercised before `up` */
	bool brief;	 /* ... no more than is needed */
	bool standby;	 /* a clone that does not go on before guest_restore() */
	/* With MACHINE_RECORD: names of packages, one a line, that it imports before all else; or NULL. Copied. */
	const char *imports;
};

#define GUEST_CULPRIT_MAX 256

void guests_init(struct guests *all);

/**
 * guest_new() - Start a guest
 * @all: Shared by all guests
 * @cfg: Configuration
 * @events: Kept
 * @data: First argument of @events' callbacks
 * @ret_guest: Result
 *
 * Return: 0, -E2BIG, -ENOMEM. All other failures are reported by `closed`.
 */
int guest_new(struct guests *all, const struct guest_config *cfg, const struct guest_events *events,
	      void *data, struct guest **ret_guest);

/**
 * guest_introduce() - Hand a guest that no user has asked for to another owner
 * @g: Guest that is up and idle, or starting
 * @spec: Its new spec: name, variables and limits are sent to the agent; copied
 * @events: Of the new owner
 * @data: Their first argument
 *
 * If it is up, runs may follow at once, and see the new spec; else when `up` has come, which does so without further
 * exercises.
 *
 * Return: 0, -E2BIG or -ENOMEM; on failure only the owner has changed.
 */
int guest_introduce(struct guest *g, const struct sandbox_spec *spec,
		    const struct guest_events *events, void *data);

/* Lets one that stands by start; @brief as in struct guest_config. */
void guest_restore(struct guest *g, bool brief);

/* Idempotent. */
void guest_close(struct guest *g);

/* Ends it because of @problem, unless it is ending already. */
void guest_fail(struct guest *g, const struct problem *problem);

/* ---- runs ---- */

/* Return: 0, -EBUSY unless it is up and runs nothing, -EFBIG for code over PROTO_CODE_MAX, -ENOMEM. */
int guest_run(struct guest *g, const struct sandbox_run *run);

/* See sandbox_hold(), sandbox_signal(). */
void guest_hold(struct guest *g, bool hold);
int guest_signal(struct guest *g, uint32_t id, enum sandbox_signal sig);

/* See sandbox_write(). */
bool guest_write(struct guest *g, uint32_t id, const void *data, size_t len, bool last,
		 size_t *ret_taken);

/* ---- jobs ---- */

/**
 * guest_job() - Start a program beside the interpreter
 * @g: Guest that is up
 * @job: What to start; copied
 *
 * Return: 0, -EBUSY unless it is up, -EMFILE if PROTO_JOBS_MAX have not been forgotten, -E2BIG, -ENOMEM.
 */
int guest_job(struct guest *g, const struct sandbox_job *job);

/* @sig: enum sandbox_signal. Return: 0, -ESRCH if it does not run, -EINVAL, -ENOMEM. */
int guest_job_signal(struct guest *g, uint32_t id, unsigned sig);

/* See sandbox_hold(). */
void guest_job_hold(struct guest *g, uint32_t id, bool hold);

/* Its terminal has another size. Return: 0, -ESRCH, -ENOMEM. */
int guest_job_resize(struct guest *g, uint32_t id, unsigned rows, unsigned cols);

/* Ends all that is left of it, even if the agent can only be told later; `gone` follows. Return: 0, -ESRCH. */
int guest_job_forget(struct guest *g, uint32_t id);

/* Restarts the interpreter; all jobs are killed, and `up` follows. Return: 0, -EBUSY unless it is up and runs nothing, -ENOMEM. */
int guest_reset(struct guest *g);

/* See sandbox_freeze(). */
int guest_freeze(struct guest *g);
void guest_thaw(struct guest *g);

/* Who could not be stopped, as its agent says. */
struct guest_unstopped {
	enum proto_unstopped why;
	uint32_t pid;		       /* 0: none in particular */
	char name[PROTO_COMM_MAX + 1]; /* any bytes but NUL */
};

/* ... when `frozen` says -EBUSY: UNKNOWN if it does not say, or there is a run. */
const struct guest_unstopped *guest_unstopped(const struct guest *g);

/* Has nothing run since it stands still? `frozen` says so: -ECANCELED if it has, which goes on then. With @thaw it goes on
 * in any case, at once. Return: 0, -EBUSY, -ENOMEM. */
int guest_check_frozen(struct guest *g, bool thaw);

/* ---- saving ---- */

/* The checksum of what an interpreter is started with: where it is another one, the agent starts another. Return: 0 or -ENOMEM. */
int guest_interpreter_sum(const struct sandbox_spec *spec, char ret_hex[DIGEST_HEX]);

/* Each only of a guest that is up, runs nothing and has no jobs, one of them at a time, and no run may be sent before its
 * answer. Return: 0, -EBUSY, -EOPNOTSUPP, -ENOMEM. */

/* Reads all files of the working directory; `packed` follows, unless it is reset or ends first. */
int guest_pack(struct guest *g);

/* Puts the files of @p into the working directory, whose own are removed; `unpacked` follows, unless it is reset or ends
 * first. */
int guest_unpack(struct guest *g, struct pack *p);

/* Prepares for a copy of the machine, and of its interpreter, while they run. `point_ready` follows, and `pointed` is the last; or that alone, with
 * an error. */
int guest_point_begin(struct guest *g);

/* Copies the machine, behind `point_ready`. `runs` follows, if nothing fails. */
int guest_point(struct guest *g);

/* It is not wanted any more; nothing follows. */
void guest_point_cancel(struct guest *g);

/* See sandbox_watch(). */
int guest_watch(struct guest *g, bool on);

/* See sandbox_file() and sandbox_file_undo(). */
int guest_file(struct guest *g, const struct vm_file *req, vm_file_fn fn, void *data);
void guest_undo_file(struct guest *g, enum vm_file_op op, const struct vm_file_reply *reply);

/* Is there a request that changes files, and is not answered yet? */
bool guest_changes_files(const struct guest *g);

/* ---- from one daemon to the next ---- */

struct fdbag;
struct record_reader;

/* Appends the fields of a record by which another process can take it over. It is up, or was and is being reset, or ends with
 * a problem. Nothing of it may happen here afterwards. What is under way goes on there (a run, a reset, a freeze, requests for files),
 * or is undone
 * (a pack, a point, a stop).
 * Return: 0 or -EOPNOTSUPP. */
int guest_put(struct guest *g, struct buf *out, struct fdbag *fds);

/* May a field, by the tags on the way to it, say less than guest_put() would by now? */
bool guest_field_is_late(const unsigned *tags, size_t n);

/**
 * guest_take() - Take over a guest that another process has put
 * @all: Shared by all guests
 * @cfg: Of this `ops`, `spec` and `layer`
 * @fields: Not trusted
 * @fds: What it is held by
 * @events: Kept
 * @data: First argument of @events' callbacks
 * @ret_guest: Result: as it was, but nothing is read from it or sent to it before guest_go()
 *
 * Return: as guest_new(), or -EOPNOTSUPP. Fields that make no sense are a failure that `closed` reports.
 */
int guest_take(struct guests *all, const struct guest_config *cfg,
	       const struct record_reader *fields, struct fdbag *fds,
	       const struct guest_events *events, void *data, struct guest **ret_guest);

/* Of the nodes of its files the host holds so many lookups, and of no others, from guest_go() on. Does nothing if requests
 * are on their way. Return: 0 or -ENOMEM. */
int guest_hold_nodes(struct guest *g, const struct vm_held_node *nodes, size_t n);

/* It goes on with a guest that was taken over. One that stands still is not disturbed: its agent hears of its new host before
 * the next frame. */
void guest_go(struct guest *g);

/* See sandbox_file_asked() and vm_replayed(). */
bool guest_file_asked_before(const struct guest *g, const struct vm_file *req, uint64_t *ret_token);
void guest_replayed(struct guest *g);

/* ---- queries ---- */

struct guest_info {
	struct backend_info backend;
	const char *interpreter;
	/* ms of the loop's clock, or 0 */
	uint64_t started_at, hello_at, ready_at;
	/* It imports its packages, or is exercised behind that, or did or was when it ended; the import has failed, not
	 * something else meanwhile; and at which it was when it ended, or "". */
	bool imports_unproven, import_failed;
	const char *culprit;
	/* It stands still: it has nothing to do, and takes no processor time. Or why it did not when it was asked last, in
	 * its agent's words, or "". */
	bool stands_still;
	const char *goes_on;
};

/* @g: or NULL: nothing is known then. */
void guest_info(const struct guest *g, struct guest_info *ret_info);

/* Processor time that it has taken from the host so far, in microseconds: of QEMU, or of all processes in its jail, as the host
 * counts it; its agent is not asked. Also in `closed`. */
uint64_t guest_used_us(const struct guest *g);

/* The last known usage. Return: 0 or -ENODATA. */
int guest_usage(const struct guest *g, struct sandbox_usage *ret_usage);

bool guest_is_up(const struct guest *g);

/* The run that it has, or 0. */
uint32_t guest_run_id(const struct guest *g);

/* How many stand still. */
unsigned guests_still(const struct guests *all);

/* Somebody is about to talk to it but by its agent: it goes on, if it stood still, for a moment at least. */
void guest_stir(struct guest *g);

/* Does any job run, or was one forgotten that is not gone yet? */
bool guest_has_jobs(const struct guest *g);

/* Was it closed, or has it failed? */
bool guest_is_ending(const struct guest *g);

/* Was it killed long ago without being gone? Then it is stuck in the kernel. */
bool guest_lingers(const struct guest *g);

/* Has it been silent for longer than an answer takes; and: has it closed its end, even if the loop has not noticed
 * yet? */
bool guest_is_silent(const struct guest *g);
bool guest_hung_up(const struct guest *g);

/* The host's end of its network card, once. Return: a descriptor, or -errno; -EOPNOTSUPP if it has none. */
int guest_take_card(struct guest *g, bool *ret_stream);

/* Certificates that programs in it are to trust from now on, behind those of the host: in PEM format. It has to have a network. */
void guest_trust(struct guest *g, const void *pem, size_t len);

#endif
